# SPDX-License-Identifier: Apache-2.0
"""The timer: what is due is done once, in turns, and again after a failure."""

import asyncio
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest

from tests.support.clock import NOW, ManualClock
from tests.support.waiting import until
from tidings.delivery import due_memory
from tidings.delivery import timer as module
from tidings.delivery.due_searches import SEARCH_MS, SETTLE_MS, WHOLE_MS
from tidings.delivery.timer import (
    ASK_MS,
    FAILURES_MAX,
    RETRY_MS_MAX,
    USUAL_PACE,
    WIDTH_MIN,
    Pace,
    Timer,
)
from tidings.metrics import declared
from tidings.model.refusals import HookUnavailable, StoreUnavailable, Unavailable
from tidings.ports.due import LEASE_MS, Due, DueItems, DueKind, DueWork
from tidings.ports.tenant_jobs import NotYet


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


async def test_what_is_due_is_done_once_and_is_late_by_what_it_was() -> None:
    before = list(declared.timer_late_seconds.of["message"].counts)
    world = World(an_item("now"), an_item("soon", NOW + 400), an_item("later", NOW + 9_000))
    await world.pass_time(0)
    assert world.work.did == ["now"]
    await world.pass_time(1_000)
    await world.pass_time(0)
    assert world.work.did == ["now", "soon"]
    assert [name[2] for name in world.items.items] == ["later"]
    assert world.timer.done == 2
    after = declared.timer_late_seconds.of["message"].counts
    assert [new - old for new, old in zip(after, before, strict=True)][:3] == [1, 0, 1]


async def test_shards_are_asked_for_three_times_during_a_lease_and_given_back() -> None:
    world = World()
    for _ in range(3):
        await world.pass_time(ASK_MS)
    assert world.items.leases == LEASE_MS // ASK_MS * len(world.kinds) == 3 * len(world.kinds)
    world.items.is_down = True
    await world.timer.close()
    assert world.items.given_back == len(world.kinds)


async def test_tenants_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_MAX", 10)
    monkeypatch.setattr(due_memory, "TENANT_HELD_MAX", 5)
    many = [an_item(f"many{number:02}") for number in range(30)]
    few = [an_item(f"small{number}", NOW, tenant) for number, tenant in enumerate(("b", "c"))]
    world = World(*many, *few, pace=Pace(at_once=1))
    world.work.may_go.clear()
    await world.timer.look()
    assert world.timer.depths() == {"held": 7, "running": 1}
    world.work.may_go.set()
    await world.settled()
    assert {"small0", "small1"} < set(world.work.did[:4])
    assert len(world.work.did) == 7


async def test_no_tenant_fills_the_memory_from_several_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "READ_MAX", 10)
    monkeypatch.setattr(due_memory, "TENANT_HELD_MAX", 5)
    monkeypatch.setattr(due_memory, "HELD_MAX", 20)
    many = [an_item(f"many{number:02}") for number in range(200)]
    world = World(*many, an_item("small", tenant="b"))
    world.items.shards = 4
    world.items.shard_of = {"small": 0}
    world.work.may_go.clear()
    assert await world.timer.look()
    assert world.timer.depths()["held"] == 6
    world.work.may_go.set()
    await world.settled()
    assert "small" in world.work.did


async def test_a_large_tenant_is_passed_by_twice_in_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "READ_MAX", 10)
    monkeypatch.setattr(due_memory, "TENANT_HELD_MAX", 5)
    world = World(*(an_item(f"many{number:02}") for number in range(90)))
    for _ in range(3):
        await world.pass_time(0)
    assert world.items.searches == 1
    await world.items.put(an_item("small", tenant="b"), NOW)
    await world.pass_time(SEARCH_MS)
    assert world.items.searches == 2
    assert "small" in world.work.did


async def test_a_search_goes_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_MAX", 10)
    monkeypatch.setattr(due_memory, "TENANT_HELD_MAX", 5)
    world = World(*(an_item(f"many{number:02}") for number in range(90)))
    world.work.may_go.clear()
    await world.timer.look()
    world.clock.time += WHOLE_MS - 1
    for item in (an_item("new", world.clock.time, "b"), an_item("stored late", NOW - 5_000, "b")):
        await world.items.put(item, world.clock.time)
    await world.timer.look()
    assert world.timer.depths()["held"] == 6
    world.clock.time += SEARCH_MS
    await world.timer.look()
    assert world.timer.depths()["held"] == 7
    assert world.items.since == [0, NOW - SETTLE_MS, 0]
    world.work.may_go.set()
    await world.settled()
    assert {"new", "stored late"} <= set(world.work.did)


