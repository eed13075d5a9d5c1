# SPDX-License-Identifier: Apache-2.0
"""Events on their way to the application: bounded, in order, each counted as taken only when the
application asks for the next one."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from tidings_client.events import Event
from tidings_client.saved import Held, OutgoingKey

ENTRIES_MAX: Final = 2_000
"""Beyond this many entries nothing more is put in; what is missing is fetched when there is room.
On one connection the server's own window, 1,000 entries, comes first."""
NOTICES_MAX: Final = 10_000
"""How many different notices (typing, presence, receipts ...) may wait; more are dropped."""


class Position(msgspec.Struct, frozen=True):
    """What taking an event means: the chat is held up to here, or (None) not at all."""

    chat: str
    held: Held | None
    is_awaited: bool = False
    """Whether somebody else sent it and likes to hear that it was received."""


class Reported(msgspec.Struct, frozen=True):
    """What taking an event means: the application knows that this message failed."""

    key: OutgoingKey


Mark = Position | Reported


class EventQueue:
    """One producer, one consumer."""

    def __init__(self, taken: Callable[[Mark], None]) -> None:
        """`taken` is told of each mark as soon as the application has taken its event."""
        self._taken = taken
        self._items: OrderedDict[Hashable, tuple[Event, Mark | None]] = OrderedDict()
        self._serial = 0
        self._entries = 0
        self._notices = 0
        self._in_hand: Mark | None = None
        """Handed out, and not yet taken."""
        self._waiter: asyncio.Future[None] | None = None
        self._end: Exception | None = None

    @property
    def room(self) -> int:
        """How many entries may still be put in."""
        return ENTRIES_MAX - self._entries

    # Putting in.

    def put(self, event: Event, mark: Mark) -> None:
        """An event that must not be lost."""
        self._serial += 1
        self._items[self._serial] = event, mark
        self._entries += isinstance(mark, Position)
        self._wake()

    def put_notice(self, event: Event, key: Hashable) -> None:
        """An event of which only the latest of its kind matters: an earlier one gives way."""
        name = ("notice", key)
        if self._items.pop(name, None) is None:
            if self._notices >= NOTICES_MAX:
                return
            self._notices += 1
        self._items[name] = event, None
        self._wake()

    def end(self, error: Exception) -> None:
        """Nothing more comes: once all is handed out, `next` raises this."""
        self._end = self._end or error
        self._wake()

    def close(self, error: Exception) -> None:
        """Nothing more is handed out; what still waits was never taken, and comes again."""
        self._items.clear()
        self._in_hand = None
        self.end(error)

    # Taking out.

    def confirm(self) -> None:
        """The application is done with the event it was handed last."""
        mark, self._in_hand = self._in_hand, None
        if mark is not None:
            self._taken(mark)

    async def next(self) -> Event:
        """The next event; asking for it takes the one before.

        Raises:
            RuntimeError: Somebody else is waiting for events already.
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
