# SPDX-License-Identifier: Apache-2.0
"""An entry: one thing that happened in a chat, at its place in the log."""

from typing import Final, Literal

import msgspec

from tidings.model.ids import ChatId, UserKey, message_id
from tidings.model.roles import Role

Kind = Literal[
    "created",
    "message",
    "edited",
    "redacted",
    "reacted",
    "unreacted",
    "added",
    "removed",
    "role",
    "renamed",
    "deleted",
]

ACTIVITY: Final = frozenset({"created", "message", "added", "removed", "role"})
"""The kinds that move a chat to the top of the chat list."""

Gone = Literal["redacted", "expired", "erased"]
"""Why a message has no content any more."""


class Person(msgspec.Struct, frozen=True):
    """A user in a membership entry, with the role it has from that entry on."""

    user: UserKey
    role: Role


class Entry(msgspec.Struct, kw_only=True):
    """One entry of a chat's log.

    `box` is the sealed content as it is stored. `content` is the same opened: it exists in memory
    only, filled on the way to a reader, and is never stored. A message without a box is a
    tombstone. Entries are written once; of a message only box, box_key, edited_at, redacted and
    reactions ever change, and only together with a later entry that says so.
    """

    chat_id: ChatId
    kind: Kind
    sender: UserKey
    sequence: int = 0
    created_at: int = 0
    number: int = 0
    """How many messages the log holds up to and including this entry."""
    last_message: int = 0
    """The sequence of the last message up to and including this entry; 0 if there is none."""
    active_at: int = 0
    """When the chat last moved in the chat list, as of this entry."""
    mark: str = ""
    """Random, from the process that wrote the entry: how a writer recognises its own."""

    client_message_id: str | None = None
    content_type: str | None = None
    box: bytes | None = None
    box_key: int = 0
    """Which of the sender's data keys seals the box."""
    expires_at: int | None = None
    edited_at: int | None = None
    redacted: bool = False
    reactions: dict[str, int] | None = None
    mine: tuple[str, ...] = ()
    """Of the reactions, those of the reader this entry was read for."""

    target: int | None = None
    emoji: str | None = None
    people: tuple[Person, ...] = ()
    name: str | None = None

    shown: "Entry | None" = None
    """For an `edited` entry: its target as it is now."""
    content: str | None = None
    gone: Gone | None = None

    @property
    def message_id(self) -> str:
        """The public id of the message at this place."""
        return message_id(self.chat_id, self.sequence)

    def expired(self, now: int) -> bool:
        """Whether the content may not be shown any more, swept or not."""
        return self.expires_at is not None and self.expires_at <= now


class SendKey(msgspec.Struct, frozen=True):
    """What makes a send idempotent: claimed before the entry, kept for seven days."""

    sender: UserKey
    client_message_id: str
    digest: bytes
    """Keyed digest of content, type and ttl: the same key with another digest is a conflict, unless
    the key of one of them was destroyed."""
    expires_at: int


class Head(msgspec.Struct, frozen=True):
    """Where a log ends: all that the last entry says about the whole."""

    sequence: int = 0
    number: int = 0
    last_message: int = 0
    active_at: int = 0


def head_of(entry: Entry) -> Head:
    """The head of a log that ends with this entry."""
    return Head(entry.sequence, entry.number, entry.last_message, entry.active_at)
