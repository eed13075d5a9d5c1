# SPDX-License-Identifier: Apache-2.0
"""Fresh counts of what is unread in an inbox, for those who are connected: at a pace, each once."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tidings.gateway.hub import Hub
from tidings.model.ids import UserKey
from tidings.model.inbox_reading import UnreadCount
from tidings.model.refusals import Refusal
from tidings.tasks import Tasks
from tidings.wire.frames import InboxUnread, encode

WAITING_MAX: Final = 50_000
COUNTED_AT_ONCE: Final = 4
"""A count may be a query of a thousand rows: after something many had was taken back, this many
run side by side and no more."""


class Recounts:
    """Counts for who waits, and tells all devices of theirs. Best effort."""

    def __init__(
        self, hub: Hub, count_unread: Callable[[UserKey, str], Awaitable[UnreadCount]]
    ) -> None:
        self.dropped = 0
        """Counts that came while too many waited."""
        self._hub = hub
        self._count_unread = count_unread
        self._waiting: OrderedDict[tuple[UserKey, str], None] = OrderedDict()
        self._counting = 0
        self._under_way: set[tuple[UserKey, str]] = set()
        self._again: set[tuple[UserKey, str]] = set()
        self._tasks = Tasks("recounts")

    async def close(self) -> None:
        """Stop what is under way."""
        await self._tasks.close()

    def ask(self, user: UserKey, inbox: str, *, is_urgent: bool = False) -> None:
        """Count and tell soon; who is urgent goes before the others."""
        if not self._hub.of(user):
            return
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting[user, inbox] = None
        if is_urgent:
            self._waiting.move_to_end((user, inbox), last=False)
        if self._counting < COUNTED_AT_ONCE:
            self._counting += 1
            self._tasks.start(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                one, _ = self._waiting.popitem(last=False)
                if one in self._under_way:
                    self._again.add(one)  # told by two at once, the older count might come last
                else:
                    await self._count(one)
        finally:
            self._counting -= 1

    async def _count(self, one: tuple[UserKey, str]) -> None:
        self._under_way.add(one)
        try:
            with suppress(Refusal):  # nobody is told, and whoever asks is counted for anew
                await self._tell(*one)
        finally:
            self._under_way.discard(one)
            if one in self._again:
                self._again.discard(one)
                self._waiting[one] = None

    async def _tell(self, user: UserKey, inbox: str) -> None:
        unread = await self._count_unread(user, inbox)
        frame = encode(InboxUnread(inbox, unread.total, unread.categories))
        for line in self._hub.of(user):
            line.tell(frame)
