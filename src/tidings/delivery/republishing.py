# SPDX-License-Identifier: Apache-2.0
"""Delivering again where one process does it all: its own bus is told once more."""

from tidings.actions.vault import Vault
from tidings.delivery.folding import RUN_ENTRIES_MAX, NotInLog
from tidings.model.entries import head_of
from tidings.model.ids import ChatId
from tidings.ports.bus import Appended, Bus
from tidings.ports.deliveries import Deliveries
from tidings.ports.log import Log
from tidings.ports.world import Clock


class Republishing:
    """Puts entries on the bus again; connections drop what they have."""

    def __init__(
        self, log: Log, deliveries: Deliveries, vault: Vault, bus: Bus, clock: Clock
    ) -> None:
        self._log = log
        self._deliveries = deliveries
        self._vault = vault
        self._bus = bus
        self._clock = clock

    async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
        """Publish a stretch of a log, of a long one only the end, and advance the head copy.

        Raises:
            NotInLog: There is no such chat, or its log is shorter.
            StoreUnavailable: Not now.
        """
        first = max(after + 1, up_to - RUN_ENTRIES_MAX + 1)
        state = await self._log.state(chat)
        entries = await self._deliveries.entries(chat, after=first - 1, limit=up_to - first + 1)
        if state is None or not entries or entries[-1].sequence < up_to:
            raise NotInLog(f"the log of {chat} does not reach {up_to}")
        await self._vault.open(entries, self._clock.now())
        for entry in entries:
            self._bus.publish(Appended(entry, state))
        count = len(state.members) if state.head == up_to else None
        await self._deliveries.advance(chat, head_of(entries[-1]), count)
