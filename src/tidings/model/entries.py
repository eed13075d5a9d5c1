# SPDX-License-Identifier: Apache-2.0
"""Types of a chat's log (entries, head, idempotency keys), and of the job that deletes a chat."""

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tidings.model.attachments import File
from tidings.model.chat_settings import ChatSettings
from tidings.model.ids import (
    CHAT,
    ChatId,
    UserKey,
    tenant_itself,
    tenant_of,
    user_id,
    user_key,
)
from tidings.model.roles import Role

Kind = Literal[
    "created",
    "message",
    "edited",
    "redacted",
    "reacted",
    "unreacted",
    "pinned",
    "unpinned",
    "added",
    "removed",
    "role",
    "renamed",
    "settings",
    "deleted",
]

EVERYONE: Final = ("*",)
"""The mentions of a message that mentions all members."""

ACTIVITY: Final = frozenset({"created", "message", "added", "removed", "role"})
"""The kinds that move a chat to the top of the chat list."""

Poster = Literal["tenant"]
"""Who posted a message in the name of its sender, if it was not the sender."""

Gone = Literal["redacted", "expired", "erased"]
"""The reason why a message has no content any more."""

Phase = Literal["started", "members_removed", "keys_removed", "done"]
"""Progress of a deletion. After `started`, nothing can be appended any more. After
`members_removed`, nobody can read the chat, and it is in nobody's chat list. After `keys_removed`,
repeats of its sends are no longer recognised. After `done`, every entry is empty."""

JOB: Final = re.compile(f"delete-chat-({CHAT.pattern})")


class Person(msgspec.Struct, frozen=True):
    """A user in a membership entry, with the user's role from that entry on."""

    user: UserKey
    role: Role


class SendOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields of a send that most messages do not have."""

    reply_to: int | None = None
    """Sequence of the message that this one answers."""
    mentions: tuple[str, ...] = ()
    """User ids of members whom the message mentions, or `EVERYONE`."""
    silent: bool = False
    """Whether no push notices are sent for the message. It still counts as unread."""
    posted_by: Poster | None = None
    """Set if not the sender posts the message, but the tenant in the sender's name."""
    attachments: tuple[str, ...] = ()
    """Ids of finished uploads of the sender."""

    @property
    def digested(self) -> str:
        """Text that makes the digest of a send with these options differ from all others.

        Options that a send does not have add nothing, so that versions with and without an option
        agree on the digest.
        """
        return msgspec.json.encode(self).decode()


def send_options(
    reply_to: int | None,
    mentions: Sequence[str] | None,
    silent: bool | None,
    attachments: Sequence[str] | None,
) -> SendOptions | None:
    """Return the options of a send; None if it has none, which is the usual case.

    An option that is None is absent: a repeat may leave it out.
    """
    if not (reply_to is not None or mentions or silent or attachments):
        return None
    return SendOptions(
        reply_to, tuple(mentions or ()), bool(silent), attachments=tuple(attachments or ())
    )


class Entry(msgspec.Struct, kw_only=True):
    """One entry of a chat's log.

    `box` is the encrypted content as it is stored. `content` is the decrypted content, which exists
    only in memory, on the way to a reader. A message without a box is a tombstone. Entries are
    written once. Only box, box_key, files, edited_at, redacted, reactions, reply_count, mentions
    and pinned of a message ever change, and only together with a later entry that records the
    change.
    """

    chat_id: ChatId
    kind: Kind
    sender: UserKey
    sequence: int = 0
    created_at: int = 0
    number: int = 0
    """Number of messages up to and including this entry."""
    last_message: int = 0
    """Sequence of the last message up to and including this entry; 0 if there is none."""
    active_at: int = 0
    """Time of the last activity in the chat, up to and including this entry."""
    mark: str = ""
    """Random text by which a writer recognises its own entry."""

    client_message_id: str | None = None
    content_type: str | None = None
    box: bytes | None = None
    box_key: int = 0
    """Generation of the sender's data key that encrypted the box."""
    digest: bytes | None = None
    """For a message whose idempotency key was not claimed: the digest of that key."""
    expires_at: int | None = None
    edited_at: int | None = None
    redacted: bool = False
    reactions: dict[str, int] | None = None
    mine: tuple[str, ...] = ()
    """Reactions of the user for whom this entry was read."""
    reply_to: int | None = None
    """Sequence of the message that this one answers."""
    reply_count: int = 0
    """Number of messages that answer this one, up to `limits.REPLY_COUNT_MAX`; tombstones count."""
    mentions: tuple[str, ...] = ()
    """User ids of members whom the message mentions, or `EVERYONE`. A redaction removes them."""
    silent: bool = False
    """Whether no push notices are sent for the message. It still counts as unread."""
    posted_by: Poster | None = None
    """Set if not the sender posted the message, but the tenant in the sender's name."""
    pinned: int = 0
    """Sequence of the entry that pinned this message; 0 if it is not pinned."""
    files: bytes | None = None
    """The attachments of a message as they are stored; see `model.attachments`."""

    target: int | None = None
    emoji: str | None = None
    people: tuple[Person, ...] = ()
    name: str | None = None
    settings: ChatSettings | None = None

    shown: "Entry | None" = None
    """For an `edited` entry: the edited message as it is now."""
    content: str | None = None
    blocked: bool = False
    """Whether the user for whom this entry was read blocks its sender."""
    gone: Gone | None = None
    attachments: tuple[File, ...] = ()
    """The decrypted attachments of a message, which exist only in memory."""

    @property
    def message_id(self) -> str:
        """Public id of the message."""
        return f"{self.chat_id}.{self.sequence}"  # `message_id`, without a call

    @property
    def has_options(self) -> bool:
        """Whether the message has fields that most messages do not have."""
        return (
            self.reply_to is not None
            or bool(self.mentions)
            or self.silent
            or self.posted_by is not None
            or self.files is not None
        )

    @property
    def mentioned(self) -> list[UserKey]:
        """The users whom the message mentions by name, without its sender."""
        tenant = tenant_of(self.sender)
        users = [user_key(tenant, name) for name in self.mentions if name != "*"]
        return [user for user in users if user != self.sender]

    def does_mention(self, user: UserKey) -> bool:
        """Return True if the message mentions the user, by name or with everyone."""
        return self.mentions == EVERYONE or user_id(user) in self.mentions

    def expired(self, now: int) -> bool:
        """Return True if the content has expired, even if it has not been removed yet."""
        return self.expires_at is not None and self.expires_at <= now


