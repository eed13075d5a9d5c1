# SPDX-License-Identifier: Apache-2.0
"""A chat's state as of its head, how each entry changes it, and rows of the chat list.

A state is a cache for writers. A writer that wins the slot after the state's head (the sequence of
the next entry) knows that the state was current. A reader has no such proof, so whether a user may
read a chat is never decided from a state, but by the store.
"""

from typing import Literal

import msgspec

from tidings.model import limits
from tidings.model.entries import ACTIVITY, Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Receipt, Unread
from tidings.model.roles import Member, Role

ChatType = Literal["direct", "group"]


class Chat(msgspec.Struct, kw_only=True):
    """Properties of a chat that are fixed when it is created."""

    chat_id: ChatId
    tenant: str
    type: ChatType
    name: str | None
    creator: UserKey
    created_at: int


class ChatState(msgspec.Struct, kw_only=True):
    """Members, name and head of a chat after all entries up to the head."""

    chat_id: ChatId
    tenant: str
    type: ChatType
    name: str | None
    members: dict[UserKey, Member]
    """Replaced, never changed in place: copies of a state share it."""
    head: int = 0
    number: int = 0
    last_message: int = 0
    active_at: int = 0
    is_deleted: bool = False
    """Whether the chat has ended. The members stay here, because they must be notified."""

    @property
    def is_small(self) -> bool:
        """Whether the chat is small enough for receipts, typing, presence and status."""
        return len(self.members) <= limits.SMALL_CHAT_MEMBERS_MAX

    def copy(self) -> "ChatState":
        """Return an independent copy, to which proposed entries can be applied."""
        return msgspec.structs.replace(self)

    def stamp(self, entry: Entry, now: int, mark: str) -> None:
        """Give the entry the sequence after the head, and the running values of the log."""
        entry.sequence = self.head + 1
        entry.created_at = now
        entry.mark = mark
        is_message = entry.kind == "message"
        entry.number = self.number + is_message
        entry.last_message = entry.sequence if is_message else self.last_message
        entry.active_at = now if entry.kind in ACTIVITY else self.active_at

    def fold(self, entry: Entry) -> None:
        """Apply the entry that follows the head."""
        assert entry.sequence == self.head + 1, f"{entry.sequence} does not follow {self.head}"
        self.head = entry.sequence
        self.number = entry.number
        self.last_message = entry.last_message
        self.active_at = entry.active_at
        if entry.kind != "message":
            self._fold_change(entry)

    def _fold_change(self, entry: Entry) -> None:
        match entry.kind:
            case "created" | "added":
                joined = {
                    person.user: Member(person.role, entry.created_at, entry.sequence)
                    for person in entry.people
                }
                self.members = {**self.members, **joined}
            case "removed":
                gone = {person.user for person in entry.people}
                self.members = {u: m for u, m in self.members.items() if u not in gone}
            case "role":
                roles = {person.user: person.role for person in entry.people}
                self.members = {
                    user: Member(roles.get(user, member.role), member.joined_at, member.joined)
                    for user, member in self.members.items()
                }
            case "renamed":
                self.name = entry.name
            case "deleted":
                self.is_deleted = True
            case _:
                pass


class ChatRow(msgspec.Struct, kw_only=True):
    """One chat in one user's chat list."""

    chat_id: ChatId
    type: ChatType
    name: str | None
    others: tuple[UserKey, ...]
    """The other members, longest-standing first, at most ten."""
    member_count: int
    role: Role
    muted_until: int | None
    head: Head
    receipt: Receipt
    last: Entry | None
    """The last message, even if its content is gone; None if there never was a message."""
    unread: Unread


class HeldChat(msgspec.Struct, frozen=True):
    """A chat of a user with its head, which a device compares with its own copy."""

    chat_id: ChatId
    head: Head
    receipt: Receipt
    member_count: int
