# SPDX-License-Identifier: Apache-2.0
"""A chat's state at its head, rows of the chat list, receipts and unread counts.

A state is a cache for writers. If a writer succeeds in storing the entry that follows the state's
head, this proves that the state was current. A reader has no such proof, so only the store, never a
state, decides whether a user may read a chat.

The unread count is not stored, so it cannot become wrong. If head and receipt show that there may
be unread messages, they are counted in the log.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from tidings.model import limits
from tidings.model.entries import ACTIVITY, Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member, Role

Status = Literal["sent", "delivered", "read"]

ChatType = Literal["direct", "group"]


class Receipt(msgspec.Struct, frozen=True):
    """How far one user has received and read one chat."""

    user: UserKey
    delivered: int
    read: int
    read_number: int
    """Number of messages in the log up to `read`."""


class Move(msgspec.Struct, frozen=True):
    """A change of a receipt: the user has received or read the chat up to these sequences."""

    user: UserKey
    chat: ChatId
    delivered: int = 0
    read: int = 0


class OwnSpan(msgspec.Struct, frozen=True):
    """Consecutive messages from one user: those numbered above `from_number`, up to `to_number`."""

    from_number: int
    to_number: int
    to_sequence: int


class OwnSends(msgspec.Struct, frozen=True):
    """A user's recent messages, as spans between messages from others, earliest first.

    If the user's read mark is in a span, the user had no unread messages before that span. The read
    mark then moves to the end of the span. Otherwise it does not move. In either case the chat
    becomes one of the user's own, because the user has written in it.
    """

    user: UserKey
    chat: ChatId
    spans: tuple[OwnSpan, ...]

    def span_of(self, read_number: int) -> OwnSpan | None:
        """Return the span that contains a read mark; None if no span does."""
        for span in self.spans:
            if span.from_number <= read_number <= span.to_number:
                return span
        return None


class Unread(msgspec.Struct, frozen=True):
    """Number of messages that a user has not read, or an upper bound if `exact` is False."""

    count: int
    exact: bool = True


NOTHING_UNREAD = Unread(0)


def unread_without_a_look(head: Head, receipt: Receipt) -> Unread | None:
    """Return the unread count if head and receipt determine it; None if the log must be read."""
    left = head.number - receipt.read_number
    if left <= 0:
        return NOTHING_UNREAD
    if head.sequence - receipt.read > limits.UNREAD_ENTRIES_MAX:
        return Unread(left, exact=False)
    return None


def unread_of_page(chats: Iterable[tuple[Head, Receipt]]) -> list[Unread | None]:
    """Return the unread count of each chat of a list; None where the log must be read.

    The number of entries read for a page is limited. Chats with few unread entries are always
    counted exactly. Those with many are counted in order until the limit is used up; the rest get
    an upper bound.
    """
    left = limits.LIST_UNREAD_ENTRIES_MAX
    found: list[Unread | None] = []
    for head, receipt in chats:
        unread = unread_without_a_look(head, receipt)
        entries = head.sequence - receipt.read
        if unread is None and entries > limits.LISTED_UNREAD_ENTRIES_MIN:
            if entries > left:
                unread = Unread(head.number - receipt.read_number, exact=False)
            else:
                left -= entries
        found.append(unread)
    return found


def counts_as_unread(entry: Entry, reader: UserKey, now: int) -> bool:
    """Return whether the entry is a visible message from somebody else."""
    return (
        entry.kind == "message"
        and entry.sender != reader
        and not entry.redacted
        and not entry.expired(now)
    )


def status(sequence: int, sender: UserKey, receipts: Iterable[Receipt]) -> Status:
    """Return the status of a message: the lowest status among all members except the sender."""
    others = [receipt for receipt in receipts if receipt.user != sender]
    if not others:
        return "sent"
    if all(receipt.read >= sequence for receipt in others):
        return "read"
    if all(max(receipt.delivered, receipt.read) >= sequence for receipt in others):
        return "delivered"
    return "sent"


class Chat(msgspec.Struct, kw_only=True):
    """Properties of a chat that are fixed when it is created."""

    chat_id: ChatId
    tenant: str
    type: ChatType
    name: str | None
    creator: UserKey
    created_at: int


class TenantChat(Chat, kw_only=True):
    """A chat in the list of its tenant."""

    member_count: int


class ChatState(msgspec.Struct, kw_only=True):
    """Members, name and head of a chat after all entries up to the head."""

    chat_id: ChatId
    tenant: str
    type: ChatType
    name: str | None
    members: dict[UserKey, Member]
    """This dict is replaced, never changed in place, because copies of a state share it."""
    head: int = 0
    number: int = 0
    last_message: int = 0
    active_at: int = 0
    is_deleted: bool = False
    """Whether the chat is deleted. The state keeps the members, because they must be notified."""

    @property
    def is_small(self) -> bool:
        """Whether the chat is small enough for receipts, typing, presence and status."""
        return len(self.members) <= limits.SMALL_CHAT_MEMBERS_MAX

    def copy(self) -> "ChatState":
        """Return an independent copy, to which proposed entries can be applied."""
        return msgspec.structs.replace(self)

    def stamp(self, entry: Entry, now: int, mark: str) -> None:
        """Set sequence, time, mark and counts of a new entry that will follow the head."""
        entry.sequence = self.head + 1
        entry.created_at = now
        entry.mark = mark
        is_message = entry.kind == "message"
        entry.number = self.number + is_message
        entry.last_message = entry.sequence if is_message else self.last_message
        entry.active_at = now if entry.kind in ACTIVITY else self.active_at

    def fold(self, entry: Entry) -> None:
        """Update the state with the entry that follows the head."""
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
    creator: UserKey
    created_at: int
    updated_at: int
    """Time of the last change of the name or the members; at first, the time of creation."""
    others: tuple[UserKey, ...]
    """At most ten of the other members, earliest joined first."""
    member_count: int
    role: Role
    muted_until: int | None
    head: Head
    receipt: Receipt
    last: Entry | None
    """The last message, even if its content is gone; None if there never was a message."""
    unread: Unread


class ChatHead(msgspec.Struct, frozen=True):
    """A user's chat with its head, from which a gateway learns what a device has missed."""

    chat_id: ChatId
    head: Head
    receipt: Receipt
    member_count: int
