# SPDX-License-Identifier: Apache-2.0
"""A chat's state at its head, rows of the chat list, receipts and unread counts.

A state is a cache for writers. If a writer succeeds in storing the entry that follows the state's
head, this proves that the state was current. A reader has no such proof, so only the store, never a
state, decides whether a user may read a chat.

The unread count is not stored, so it cannot become wrong. If head and receipt show that there may
be unread messages, they are counted in the log.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from tidings.model import limits
from tidings.model.chat_settings import NO_SETTINGS, ChatSettings, SentTimes, sent_times
from tidings.model.entries import ACTIVITY, Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipt_times import MarkTimes, time_of
from tidings.model.roles import Member, Role

Status = Literal["sent", "delivered", "read"]

ChatType = Literal["direct", "group"]

DIRECT_MEMBERS: Final = 2


class Receipt(msgspec.Struct, frozen=True):
    """How far one user has received and read one chat."""

    user: UserKey
    delivered: int
    read: int
    read_number: int
    """Number of messages in the log up to `read`."""
    unread_from: int = 0
    """First sequence of the part that the user marked as unread; 0 if there is none."""
    unread_number: int = 0
    """Number of messages in the log before `unread_from`."""
    hidden_number: int = -1
    """Number of messages in the log when the user hid the chat; -1 if it was not hidden."""
    pushed: int = 0
    """Sequence up to which push notices were sent, unless they were removed again; 0 if none
    was."""

    @property
    def is_marked_unread(self) -> bool:
        """Whether the user marked the chat as unread."""
        return self.unread_from > 0

    @property
    def unread_after(self) -> int:
        """Sequence after which messages count as unread."""
        return min(self.read, self.unread_from - 1) if self.unread_from else self.read

    @property
    def unread_after_number(self) -> int:
        """Number of messages up to `unread_after`."""
        return min(self.read_number, self.unread_number) if self.unread_from else self.read_number

    def hides(self, head: Head) -> bool:
        """Return True if the user hid the chat, and no message came since."""
        return head.number <= self.hidden_number


class ReceiptWithTimes(msgspec.Struct, frozen=True):
    """A member's receipt with the times at which it moved."""

    receipt: Receipt
    joined: int
    """Sequence of the entry with which the member joined."""
    delivered_times: MarkTimes = ()
    read_times: MarkTimes = ()

    def delivered_at(self, sequence: int) -> int | None:
        """Return when the member received a message; None if the time is not known."""
        times = (time_of(self.delivered_times, sequence), self.read_at(sequence))
        return min((time for time in times if time is not None), default=None)

    def read_at(self, sequence: int) -> int | None:
        """Return when the member read a message; None if the time is not known."""
        return time_of(self.read_times, sequence)


class Move(msgspec.Struct, frozen=True):
    """A change of a receipt: the user has received or read the chat up to these sequences."""

    user: UserKey
    chat: ChatId
    delivered: int = 0
    read: int = 0
    at: int = 0
    """Time of the change; 0 if the time is not stored."""


class OwnSpan(msgspec.Struct, frozen=True):
    """Consecutive messages from one user: those with message numbers above `from_number`, up to
    `to_number`."""

    from_number: int
    to_number: int
    to_sequence: int


class OwnSends(msgspec.Struct, frozen=True):
    """A user's recent messages, as spans between messages from others, earliest first.

    If the user's read mark is in a span, the user had no unread messages before that span. The read
    mark then moves to the end of the span. Otherwise it does not move. In either case the store
    records that the user has written in the chat.
    """

    user: UserKey
    chat: ChatId
    spans: tuple[OwnSpan, ...]
    last: Entry | None = None
    """The last of these messages, if the chat is direct and the same append did not add a later
    message. A store may copy it for chat lists, as the head of the log."""
    is_behind: bool = False
    """Whether older messages were unread when the user last sent messages."""

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
    mentions: int = 0
    """Number of these messages that mention the user; 0 if they were not counted in the log."""


UnreadByKey = Mapping[tuple[UserKey, int], int]
"""Unread messages by their author and the generation of the data key that encrypted them."""


