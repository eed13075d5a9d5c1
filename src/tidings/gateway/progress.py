# SPDX-License-Identifier: Apache-2.0
"""How far one connection is in each chat, and whether it may be sent more. No I/O.

Entries of a chat go out in order, without a gap, each at most once. An entry that may not go out
now (the window is full, the socket does not drain, earlier ones are still being read from the
log) is not kept: the chat is behind, and is read from the log later. So a slow client costs no
memory, whatever it misses. Only the few that come while a page is being read are kept until it is
there, or a busy chat that fell behind once would be read without end.
"""

from collections.abc import Mapping
from typing import Final, Literal

from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.ports.cluster import EncodedEntry

Offer = Entry | EncodedEntry


def is_first(offer: Offer, user: UserKey) -> bool:
    """Whether it makes the user a member."""
    if isinstance(offer, EncodedEntry):
        return user in offer.added
    return offer.kind in ("added", "created") and _names(offer, user)


def is_last(offer: Offer, user: UserKey) -> bool:
    """Whether it is the last entry of the chat that the user may see."""
    if isinstance(offer, EncodedEntry):
        return user in offer.removed
    return offer.kind == "removed" and _names(offer, user)


def start_before(offer: Offer, user: UserKey) -> int:
    """Where to start in a chat of which this is the first entry that came.

    At the entry that made the user a member; or, if that one has not come yet, where a device
    that has nothing of the chat would start.
    """
    if is_first(offer, user):
        return offer.sequence - 1
    return newest_start(offer.sequence)


def newest_start(head: int) -> int:
    """The place after which a device that has nothing of a chat starts."""
    return max(0, head - limits.CATCH_UP_CHAT_ENTRIES_MAX)


def _names(entry: Entry, user: UserKey) -> bool:
    return any(person.user == user for person in entry.people)


Verdict = Literal["send", "drop", "later"]

KEPT_MAX: Final = 32
"""Entries kept while a page is being read; with more there is another page to read."""


class Position:
    """One chat on one connection."""

    __slots__ = ("head", "is_behind", "is_small", "kept", "received", "sent", "unacknowledged")

    def __init__(self, start: int, head: int, is_small: bool) -> None:
        self.sent = start
        """The last entry the client was sent, or has by its own word."""
        self.head = head
        """The last entry known to exist."""
        self.received = start
        self.unacknowledged = 0
        """Entries sent since the last `received`: what the window counts."""
        self.is_behind = start < head
        self.is_small = is_small
        self.kept: list[tuple[int, bytes]] | None = None
        """What came while a page is being read, with its frames; None if nothing may be kept."""

    def keep(self, sequence: int, frame: bytes) -> None:
        """Keep an entry that comes while a page is being read."""
        if self.kept is not None:
            self.kept.append((sequence, frame))
            if len(self.kept) > KEPT_MAX:
                self.kept = None


class DeliveryProgress:
    """All chats of one connection."""

    def __init__(self, window: int = limits.WINDOW_ENTRIES) -> None:
        self._window: Final = window
        self._positions: dict[ChatId, Position] = {}
        self._unacknowledged = 0
        self.is_paused = False
        """Whether the socket has more to write than it should."""

    @property
    def room(self) -> int:
        """How many entries may be sent before the client has to say `received`."""
        return 0 if self.is_paused else self._window - self._unacknowledged

    @property
    def is_window_full(self) -> bool:
        """Whether the client has to say `received` before it gets more."""
        return self._unacknowledged >= self._window

    def get(self, chat: ChatId) -> Position | None:
        """Where the connection is in a chat; None if it has nothing to do with it."""
        return self._positions.get(chat)

    def chats(self) -> list[ChatId]:
        """The chats it follows."""
        return list(self._positions)

    def start(self, chat: ChatId, have: int, head: int, *, is_small: bool) -> Position:
        """Follow a chat from after `have` on."""
        self.leave(chat)
        position = self._positions[chat] = Position(have, head, is_small)
        return position

    def leave(self, chat: ChatId) -> None:
        """Follow a chat no longer."""
        if position := self._positions.pop(chat, None):
            self._unacknowledged -= position.unacknowledged

    def is_early(self, position: Position, sequence: int) -> bool:
        """Whether entries before this one have yet to come; it is known to exist from now on."""
        if position.is_behind or sequence <= position.sent + 1 or self.room <= 0:
            return False
        position.head = max(position.head, sequence)
        return True

    def waiting(self) -> dict[ChatId, int]:
        """The chats in which entries have yet to come that others deliver, and up to which one."""
        return {
            chat: position.head
            for chat, position in self._positions.items()
            if position.sent < position.head and not position.is_behind
        }

    def fall_behind(self, awaited: Mapping[ChatId, int]) -> None:
        """What was awaited and has not come by now is read from the log."""
        for chat, sequence in awaited.items():
            position = self._positions.get(chat)
            if position is not None and position.sent < sequence:
                position.is_behind = True

    def offer(self, position: Position, sequence: int) -> Verdict:
        """An entry has been appended: what to do with it."""
        if sequence > position.head:
            position.head = sequence
        if sequence <= position.sent:
            return "drop"
        if position.is_behind or sequence != position.sent + 1 or self.room <= 0:
            position.is_behind = True
            return "later"
        return "send"

    def sent(self, position: Position, sequence: int) -> None:
        """The entry was written to the socket."""
        assert sequence == position.sent + 1, f"{sequence} does not follow {position.sent}"
        position.sent = sequence
        position.unacknowledged += 1
        self._unacknowledged += 1

    def sent_own(self, chat: ChatId, sequence: int) -> None:
        """The client was told that its own message has this place: it needs no copy of it."""
        position = self._positions.get(chat)
        if position is not None and not position.is_behind and sequence == position.sent + 1:
            position.sent = sequence
            position.head = max(position.head, sequence)

    def received(self, position: Position, sequence: int) -> None:
        """The client has all entries up to here, of those it was sent."""
        assert sequence <= position.sent
        if sequence <= position.received:
            return
        position.received = sequence
        left = min(position.unacknowledged, position.sent - sequence)
        self._unacknowledged -= position.unacknowledged - left
        position.unacknowledged = left

    def caught_up(self, position: Position) -> bool:
        """Whether the log has nothing more for the client; if so, live entries go out again."""
        position.is_behind = position.sent < position.head
        return not position.is_behind

    def behind(self) -> list[ChatId]:
        """The chats that have to be read from the log."""
        return [chat for chat, position in self._positions.items() if position.is_behind]
