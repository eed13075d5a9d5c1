# SPDX-License-Identifier: Apache-2.0
"""The content of a head copy: the head of a log, its last message, and facts about the chat."""

import msgspec

from tidings.model.entries import Entry, Head, head_of
from tidings.model.ids import UserKey
from tidings.stores.dynamodb.chat.items import (
    PREVIEW,
    CopiedMessage,
    direct_facts,
    last_message_of,
    packed,
)
from tidings.stores.dynamodb.client.retrying import Item


class HeadCopy(msgspec.Struct, frozen=True):
    """The head of a log and, if it is known, the last message."""

    head: Head
    last: CopiedMessage | None = None

    def merged(self, other: "HeadCopy") -> "HeadCopy":
        """Return a head copy with the later head of the two, and its last message if known."""
        head = max(self.head, other.head, key=lambda head: head.sequence)
        lasts = [copy.last for copy in (self, other) if copy.last is not None]
        return HeadCopy(
            head, next((last for last in lasts if last.sequence == head.last_message), None)
        )

    def within(self, room: int) -> "HeadCopy":
        """Return this head copy, without the message's content if that is over `room` bytes."""
        if self.last is None or len(packed(self.last)) <= room:
            return self
        return HeadCopy(self.head, msgspec.structs.replace(self.last, box=None))

    def is_sent_by(self, user: UserKey) -> bool:
        """Return True if the log ends with a message from this user."""
        return (
            self.last is not None
            and self.last.sequence == self.head.sequence
            and self.last.sender == user
        )


def copy_of(entry: Entry) -> HeadCopy:
    """Return the head copy of a log that ends with this entry."""
    last = last_message_of(entry) if entry.kind == "message" else None
    return HeadCopy(head_of(entry), last)


class ChatPair(msgspec.Struct, frozen=True):
    """Facts about a chat that hardly change: the users of a direct chat, its creator and its
    age."""

    users: tuple[UserKey, ...]
    """Empty if the chat is a group."""
    creator: UserKey
    created_at: int
    room: int
    """Bytes that the copy of a message may take in the item of a group, so that the item stays
    below 1 KB. A group that has grown since may cost more."""

    def facts(self, user: UserKey) -> Item:
        """Return the attributes that describe the chat in the receipt row of a user."""
        peers = [other for other in self.users if other != user]
        return direct_facts(user, peers[0], self.creator, self.created_at) if peers else {}


def preview_change(last: CopiedMessage) -> tuple[str, str, Item]:
    """Return what an update needs to copy a message: its part of SET, its part of REMOVE, and its
    values."""
    if last.box is None:
        return "", f"#{PREVIEW}", {}
    return f", #{PREVIEW} = :{PREVIEW}", "", {f":{PREVIEW}": packed(last)}