class UnreadFound(msgspec.Struct, frozen=True):
    """The unread messages of a chat as the store finds them.

    Erased messages are still among them, because only the data keys show which these are.
    """

    unread: Unread
    by_key: UnreadByKey = {}
    """Empty if the log was not read."""
    mentions_by_key: UnreadByKey = {}
    """Those of the messages that mention the user."""
    up_to: int = 0
    """Sequence of the last entry that was considered."""


NOTHING_UNREAD = Unread(0)


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
    settings: ChatSettings = NO_SETTINGS
    sent_at: SentTimes = {}
    """While the chat is in slow mode: the times of messages since the last change of settings."""
    is_deleted: bool = False
    """Whether the chat is deleted. The state keeps the members, because they must be notified."""

    @property
    def is_small(self) -> bool:
        """Whether the chat is small enough for receipts, typing, presence and status."""
        return len(self.members) <= limits.SMALL_CHAT_MEMBERS_MAX

    @property
    def has_deleted_user(self) -> bool:
        """Whether one of the two users of a direct chat is deleted."""
        return self.type == "direct" and len(self.members) < DIRECT_MEMBERS

    def copy(self) -> "ChatState":
        """Return an independent copy of the state, to which entries can be applied before they are
        stored."""
        return msgspec.structs.replace(self)

    def add(self, entry: Entry, now: int, mark: str) -> None:
        """Stamp a new entry, and update the state with it."""
        if entry.kind != "message" or self.settings is not NO_SETTINGS:
            self.stamp(entry, now, mark)
            self.fold(entry)
            return
        # The usual case, which runs for every message.
        entry.sequence = entry.last_message = self.last_message = self.head = self.head + 1
        entry.number = self.number = self.number + 1
        entry.created_at = entry.active_at = self.active_at = now
        entry.mark = mark

    def stamp(self, entry: Entry, now: int, mark: str) -> None:
        """Set sequence, time, writer's mark and counts of a new entry that will follow the head."""
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
        elif self.settings.slow_mode_seconds and entry.posted_by is None:
            self.sent_at = sent_times(self.settings, self.sent_at, entry.sender, entry.created_at)

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
            case "settings":
                self.settings, self.sent_at = entry.settings or NO_SETTINGS, {}
            case "deleted":
                self.is_deleted = True
            case _:
                pass


class Profile(msgspec.Struct, frozen=True):
    """The fields of a user that chats show, and whether the user hides their presence."""

    user: UserKey
    display_name: str | None = None
    avatar_url: str | None = None
    is_hidden: bool = False


class ShownMember(msgspec.Struct, frozen=True):
    """A member as the list of members shows them."""

    member: Member
    receipt: ReceiptWithTimes
    profile: Profile


class ChatRow(msgspec.Struct, kw_only=True):
    """One chat in one user's chat list."""

    chat_id: ChatId
    type: ChatType
    name: str | None
    creator: UserKey
    created_at: int
    updated_at: int
    """Time of the last change of name, members or settings; at first, the time of creation."""
    others: tuple[UserKey, ...]
    """At most ten of the other members, earliest joined first."""
    member_count: int
    role: Role
    muted_until: int | None
    except_mentions: bool = False
    """Whether messages that mention the user are pushed although the chat is muted."""
    head: Head
    receipt: Receipt
    last: Entry | None
    """The last message, even if its content is gone; None if there never was a message. Lists do
    not show its mark, content type and reactions, and the store may leave them out."""
    unread: Unread
    settings: ChatSettings = NO_SETTINGS
    profiles: tuple[Profile, ...] = ()
    """Profiles of the first of `others`. The store leaves them out."""
    unread_by_key: UnreadByKey = {}
    """The unread messages by author and data key; empty if they were not counted in the log."""
    mentions_by_key: UnreadByKey = {}
    """Those of the unread messages that mention the user."""

    stays_hidden: bool = False
    """Whether the chat is hidden although messages came, because the user blocks their sender."""

    @property
    def is_hidden(self) -> bool:
        """Whether the user hid the chat, and no message came since."""
        return self.stays_hidden or self.receipt.hides(self.head)


class ChatHead(msgspec.Struct, frozen=True):
    """A user's chat with its head, from which a gateway sees which entries a device has missed."""

    chat_id: ChatId
    head: Head
    receipt: Receipt
    member_count: int
