# SPDX-License-Identifier: Apache-2.0
"""Tracks which entries of each chat were sent on one connection, and whether more may be sent.

Entries of a chat are sent in order, without a gap, and each at most once. Sometimes an entry cannot
be sent now: the window is full, the socket accepts no bytes, or earlier entries are still being
read from the log. Such an entry is not kept. Instead the chat is marked as behind, and is read from
the log later. Therefore a slow client costs no memory.

Only the few entries that arrive while a page is being read are kept until it has been read.
Otherwise a busy chat that fell behind once would be read without end.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final, Literal

import msgspec

from tidings.metrics import declared
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.ports.delivery import EncodedEntry

Offer = Entry | EncodedEntry
KEPT_MAX: Final = 32
"""Limit on entries kept while a page is being read. If more arrive, another page is read."""


def is_first(offer: Offer, user: UserKey) -> bool:
    """Return True if this is the first entry that the user may see: it makes them a member."""
    if isinstance(offer, EncodedEntry):
        return user in offer.added
    return offer.kind in ("added", "created") and _names(offer, user)


def is_last(offer: Offer, user: UserKey) -> bool:
    """Return True if this is the last entry of the chat that the user may see."""
    if offer.kind == "deleted":
        return True
    if isinstance(offer, EncodedEntry):
        return user in offer.removed
    return offer.kind == "removed" and _names(offer, user)


def start_before(offer: Offer, user: UserKey) -> int:
    """Return the sequence after which to send entries of a chat that is new to the connection.

    `offer` is the first entry that arrived. If it made the user a member, it is the first entry
    that is sent. If not, a limited number of entries before it is sent too.
    """
    if is_first(offer, user):
        return offer.sequence - 1
    return newest_start(offer.sequence)


def newest_start(head: int) -> int:
    """Return the sequence after which to send entries to a device that has none of the chat."""
    return max(0, head - limits.CATCH_UP_CHAT_ENTRIES_MAX)


def _names(entry: Entry, user: UserKey) -> bool:
    return any(person.user == user for person in entry.people)


def start_after(head: int, last: int | None, *, is_same_epoch: bool) -> int | None:
    """Return the sequence after which entries are sent, or None if the device must start over.

    `last` is the last sequence that the device has of the chat; None if it has nothing.
    """
    if last is None:
        return newest_start(head)
    if not is_same_epoch or not 0 <= head - last <= limits.CATCH_UP_CHAT_ENTRIES_MAX:
        return None
    return last


def count_resync(head: int, last: int | None, *, is_same_epoch: bool) -> None:
    """Count that a device must start over, with the reason."""
    is_ahead = last is not None and last > head
    reason = "epoch" if not is_same_epoch else "ahead" if is_ahead else "too_many"
    declared.resyncs.counts[reason] += 1


Verdict = Literal["send", "drop", "later"]
Reload = Literal["", "sent", "fetched"]
"""Whether the client was asked to load the chat again, and has fetched a part of it since."""


class Position:
    """Records which entries of one chat were sent on one connection."""

    __slots__ = (
        "head", "is_behind", "is_small", "kept", "received", "resync", "sent", "start", "timed",
        "timed_at", "unacknowledged",
    )  # fmt: skip

    def __init__(self, start: int, head: int, is_small: bool) -> None:
        self.start = start
        """Sequence after which entries are sent on this connection."""
        self.resync: Reload = ""
        self.sent = start
        """Sequence of the last entry that was sent to the client, or that the client had before."""
        self.head = head
        """Sequence of the last entry that is known to exist."""
        self.received = start
        self.unacknowledged = 0
        """Number of entries sent since the last `received`; the window limits it."""
        self.is_behind = start < head
        self.is_small = is_small
        self.timed = 0
        """Sequence of the entry whose acknowledgement is timed; 0 if none is."""
        self.timed_at = 0
        """Time of that entry, its `created_at`."""
        self.kept: dict[int, bytes] | None = None
        """Frames of the entries that arrived while a page is being read, by sequence; None if no
        page is being read, or if too many entries arrived."""

    def keep(self, sequence: int, frame: bytes) -> None:
        """Keep an entry that arrives while a page is being read. It may arrive twice: from the log,
        which this process reads, and from a worker."""
        if self.kept is not None:
            self.kept[sequence] = frame
            if len(self.kept) > KEPT_MAX:
                self.kept = None


class Unfollowed(msgspec.Struct, frozen=True):
    """A chat of the user whose entries are not sent on the connection."""

    head: int
    is_small: bool


class DeliveryProgress:
    """Records which entries of each chat were sent on one connection."""

    def __init__(self, window: int = limits.WINDOW_ENTRIES) -> None:
        self.window: Final = window
        self.positions: Final[dict[ChatId, Position]] = {}
        """Progress of each chat that the connection follows."""
        self.unacknowledged = 0
        """Number of entries that were sent and that `received` has not confirmed yet."""
        self.unfollowed: dict[ChatId, Unfollowed] = {}
        """Chats of which the client gets only the head; none if it follows all its chats."""
        self.is_paused = False
        """Whether the socket has too many unsent bytes."""

    @property
    def room(self) -> int:
        """Number of entries that may be sent before the client has to confirm with `received`."""
        return 0 if self.is_paused else self.window - self.unacknowledged

    @property
    def is_window_full(self) -> bool:
        """Whether the client has to confirm with `received` before it gets more."""
        return self.unacknowledged >= self.window

    def get(self, chat: ChatId) -> Position | None:
        """Return the progress of a chat; None if the connection does not follow it."""
        return self.positions.get(chat)

    def chats(self) -> list[ChatId]:
        """Return the chats of which the connection gets the entries or the head."""
        return [*self.positions, *self.unfollowed]

    def start(self, chat: ChatId, have: int, head: int, *, is_small: bool) -> Position:
        """Follow a chat from the entry after `have`."""
        self.leave(chat)
        self.unfollowed.pop(chat, None)
        position = self.positions[chat] = Position(have, head, is_small)
        return position

    def leave(self, chat: ChatId) -> None:
        """Stop following a chat."""
        if position := self.positions.pop(chat, None):
            self.unacknowledged -= position.unacknowledged

    def is_early(self, position: Position, sequence: int) -> bool:
        """Return True if an entry arrived too early: entries before it may still arrive.

        The entry itself is not kept, but the log's head is now known to be at least its sequence.
        """
        if position.is_behind or sequence <= position.sent + 1 or self.room <= 0:
            return False
        position.head = max(position.head, sequence)
        return True

    def waiting(self) -> dict[ChatId, int]:
        """Return the chats that wait for entries from other processes, each with the last known
        sequence of its log."""
        return {
            chat: position.head
            for chat, position in self.positions.items()
            if position.sent < position.head and not position.is_behind
        }

    def fall_behind(self, awaited: Mapping[ChatId, int]) -> None:
        """Mark each chat as behind if the entries up to its sequence in `awaited` were not sent."""
        for chat, sequence in awaited.items():
            position = self.positions.get(chat)
            if position is not None and position.sent < sequence:
                position.is_behind = True

    def offer(self, position: Position, sequence: int) -> Verdict:
        """Return what to do with a new entry: send it, drop it, or read it from the log later."""
        if sequence > position.head:
            position.head = sequence
        if sequence <= position.sent:
            return "drop"
        if position.is_behind or sequence != position.sent + 1 or self.room <= 0:
            position.is_behind = True
            return "later"
        return "send"

    def sent(self, position: Position, sequence: int) -> None:
        """Record that an entry was sent."""
        assert sequence == position.sent + 1, f"{sequence} does not follow {position.sent}"
        position.sent = sequence
        if sequence > position.head:
            position.head = sequence
        position.unacknowledged += 1
        self.unacknowledged += 1
        if self.unacknowledged == self.window:
            declared.window_full.counts[()] += 1

    def sent_own(self, chat: ChatId, sequence: int) -> None:
        """Record the sequence of the client's own message, which is not sent to the client."""
        position = self.positions.get(chat)
        if position is not None and not position.is_behind and sequence == position.sent + 1:
            position.sent = sequence
            position.head = max(position.head, sequence)

    def received(self, position: Position, sequence: int) -> None:
        """Record that the client has received the entries up to this one."""
        assert sequence <= position.sent
        if sequence <= position.received:
            return
        position.received = sequence
        left = min(position.unacknowledged, position.sent - sequence)
        self.unacknowledged -= position.unacknowledged - left
        position.unacknowledged = left

    def caught_up(self, position: Position) -> bool:
        """Update whether the chat is behind; return True if no entry is missing any more."""
        position.is_behind = position.sent < position.head
        return not position.is_behind

    def unconfirmed(self, most: int) -> list[tuple[ChatId, int, int]]:
        """Return up to `most` chats with entries that the client has not confirmed, with the first
        and the last such sequence."""
        if not self.unacknowledged:
            return []
        chats = (
            (chat, position.received + 1, position.sent)
            for chat, position in self.positions.items()
            if position.unacknowledged
        )
        return list(islice(chats, most))

    def confirmed(self) -> list[tuple[ChatId, int]]:
        """Return the small chats of which the client has confirmed entries of this connection, each
        with the last one."""
        return [
            (chat, position.received)
            for chat, position in self.positions.items()
            if position.is_small and position.received > position.start
        ]

    def behind(self) -> list[ChatId]:
        """Return the chats that have to be read from the log."""
        return [chat for chat, position in self.positions.items() if position.is_behind]
