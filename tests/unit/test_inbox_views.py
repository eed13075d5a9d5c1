# SPDX-License-Identifier: Apache-2.0
"""What a process remembers of inboxes: how old it may be, who waits for whom, what is dropped."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import NOW
from tests.support.failpoints import Died
from tests.unit.small_deployment import SmallDeployment, open_small_deployment
from tidings.actions.inbox import broadcast_log, settings
from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.actions.inbox.settings import TtlCache
from tidings.model import limits
from tidings.model.notifications import Broadcast
from tidings.model.refusals import InboxBusy, StoreUnavailable
from tidings.ports.inboxes import Notifications

LATER = NOW + limits.DAY_MS
KEY = ("acme", "news")


class Steady:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


class Engine:
    """The store's own notifications, with an age of the test's choice, counted and held up."""

    def __init__(self, store: Notifications, age_ms: int) -> None:
        self._store = store
        self.broadcasts_age_ms = age_ms
        self.reads = 0
        self.fails = False
        self.may_read = asyncio.Event()
        self.may_read.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def broadcasts(
        self, tenant: str, inbox: str, *, after: int, limit: int
    ) -> list[Broadcast]:
        found = await self._store.broadcasts(tenant, inbox, after=after, limit=limit)
        self.reads += 1  # what is written from now on is not in it
        await self.may_read.wait()
        if self.fails:
            raise Died
        return found


def entry(sequence: int, **more: Any) -> Broadcast:
    fields = {"kind": "broadcast", "mark": f"m{sequence}", "expires_at": LATER, **more}
    return Broadcast(
        tenant="acme", inbox="news", sequence=sequence, posted_at=NOW + sequence, **fields
    )


async def fill(store: Notifications, entries: Sequence[Broadcast]) -> None:
    for one in entries:
        assert await store.append_broadcast(one)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path) as opened:
        yield opened


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Steady:
    clock = Steady()
    monkeypatch.setattr(broadcast_log, "monotonic", clock)
    return clock


def views_of(world: SmallDeployment, age_ms: int) -> tuple[LogViews, Engine]:
    engine: Any = Engine(world.store.notifications, age_ms)
    return LogViews(engine, world.clock), engine


async def test_a_view_is_as_old_as_the_engine_allows_and_no_older(
    world: SmallDeployment, steady: Steady
) -> None:
    views, _ = views_of(world, 1_000)
    assert (await views.get(*KEY)).head == 0
    await fill(world.store.notifications, [entry(1)])
    steady.time += 1.0
    assert (await views.get(*KEY)).head == 0
    assert (await views.get(*KEY, age_ms=0)).head == 1
    await fill(world.store.notifications, [entry(2)])
    steady.time += 1.0
    assert (await views.get(*KEY)).head == 1
    steady.time += 0.001
    assert (await views.get(*KEY)).head == 2


async def test_age_counts_from_when_the_reading_began(
    world: SmallDeployment, steady: Steady
) -> None:
    views, engine = views_of(world, 1_000)
    engine.may_read.clear()
    first = asyncio.ensure_future(views.get(*KEY))
    while not engine.reads:
        await asyncio.sleep(0)
    await fill(world.store.notifications, [entry(1)])
    steady.time += 1.5  # reading took that long: what it found is too old for whoever comes now
    second = asyncio.ensure_future(views.get(*KEY))
    engine.may_read.set()
    assert (await first).head == 0
    assert (await second).head == 1
    assert engine.reads == 2


async def test_whoever_comes_meanwhile_shares_one_reading(world: SmallDeployment) -> None:
    views, engine = views_of(world, 0)
    engine.may_read.clear()
    first = asyncio.ensure_future(views.get(*KEY))
    while not engine.reads:
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(views.get(*KEY)) for _ in range(20)]
    for _ in range(3):
        await asyncio.sleep(0)
    first.cancel()  # takes nothing away from the others
    engine.may_read.set()
    for other in others:
        await other
    assert engine.reads == 2


async def test_a_reading_that_fails_fails_only_those_it_was_for(world: SmallDeployment) -> None:
    views, engine = views_of(world, 0)
    engine.may_read.clear()
    engine.fails = True
    first = asyncio.ensure_future(views.get(*KEY))
    while not engine.reads:
        await asyncio.sleep(0)
    second = asyncio.ensure_future(views.get(*KEY))
    await asyncio.sleep(0)
    engine.may_read.set()
    with pytest.raises(Died):
        await first
    engine.fails = False
    assert (await second).head == 0


async def test_a_cold_view_reads_back_as_far_as_it_counts(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.store.notifications
    monkeypatch.setattr(broadcast_log, "PAGE_ENTRIES", 3)
    await fill(store, [entry(1), entry(2, kind="retraction", target="b1")])
    await fill(store, [entry(place) for place in range(3, 12)])
    views, _ = views_of(world, 0)
    view = await views.get(*KEY)
    assert view.head == 11
    assert [one.sequence for one in view.broadcasts] == [1, *range(3, 12)]
    assert view.is_retracted("b1")

    monkeypatch.setattr(limits, "INBOX_LOG_ENTRIES_MAX", 4)
    views, _ = views_of(world, 0)
    assert [one.sequence for one in (await views.get(*KEY)).broadcasts] == list(range(6, 12))
    monkeypatch.setattr(limits, "INBOX_LOG_ENTRIES_MAX", 10_000)
    monkeypatch.setattr(limits, "INBOX_BROADCASTS_MAX", 2)
    views, _ = views_of(world, 0)
    view = await views.get(*KEY)
    assert [one.sequence for one in view.broadcasts] == [10, 11]
    assert view.is_retracted("b1")

    world.clock.time += limits.KEEP_DAYS_MAX * limits.DAY_MS + 20
    views, _ = views_of(world, 0)
    view = await views.get(*KEY)
    assert (view.head, view.broadcasts, view.retracted) == (11, (), {})


async def test_the_least_used_views_go_when_they_are_too_many(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch, steady: Steady
) -> None:
    await fill(world.store.notifications, [entry(1, box=b"x" * 1_000)])
    monkeypatch.setattr(limits, "INBOX_VIEW_BYTES_MAX", 3_000)
    views, engine = views_of(world, 1_000)
    await views.get(*KEY)
    for name in ("one", "two"):
        await views.get("acme", name)
    await views.get(*KEY)
    assert engine.reads == 3
    for name in ("three", "four", "five"):
        await views.get("acme", name)
        await views.get(*KEY)
    assert engine.reads == 6
    await views.get("acme", "one")
    assert engine.reads == 7


WRITERS, ENTRIES = 3, 9
assert ENTRIES - ENTRIES // WRITERS < limits.SLOT_ATTEMPTS_MAX, (
    "each attempt is lost to another entry of another writer: nobody can run out of attempts"
)


async def test_places_are_claimed_by_several_writers_without_loss(world: SmallDeployment) -> None:
    store = world.store.notifications

    async def at_once(_: int) -> None:
        await asyncio.sleep(0)

    writers = []
    for _ in range(WRITERS):
        views, _ = views_of(world, 60_000)
        writers.append(BroadcastAppender(store, views, world.clock, at_once))
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(writers[number % WRITERS](entry(0, mark=f"w{number}")))
            for number in range(ENTRIES)
        ]
    placed = [task.result()[0] for task in tasks]
    kept = await store.broadcasts(*KEY, after=0, limit=100)
    assert [one.sequence for one in kept] == list(range(1, ENTRIES + 1))
    assert sorted(one.mark for one in kept) == sorted(f"w{number}" for number in range(ENTRIES))
    assert sorted(placed, key=lambda one: one.sequence) == kept
    times = [one.posted_at for one in kept]
    assert times == sorted(set(times))


async def test_the_same_entry_is_found_instead_of_added(world: SmallDeployment) -> None:
    store = world.store.notifications
    views, _ = views_of(world, 60_000)

    async def at_once(_: int) -> None:
        return

    writer = BroadcastAppender(store, views, world.clock, at_once)
    assert (await views.get(*KEY)).head == 0
    await fill(store, [entry(1), entry(2, key="k"), entry(3)])

    def is_same(one: Broadcast) -> bool:
        return one.key == "k"

    # Lost the place: it is among what others added.
    assert await writer(entry(0, mark="x", key="k"), is_same=is_same) == (entry(2, key="k"), True)
    # Known already: it is looked for from the hint on.
    await views.get(*KEY, age_ms=0)
    found = await writer(entry(0, mark="y", key="k"), after=1, is_same=is_same)
    assert found == (entry(2, key="k"), True)
    added, is_there = await writer(entry(0, mark="z", key="k"), after=2, is_same=is_same)
    assert (added.sequence, is_there) == (4, False)


async def test_a_writer_gives_up_when_others_are_always_first(world: SmallDeployment) -> None:
    store = world.store.notifications
    views, _ = views_of(world, 60_000)
    await views.get(*KEY)
    taken = 0

    async def somebody_is_first(_: int) -> None:
        nonlocal taken
        taken += 1
        await fill(store, [entry(taken + 1)])

    await fill(store, [entry(1)])

    class Late(Engine):
        """Shows what others added only when it is too late."""

        async def broadcasts(
            self, tenant: str, inbox: str, *, after: int, limit: int
        ) -> list[Broadcast]:
            found = await self._store.broadcasts(tenant, inbox, after=after, limit=limit)
            return found[:-1]

    late: Any = Late(store, 60_000)
    with pytest.raises(InboxBusy):
        await BroadcastAppender(late, views, world.clock, somebody_is_first)(entry(0, mark="mine"))
    assert taken == limits.SLOT_ATTEMPTS_MAX


async def test_a_value_is_remembered_for_a_second_unless_it_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Steady()
    monkeypatch.setattr(settings, "monotonic", clock)
    values: dict[str, str] = {}
    reads = 0
    may_read = asyncio.Event()
    may_read.set()

    async def read(key: str) -> str | None:
        nonlocal reads
        reads += 1
        value = values.get(key)
        await may_read.wait()
        return value

    remembered: TtlCache[str, str] = TtlCache(read)
    assert await remembered.get("a") is None
    values["a"] = "one"
    assert await remembered.get("a") == "one"  # that there was none is not remembered
    values["a"] = "two"
    clock.time += 0.999
    assert await remembered.get("a") == "one"
    clock.time += 0.001
    assert await remembered.get("a") == "two"
    values["a"] = "three"
    remembered.forget("a")
    assert await remembered.get("a") == "three"

    # One that was being read while it changed is not remembered.
    remembered.forget("a")
    may_read.clear()
    reading = asyncio.ensure_future(remembered.get("a"))
    await asyncio.sleep(0)
    values["a"] = "four"
    remembered.forget("a")
    may_read.set()
    assert await reading == "three"
    assert await remembered.get("a") == "four"


async def test_pages_that_are_full_to_the_last_are_read_to_the_end(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.store.notifications
    monkeypatch.setattr(broadcast_log, "PAGE_ENTRIES", 3)
    await fill(store, [entry(place) for place in range(1, 7)])
    views, _ = views_of(world, 0)
    assert [one.sequence for one in (await views.get(*KEY)).broadcasts] == list(range(1, 7))
    await fill(store, [entry(place) for place in range(7, 13)])
    assert [one.sequence for one in (await views.get(*KEY)).broadcasts] == list(range(1, 13))

    async def at_once(_: int) -> None:
        return

    writer = BroadcastAppender(store, views, world.clock, at_once)
    found = await writer(entry(0), after=2, is_same=lambda one: one.sequence == 11)
    assert found == (entry(11), True)


async def test_a_log_that_is_read_too_slowly_is_not_shown(
    world: SmallDeployment, steady: Steady
) -> None:
    views, _ = views_of(world, 1_000)
    await fill(world.store.notifications, [entry(1)])

    class Slow(Engine):
        async def broadcasts(
            self, tenant: str, inbox: str, *, after: int, limit: int
        ) -> list[Broadcast]:
            steady.time += 1.5
            return await super().broadcasts(tenant, inbox, after=after, limit=limit)

    slow: Any = Slow(world.store.notifications, 1_000)
    with pytest.raises(StoreUnavailable):
        await LogViews(slow, world.clock).now(*KEY)
    assert slow.reads == broadcast_log.READINGS_MAX
    assert (await views.now(*KEY)).head == 1


async def test_a_reading_that_is_cancelled_with_its_loop_leaves_nothing_behind(
    world: SmallDeployment,
) -> None:
    views, engine = views_of(world, 0)
    engine.may_read.clear()
    asked = asyncio.ensure_future(views.get(*KEY))
    while not engine.reads:
        await asyncio.sleep(0)
    views._readings[KEY].task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    engine.may_read.set()
    assert (await views.get(*KEY)).head == 0
