# SPDX-License-Identifier: Apache-2.0
"""A timer with items in memory, work that does as it is told, and a clock that is set by hand."""

import asyncio
from collections.abc import Sequence
from zlib import crc32

from tests.support.clock import NOW, ManualClock
from tests.support.waiting import until
from tidings.delivery.timer import USUAL_PACE, Pace, Timer
from tidings.model.refusals import StoreUnavailable
from tidings.ports.due import Due, DueItems, DueKind, DueWork


class MemoryItems:
    """Items in memory, in one shard or several."""

    def __init__(self, *items: Due) -> None:
        self.items = {item.name: item for item in items}
        self.leases = 0
        self.given_back = 0
        self.is_down = False
        self.shards = 1
        self.shard_of: dict[str, int] = {}
        """Shards of some items; the others are divided evenly."""
        self.searches = 0
        """How often items were read without those of large tenants."""
        self.since: list[int] = []
        """From which time on they were read, each time."""
        self.drops: list[int] = []
        """How many items were removed together, each time."""

    async def put(self, due: Due, now: int) -> None:
        self.items[due.name] = due

    async def lease(self, kind: DueKind, holder: str, now: int) -> Sequence[int]:
        self.leases += 1
        return range(self.shards)

    async def read(
        self,
        kind: DueKind,
        shard: int,
        now: int,
        limit: int,
        without: Sequence[str] = (),
        after: Due | None = None,
        since: int = 0,
    ) -> list[Due]:
        if self.is_down:
            raise StoreUnavailable
        if without:
            self.searches += 1
            self.since.append(since)
        due = [item for item in self.items.values() if item.at <= now and item.kind == kind]
        due = [item for item in due if self._shard(item) == shard]
        due = [item for item in due if after is None or item.name > after.name]
        due = [item for item in due if item.at >= since]
        return sorted((one for one in due if one.tenant not in without), key=lambda one: one.name)[
            :limit
        ]

    def _shard(self, due: Due) -> int:
        return self.shard_of.get(due.item_id, crc32(due.item_id.encode()) % self.shards)

    async def drop(self, due: Due) -> None:
        self.items.pop(due.name, None)

    async def drop_done(self, dues: Sequence[Due]) -> None:
        self.drops.append(len(dues))
        for due in dues:
            await self.drop(due)

    async def give_back(self, kind: DueKind, holder: str) -> None:
        self.given_back += 1
        if self.is_down:
            raise StoreUnavailable


class Work:
    """Writes down what it is asked to do, and does as it is told."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.gave_up: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.is_over = True
        self.may_go = asyncio.Event()
        self.may_go.set()

    async def do(self, due: Due) -> bool:
        await self.may_go.wait()
        self.did.append(due.item_id)
        if due.item_id in self.fails:
            raise self.fails[due.item_id]
        return self.is_over

    async def give_up(self, due: Due) -> None:
        self.gave_up.append(due.item_id)
        if isinstance(self.fails[due.item_id], OSError):
            raise self.fails[due.item_id]


_items_conform: type[DueItems] = MemoryItems
_work_conforms: type[DueWork] = Work


def an_item(name: str, at: int = NOW, tenant: str = "acme", kind: DueKind = "message") -> Due:
    return Due(kind=kind, at=at, item_id=name, subject="ann", tenant=tenant, made_at=NOW)


class World:
    """A timer with its items, its work and its time."""

    def __init__(self, *items: Due, pace: Pace = USUAL_PACE) -> None:
        self.items = MemoryItems(*items)
        self.work = Work()
        self.clock = ManualClock()
        self.waited: list[int] = []
        self.kinds: dict[DueKind, DueWork] = {"message": self.work, "inbox": self.work}
        self.timer = Timer(
            due=self.items,
            kinds=self.kinds,
            clock=self.clock,
            holder="me",
            back_off=self._back_off,
            pace=pace,
        )

    async def _back_off(self, attempt: int) -> None:
        self.waited.append(attempt)
        self.items.is_down = attempt < 2

    async def pass_time(self, ms: int) -> None:
        self.clock.time += ms
        await self.timer.look()
        await self.settled()

    async def settled(self) -> None:
        await until(lambda: self.timer.depths()["held"] == 0)
