# SPDX-License-Identifier: Apache-2.0
"""The sweeper: removes expired content in small steps, and publishes which messages expired.

No read depends on it: expired content is invisible at once. It frees the space, and lets devices
know whose unread count has changed.
"""

import asyncio
import logging
from collections import defaultdict

from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Bus, Expired
from tidings.ports.store import Sweeping
from tidings.ports.world import Clock

log = logging.getLogger("tidings.sweeping")


class Sweeper:
    """Background task that sweeps once a second."""

    def __init__(self, sweeping: Sweeping, bus: Bus, clock: Clock) -> None:
        self._sweeping = sweeping
        self._bus = bus
        self._clock = clock

    async def sweep_when_due(self) -> None:
        """Sweep, then wait a tick. If the store is too busy, the next call sweeps."""
        try:
            await self.sweep()
        except StoreUnavailable as refusal:
            log.warning("cannot sweep now: %s", refusal, extra={"action": "sweep_waits"})
        await asyncio.sleep(limits.SWEEP_TICK_MS / 1_000)

    async def sweep(self) -> int:
        """Empty everything that has expired; return the number of messages."""
        emptied = 0
        while True:
            now = self._clock.now()
            found = await self._sweeping.empty_expired(now, limits.SWEEP_BATCH_ROWS)
            emptied += len(found)
            self._publish(found)
            if len(found) < limits.SWEEP_BATCH_ROWS:
                break
        await self._forget_keys()
        await self._forget_notifications()
        return emptied

    async def _forget_keys(self) -> None:
        # A step walks over a batch of keys in no order of time. As long as an eighth of them is
        # stale there is more to find, so keys are removed as fast as sends add them.
        limit = limits.SWEEP_BATCH_ROWS
        while await self._sweeping.forget_keys(self._clock.now(), limit) > limit // 8:
            pass

    async def _forget_notifications(self) -> None:
        limit = limits.SWEEP_BATCH_ROWS
        while await self._sweeping.forget_notifications(self._clock.now(), limit) >= limit:
            pass

    def _publish(self, found: list[tuple[ChatId, int]]) -> None:
        by_chat: dict[ChatId, list[int]] = defaultdict(list)
        for chat, sequence in found:
            by_chat[chat].append(sequence)
        for chat, sequences in by_chat.items():
            self._bus.publish(Expired(chat, tuple(sequences)))