class SendKey(msgspec.Struct):
    """Idempotency key of a send: claimed before the entry is written, kept for seven days."""

    sender: UserKey
    client_message_id: str
    digest: bytes
    """Digest of content, type and ttl, computed with a data key; empty until the content is
    encrypted. Another send with the same
    `client_message_id` and another digest is a conflict, unless one of the two data keys was
    destroyed."""
    expires_at: int
    after: int | None = None
    """A sequence that the log had reached when the client first sent the message, if the client
    named one. If the message is in the log, it is after this sequence."""


class Head(msgspec.Struct, frozen=True):
    """End of a log: sequence, message number and activity of its last entry."""

    sequence: int = 0
    number: int = 0
    last_message: int = 0
    active_at: int = 0


def mention_position(entry: Entry) -> str:
    """Return the position of a message in the list of a user's mentions, which is sorted by
    time."""
    return f"{entry.created_at:013d}#{entry.chat_id}#{entry.sequence:016d}"


def place_of_mention(position: str) -> tuple[int, ChatId, int]:
    """Return the time, the chat and the sequence in a position of a list of mentions."""
    created_at, chat, sequence = position.split("#")
    return int(created_at), ChatId(chat), int(sequence)


def head_of(entry: Entry) -> Head:
    """Return the head of a log that ends with this entry."""
    return Head(entry.sequence, entry.number, entry.last_message, entry.active_at)


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The job that deletes a chat. A chat is deleted only once, so it has at most one such job."""

    chat_id: ChatId
    tenant: str
    deleted_by: UserKey
    phase: Phase = "started"
    emptied: int = 0
    """Sequence up to which all entries are empty."""
    entries: int
    """Number of entries in the log, which is the sequence of its last entry, `deleted`."""
    created_at: int
    updated_at: int

    @property
    def job_id(self) -> str:
        """Public id of the job. It contains the chat's id, so a repeated request finds the same
        job."""
        return f"delete-chat-{self.chat_id}"


def deletion_of(deleted: Entry) -> Deletion:
    """Return the new job for a chat that ends with this `deleted` entry."""
    return Deletion(
        chat_id=deleted.chat_id,
        tenant=tenant_of(deleted.sender),
        deleted_by=deleted.sender,
        entries=deleted.sequence,
        created_at=deleted.created_at,
        updated_at=deleted.created_at,
    )


def finished(deleted: Entry) -> Deletion:
    """Return the finished job for a chat that ends with this entry and has only empty entries."""
    begun = deletion_of(deleted)
    return msgspec.structs.replace(begun, phase="done", emptied=begun.entries)


def chat_of(job_id: str) -> ChatId | None:
    """Return the chat that a job deletes; None if the id is not that of a deletion job."""
    found = JOB.fullmatch(job_id)
    return ChatId(found[1]) if found else None


def emptied(entry: Entry) -> Entry:
    """Return what remains of an entry of a deleted chat: its sequence, kind and time.

    The entry keeps its slot in the log. If the slot became free, a process that does not know about
    the deletion yet could write a new entry into it.
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
