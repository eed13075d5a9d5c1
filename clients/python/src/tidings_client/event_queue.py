# SPDX-License-Identifier: Apache-2.0
"""Bounded queue of events for the application, in order.

An event is confirmed when the application requests the next one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from tidings_client.events import Event
from tidings_client.saved import Held, OutgoingKey

ENTRIES_MAX: Final = 2_000
"""Maximum number of waiting entries. Further entries are fetched later, when there is room. On one
connection, the server's window of 1,000 entries is reached first."""
NOTICES_MAX: Final = 10_000
"""Maximum number of waiting notices (typing, presence, receipts ...); others are dropped."""


class Position(msgspec.Struct, frozen=True):
    """Effect of confirming an event: the new position in a chat, or None if the chat is gone."""

    chat: str
    held: Held | None
    is_awaited: bool = False
    """Whether another user sent the entry, and waits for it to be received."""


class Reported(msgspec.Struct, frozen=True):
    """Effect of confirming an event: the application knows that this message failed."""

    key: OutgoingKey


class Dropped(msgspec.Struct, frozen=True):
    """Effect of confirming an event: the application knows of erasures up to this number."""

    erasures: int


Mark = Position | Reported | Dropped


class EventQueue:
    """Queue of events with one producer and one consumer."""

    def __init__(self, taken: Callable[[Mark], None]) -> None:
        """Create an empty queue; `taken` is called with the mark of each confirmed event."""
        self._taken = taken
        self._items: OrderedDict[Hashable, tuple[Event, Mark | None]] = OrderedDict()
        self._serial = 0
        self._entries = 0
        self._notices = 0
        self._in_hand: Mark | None = None
        """The mark of the event that the application has got and not confirmed yet."""
        self._waiter: asyncio.Future[None] | None = None
        self._end: Exception | None = None

    @property
    def room(self) -> int:
        """The number of entries that the queue can still accept."""
        return ENTRIES_MAX - self._entries

    # The producer.

    def put(self, event: Event, mark: Mark) -> None:
        """Add an event that must not be lost."""
        self._serial += 1
        self._items[self._serial] = event, mark
        self._entries += isinstance(mark, Position)
        self._wake()

    def put_notice(self, event: Event, key: Hashable) -> None:
        """Add an event, which replaces a waiting event with the same key."""
        name = ("notice", key)
        if self._items.pop(name, None) is None:
            if self._notices >= NOTICES_MAX:
                return
            self._notices += 1
        self._items[name] = event, None
        self._wake()

    def revise(self, change: Callable[[Event], Event]) -> None:
        """Replace each waiting event by the result of `change`."""
        for name, (event, mark) in self._items.items():
            self._items[name] = change(event), mark

    def end(self, error: Exception) -> None:
        """End the queue: after the waiting events, `next` raises this error."""
        self._end = self._end or error
        self._wake()

    def close(self, error: Exception) -> None:
        """Close the queue and drop the waiting events, which the next client delivers again."""
        self._items.clear()
        self._in_hand = None
        self.end(error)

    # The consumer.

    def confirm(self) -> None:
        """Confirm the event that the application got last."""
        mark, self._in_hand = self._in_hand, None
        if mark is not None:
            self._taken(mark)

    async def next(self) -> Event:
        """Confirm the last event, and return the next one.

        Raises:
            RuntimeError: Another reader is already waiting for events.
        """
        self.confirm()
        while not self._items:
            if self._end is not None:
                raise self._end
            if self._waiter is not None:
                raise RuntimeError("the events of a client have one reader")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        _, (event, self._in_hand) = self._items.popitem(last=False)
        self._entries -= isinstance(self._in_hand, Position)
        self._notices -= self._in_hand is None
        return event

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
