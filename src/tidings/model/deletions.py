# SPDX-License-Identifier: Apache-2.0
"""Deleting a chat: a job in phases, and what is left of an entry afterwards."""

import re
from typing import Final, Literal

import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import CHAT, ChatId, UserKey, tenant_itself, tenant_of

Phase = Literal["started", "members_removed", "keys_removed", "done"]
"""started: nothing is taken in any more. members_removed: nobody reads it, and it is in nobody's
chat list. keys_removed: no send of it is recognised any more. done: every entry is empty."""

JOB: Final = re.compile(f"delete-chat-({CHAT.pattern})")


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The job of deleting one chat. A chat is deleted once, so there is one at the most."""

    chat_id: ChatId
    tenant: str
    deleted_by: UserKey
    phase: Phase = "started"
    emptied: int = 0
    """All entries up to here are empty."""
    entries: int
    """How many there are: the sequence of the entry `deleted`, the last one."""
    created_at: int
    updated_at: int

    @property
    def job_id(self) -> str:
        """The name of the job. It names the chat, so that asking again finds the same one."""
        return f"delete-chat-{self.chat_id}"


def deletion_of(deleted: Entry) -> Deletion:
    """The job that begins with an entry `deleted`."""
    return Deletion(
        chat_id=deleted.chat_id,
        tenant=tenant_of(deleted.sender),
        deleted_by=deleted.sender,
        entries=deleted.sequence,
        created_at=deleted.created_at,
        updated_at=deleted.created_at,
    )


def finished(deleted: Entry) -> Deletion:
    """The job of a chat of which only empty entries are left."""
    begun = deletion_of(deleted)
    return msgspec.structs.replace(begun, phase="done", emptied=begun.entries)


def chat_of(job_id: str) -> ChatId | None:
    """The chat that a job deletes; None if it is the name of no such job."""
    found = JOB.fullmatch(job_id)
    return ChatId(found[1]) if found else None


def emptied(entry: Entry) -> Entry:
    """What is left of an entry of a deleted chat: its place, its kind and its time.

    The place stays taken. A process that does not know yet that the chat is deleted would find a
    free one and write into it.
    """
    if entry.kind == "deleted":
        return entry
    return Entry(
        chat_id=entry.chat_id,
        kind=entry.kind,
        sender=tenant_itself(tenant_of(entry.sender)),
        sequence=entry.sequence,
        created_at=entry.created_at,
        number=entry.number,
        last_message=entry.last_message,
        active_at=entry.active_at,
        mark=entry.mark,
        redacted=True,
    )