async def test_what_must_wait_hides_nothing_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as reminders of many endpoints that fail, each of another tenant."""
    monkeypatch.setattr(module, "READ_MAX", 10)
    early = [an_item(f"early{number:02}", tenant=f"t{number}") for number in range(30)]
    world = World(*early, an_item("late"))
    world.work.fails = {one.item_id: NotYet(NOW + RETRY_MS_MAX) for one in early}
    await world.pass_time(0)
    assert world.work.did[-1] == "late"
    await world.items.put(an_item("later", NOW + 1), NOW)
    await world.pass_time(1)
    assert world.work.did[-1] == "later"
    assert len(world.work.did) == 32


async def test_no_kind_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_memory, "HELD_MAX", 5)
    world = World(*(an_item(f"m{number}") for number in range(9)), an_item("n", kind="inbox"))
    world.work.may_go.clear()
    assert await world.timer.look()
    assert world.timer.depths()["held"] == 6
    world.work.may_go.set()
    await world.settled()
    assert "n" in world.work.did


async def test_what_does_not_fit_is_read_as_soon_as_half_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(due_memory, "HELD_MAX", 10)
    items = [an_item(f"m{number:03}") for number in range(300)]
    world = World(*items, pace=Pace(poll_seconds=3_600))
    world.timer.start()
    await until(lambda: world.items.items == {})
    assert len(world.work.did) == 300
    await world.timer.close()


async def test_a_slow_tenant_leaves_room_for_others() -> None:
    slow = [an_item(f"slow{number}") for number in range(9)]
    world = World(*slow, an_item("other", NOW, "b"), pace=Pace(at_once=4, tenant_at_once=2))
    world.work.may_go.clear()
    await world.timer.look()
    assert world.timer.depths() == {"held": 10, "running": 3}
    world.work.may_go.set()
    await world.settled()
    assert world.work.did.index("other") <= 2
    assert len(world.work.did) == 10
    assert world.items.items == {}


@pytest.mark.parametrize("is_over", [True, False])
async def test_what_is_done_is_removed_together_unless_it_may_be_stored_again(
    is_over: bool,
) -> None:
    world = World(*(an_item(f"m{number}") for number in range(40)))
    world.work.is_over = is_over
    await world.pass_time(0)
    assert world.items.items == {}
    assert sum(world.items.drops) == (40 if is_over else 0)
    assert len(world.items.drops) < 10


async def test_what_cannot_be_removed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(an_item("one"), an_item("two"))

    async def refuse(dues: Sequence[Due]) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(world.items, "drop_done", refuse)
        await world.pass_time(0)
    assert len(world.items.items) == 2
    await world.pass_time(RETRY_MS_MAX)
    assert world.items.items == {}


async def test_a_kind_whose_reads_fail_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(an_item("m"), an_item("n", kind="inbox"))
    read = world.items.read

    async def refuse(kind: DueKind, *given: Any) -> list[Due]:
        if kind == "message":
            raise StoreUnavailable
        return await read(kind, *given)

    monkeypatch.setattr(world.items, "read", refuse)
    with pytest.raises(StoreUnavailable):
        await world.timer.look()
    await world.settled()
    assert world.work.did == ["n"]


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_memory, "HELD_MAX", 3)
    world = World(*(an_item(str(number)) for number in range(9)))
    for number in range(9):
        world.work.fails[str(number)] = StoreUnavailable()
    await world.pass_time(0)
    assert len(world.work.did) == 3
    await world.pass_time(0)
    await world.pass_time(0)
    world.work.fails.clear()
    for _ in range(3):
        await world.pass_time(RETRY_MS_MAX)
    assert world.items.items == {}


async def test_what_must_wait_and_what_the_store_refused_is_tried_again() -> None:
    world = World(an_item("early"), an_item("refused"))
    world.work.fails = {"early": NotYet(NOW + 5_000), "refused": StoreUnavailable()}
    await world.pass_time(0)
    await world.pass_time(999)
    assert world.work.did == ["early", "refused"]
    await world.pass_time(1)
    assert world.work.did[2:] == ["refused"]
    world.work.fails.clear()
    await world.pass_time(4_000)
    assert sorted(world.work.did[3:]) == ["early", "refused"]
    assert world.items.items == {}


async def test_what_fails_again_and_again_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    world = World(an_item("bad"), an_item("worse"))
    world.work.fails = {"bad": ValueError("no"), "worse": OSError("not even that")}
    for _ in range(FAILURES_MAX):
        assert world.work.gave_up == []
        await world.pass_time(RETRY_MS_MAX)
    assert sorted(world.work.gave_up) == ["bad", "worse"]
    assert [name[2] for name in world.items.items] == ["worse"]
    assert world.timer.failed_attempts == 2 * FAILURES_MAX
    actions = [getattr(record, "action", None) for record in caplog.records]
    assert actions.count("due_failed") == 2 * FAILURES_MAX + 1


async def test_the_loop_survives_an_outage() -> None:
    world = World(an_item("one"))
    world.items.is_down = True
    world.timer.start()
    await until(lambda: world.work.did == ["one"])
    assert world.waited == [1, 2]
    await world.timer.close()


@pytest.mark.parametrize("error", [StoreUnavailable(), HookUnavailable()])
async def test_only_a_slow_store_makes_the_timer_do_less_at_once(error: Unavailable) -> None:
    items = [an_item(f"m{number:02}") for number in range(64)]
    world = World(*items, pace=Pace(at_once=32))
    world.work.fails = {one.item_id: error for one in items}
    for _ in range(4):
        await world.pass_time(RETRY_MS_MAX)
    world.work.fails.clear()
    world.work.may_go.clear()
    await world.items.put(an_item("new", tenant="b"), NOW)
    world.clock.time += RETRY_MS_MAX
    await world.timer.look()
    at_once = WIDTH_MIN if isinstance(error, StoreUnavailable) else 32
    assert world.timer.depths()["running"] == at_once
    world.work.may_go.set()
    await world.settled()
    assert world.items.items == {}


async def test_work_that_has_begun_may_end_when_the_process_does() -> None:
    pace = Pace(poll_seconds=0.01, at_once=1, grace_seconds=3_600)
    world = World(an_item("one"), an_item("two"), pace=pace)
    world.work.may_go.clear()
    world.timer.start()
    await until(lambda: world.timer.depths()["running"] == 1)
    closing = asyncio.create_task(world.timer.close())
    for looks in (2, 3):  # the timer looks again meanwhile
        world.clock.time += ASK_MS
        await until(lambda: world.items.leases, equals=looks * len(world.kinds))
    world.work.may_go.set()
    await until(closing.done)
    assert world.work.did == ["one"]
    assert [name[2] for name in world.items.items] == ["two"]
