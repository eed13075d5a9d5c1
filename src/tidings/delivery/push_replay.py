# SPDX-License-Identifier: Apache-2.0
"""Offers messages to the queue of push notices that waited there when the last process ended.

The queue is in memory, so nobody knows what waited in it. All messages of the last minutes are
therefore offered again. Those of which a member was notified already cannot be claimed once more.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from tidings.delivery.push_notices import Arrival, PushOffers
from tidings.metrics import declared
from tidings.model.ids import ChatId
from tidings.model.limits import SECOND_MS, TAIL_ENTRIES_MAX
from tidings.model.refusals import Unavailable
from tidings.ports.log import Log
from tidings.ports.push import RecentChats
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.push")

T = TypeVar("T")

REPLAYED_MS_MAX: Final = 120 * SECOND_MS
"""Maximum age of a message that is offered again. A message waits for half a minute at most, so
this is enough if a restart takes no longer than a minute and a half."""
ATTEMPTS_MAX: Final = 8
"""Number of attempts to read something while the store does not answer, in about 12 seconds."""


class PushReplay:
    """Offers the messages again that were sent shortly before this process started."""

    def __init__(
        self,
        offers: PushOffers,
        chats: RecentChats,
        entries: Log,
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
        *,
        of_everybody: bool,
    ) -> None:
        """Set up the replay; `of_everybody` says whether users of tenants without push settings are
        notified, too. `back_off(n)` waits before the n-th retry."""
        self._offers = offers
        self._chats = chats
        self._log = entries
        self._back_off = back_off
        self._of_everybody = of_everybody
        self._started_at = clock.now()
        self._tasks = Tasks("push replay")

    def start(self) -> None:
        """Begin in the background."""
        self._tasks.start(self.offer_again())

    async def close(self) -> None:
        """Stop. The next process offers what is left."""
        await self._tasks.close()

    async def offer_again(self) -> None:
        """Offer the messages of the last minutes. If the store does not answer, repeat what failed:
        of a message that is offered twice, nobody is notified twice."""
        counts: dict[ChatId, int] = {}
        await self._patiently(partial(self._offer_all, counts))
        if count := sum(counts.values()):
            extra = {"action": "push_replayed", "count": count}
            log.info("offered messages from before the start again", extra=extra)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a function that reads the store; None if it failed too often."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await act()
            except Unavailable:
                log.warning("the store does not answer", extra={"action": "push_waits"})
            if attempt < ATTEMPTS_MAX:
                await self._back_off(attempt)
        declared.push.counts["failed"] += 1
        return None

    async def _offer_all(self, counts: dict[ChatId, int]) -> None:
        """Offer the messages of all chats but those that are counted; count them."""
        since = self._started_at - REPLAYED_MS_MAX
        async for chat in self._chats.written_since(since, of_everybody=self._of_everybody):
            if chat not in counts:
                counts[chat] = await self._patiently(partial(self._offer, chat, since)) or 0
            await asyncio.sleep(0)  # everything may be cached, and others have to run too

    async def _offer(self, chat: ChatId, since: int) -> int:
        state = await self._log.state(chat)
        if state is None or state.is_deleted or not await self._offers.is_on(state.tenant):
            return 0
        entries = await self._log.tail(chat, max(0, state.head - TAIL_ENTRIES_MAX))
        # This process offers by itself what it appends.
        found = [one for one in entries if since <= one.created_at < self._started_at]
        messages = [one for one in found if one.kind == "message" and one.gone is None]
        for entry in messages:
            bare = msgspec.structs.replace(entry, content=None, box=None)
            await self._offers.offer(Arrival(bare, state.members, state.is_small, is_again=True))
            await asyncio.sleep(0)  # a chat may have many members
        return len(messages)
