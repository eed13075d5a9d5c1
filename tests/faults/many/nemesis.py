# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a fleet, each by its own method, all by one seed."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from redis.asyncio import Redis

from tests.faults.history import History
from tests.faults.many.fleet import GATEWAYS, ROLES, WORKERS, Fleet
from tests.faults.many.roaming import Roamer
from tests.faults.many.secrecy import over_pause
from tests.faults.verdict import count
from tests.faults.workload import Workload
from tests.support.dynamo_proxy import Fate
from tests.support.waiting import NotInTime, until

FLUSH_SECONDS: Final = 3.0
SPOIL_SECONDS: Final = 0.7
WANDER_SECONDS: Final = 0.6
SILENCE_SECONDS: Final = 2.5
"""Longer than the store waits for one answer, shorter than it tries."""
PAUSE_SECONDS: Final = 11.5
"""Longer than a registration lasts."""
NOTICED_SECONDS_MAX: Final = 60.0
IN_FLIGHT_SECONDS_MAX: Final = 60.0

_WRITES: Final = ("TransactWriteItems", "PutItem", "UpdateItem", "BatchWriteItem")
_READS: Final = ("Query", "GetItem", "BatchGetItem")
_FATES: Final[tuple[Fate, ...]] = ("throttle", "fail", "cut", "lose", "lose", "conflict")


class Nemesis:
    """Hits a fleet under load."""

    def __init__(
        self, fleet: Fleet, workload: Workload, history: History, chance: random.Random
    ) -> None:
        self._fleet = fleet
        self._workload = workload
        self._history = history
        self._chance = chance
        self._planned = 0

    def heal(self) -> None:
        """Whatever was still to befall the store does not."""
        waiting = sum(len(fates) for fates in self._fleet.store._fates.values())
        self._fleet.store._fates.clear()
        self._fleet.done.store_faults += self._planned - waiting
        self._planned = 0

    @property
    def kills_in_flight(self) -> int:
        """How many kills have hit a send in flight so far."""
        return count(self._history).kills_in_flight

    # Once.

    async def kill(self, *names: str) -> None:
        """SIGKILL while sends are under way, and a new start."""
        processes = [self._fleet.cluster[name] for name in names]
        await self._in_flight()
        self._history.killed()
        for process in processes:
            await process.kill()
        self._fleet.done.killed += names
        async with asyncio.TaskGroup() as group:
            for process in processes:
                group.create_task(process.start())

    async def restart_in_turn(self) -> None:
        """One process after the other ends in an orderly way while sends are under way, and starts
        again before the next one ends: workers, relay, gateways with the API."""
        for name in (*WORKERS, "relay", *GATEWAYS):
            process = self._fleet.cluster[name]
            await self._in_flight()
            assert await process.terminate() == 0, name
            await process.start()
            self._fleet.done.restarted.append(name)

    async def kill_some(self) -> None:
        """Any one of them, or any two."""
        await self.kill(*self._chance.sample(sorted(ROLES), self._chance.choice([1, 2])))

    async def pause(self, gateway: str, roamers: Sequence[Roamer]) -> None:
        """A gateway stands still until nobody knows it any more, and then goes on.

        It is left alone until those who were connected have seen what it does then.
        """
        await self._fleet.pause(gateway, PAUSE_SECONDS)
        pause = self._fleet.done.pauses[-1]
        caught = [stay for roamer in roamers for stay in over_pause(roamer, pause)]
        with suppress(NotInTime):  # the checker says what it means that one stayed
            await until(
                lambda: all(stay.closed is not None for stay in caught),
                seconds=NOTICED_SECONDS_MAX,
            )

    async def restart_broker(self) -> None:
        """Kafka is gone for as long as it takes."""
        await asyncio.to_thread(self._fleet.kafka.restart)
        self._fleet.done.broker_restarts += 1

    async def silence_store(self) -> None:
        """The store takes requests and does not answer; then it carries them out after all."""
        gate = self._fleet.store.gate = asyncio.Event()
        await asyncio.sleep(SILENCE_SECONDS)
        self._fleet.store.gate = None
        gate.set()
        self._fleet.done.store_silences += 1

    # Again and again, until cancelled.

    async def keep_flushing(self) -> None:
        """Redis forgets everything."""
        async with Redis.from_url(self._fleet.redis.address) as redis:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                await redis.flushall()
                self._fleet.done.flushed += 1

    async def keep_spoiling(self) -> None:
        """Single requests to the store are turned away, cut off, or carried out and cut off."""
        store = self._fleet.store
        while True:
            await asyncio.sleep(self._chance.uniform(0, SPOIL_SECONDS))
            fate = self._chance.choice(_FATES)
            is_write = fate == "conflict" or self._chance.random() < 0.7
            operation = self._chance.choice(_WRITES[:1] if fate == "conflict" else _WRITES)
            store.plan(operation if is_write else self._chance.choice(_READS), fate)
            self._planned += 1
            # It remembers every request, and nobody here asks what they were.
            store.asked.clear()

    async def keep_wandering(self, roamers: Sequence[Roamer]) -> None:
        """Devices lose their connections and come back anywhere."""
        while True:
            await asyncio.sleep(self._chance.uniform(0, WANDER_SECONDS))
            roamer = self._chance.choice(roamers)
            # Whoever is connected to one that stands still is to see it go on.
            if roamer.is_live and roamer.stays[-1].url not in self._fleet.paused:
                await roamer.drop()

    async def _in_flight(self) -> None:
        await until(lambda: self._workload.in_flight, seconds=IN_FLIGHT_SECONDS_MAX)
