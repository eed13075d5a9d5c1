# SPDX-License-Identifier: Apache-2.0
"""The job that deletes a chat in phases, and the empty entries that remain."""

import re
from typing import Final, Literal

import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import CHAT, ChatId, UserKey, tenant_itself, tenant_of

Phase = Literal["started", "members_removed", "keys_removed", "done"]
"""started: nothing can be appended any more. members_removed: nobody can read the chat, and it is
in nobody's chat list. keys_removed: repeats of its sends are no longer recognised. done: every
entry is empty."""

JOB: Final = re.compile(f"delete-chat-({CHAT.pattern})")


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The job that deletes one chat. A chat is deleted once, so it has at most one job."""

    chat_id: ChatId
    tenant: str
    deleted_by: UserKey
    phase: Phase = "started"
    emptied: int = 0
    """Sequence up to which all entries are empty."""
    entries: int
    """Number of entries: the sequence of the last entry, `deleted`."""
    created_at: int
    updated_at: int

    @property
    def job_id(self) -> str:
        """Name of the job. It contains the chat's id, so that a repeat finds the same job."""
        return f"delete-chat-{self.chat_id}"


def deletion_of(deleted: Entry) -> Deletion:
    """Return the job that begins with an entry `deleted`."""
    return Deletion(
        chat_id=deleted.chat_id,
        tenant=tenant_of(deleted.sender),
        deleted_by=deleted.sender,
        entries=deleted.sequence,
        created_at=deleted.created_at,
        updated_at=deleted.created_at,
    )


def finished(deleted: Entry) -> Deletion:
    """Return the finished job of a chat that has only empty entries left."""
    begun = deletion_of(deleted)
    return msgspec.structs.replace(begun, phase="done", emptied=begun.entries)


def chat_of(job_id: str) -> ChatId | None:
    """Return the chat that a job deletes; None if it is not the name of a deletion job."""
    found = JOB.fullmatch(job_id)
    return ChatId(found[1]) if found else None


def emptied(entry: Entry) -> Entry:
    """Return what remains of an entry of a deleted chat: its sequence, kind and time.

    The slot stays taken: a process that does not know about the deletion yet would write into a
    free slot.
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
