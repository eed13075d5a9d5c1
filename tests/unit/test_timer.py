# SPDX-License-Identifier: Apache-2.0
"""The timer: what is due is done once, in turns, and again after a failure."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.clock import NOW
from tests.support.waiting import until
from tests.unit.timer_world import World, an_item
from tidings.delivery import due_memory
from tidings.delivery import timer as module
from tidings.delivery.due_searches import COOL_DOWN_FACTOR, SEARCH_MS, SETTLE_MS, WHOLE_MS
from tidings.delivery.timer import (
    ASK_MS,
    FAILURES_MAX,
    RETRY_MS_MAX,
    WIDTH_MIN,
    Pace,
)
from tidings.metrics import declared
from tidings.model.refusals import HookUnavailable, StoreUnavailable, Unavailable
from tidings.ports.due import LEASE_MS, Due, DueKind
from tidings.ports.tenant_jobs import NotYet


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ten items be read at once, and five of one tenant be in memory."""
    monkeypatch.setattr(module, "READ_MAX", 10)
    monkeypatch.setattr(due_memory, "TENANT_HELD_MAX", 5)


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


@pytest.mark.usefixtures("little_memory")
async def test_tenants_take_turns() -> None:
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


@pytest.mark.usefixtures("little_memory")
async def test_no_tenant_fills_the_memory_from_several_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


@pytest.mark.usefixtures("little_memory")
async def test_a_large_tenant_is_passed_by_twice_in_a_second() -> None:
    world = World(*(an_item(f"many{number:02}") for number in range(90)))
    for _ in range(3):
        await world.pass_time(0)
    assert world.items.searches == 1
    await world.items.put(an_item("small", tenant="b"), NOW)
    await world.pass_time(SEARCH_MS)
    assert world.items.searches == 2
    assert "small" in world.work.did


@pytest.mark.usefixtures("little_memory")
async def test_a_search_goes_on_where_the_last_one_ended() -> None:
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


@pytest.mark.usefixtures("little_memory")
async def test_what_did_not_fit_is_searched_for_again() -> None:
    large = [an_item(f"many{number:02}", NOW - 2 * WHOLE_MS) for number in range(90)]
    small = [an_item(f"some{number}", NOW - WHOLE_MS, "b") for number in range(8)]
    world = World(*large, *small)
    await world.pass_time(0)
    await world.pass_time(SEARCH_MS)
    assert {one.item_id for one in small} <= set(world.work.did)


@pytest.mark.usefixtures("little_memory")
async def test_what_failed_is_searched_for_again() -> None:
    large = [an_item(f"many{number:02}", NOW - 2 * WHOLE_MS) for number in range(90)]
    world = World(*large, an_item("fails", NOW - WHOLE_MS, "b"))
    world.work.fails = {"fails": StoreUnavailable(), "many03": StoreUnavailable()}
    await world.pass_time(0)
    world.work.fails.clear()
    await world.pass_time(2_000)
    assert world.work.did.count("fails") == 2
    await world.pass_time(SEARCH_MS)
    assert world.items.since == [0, NOW - WHOLE_MS, NOW + 2_000 - SETTLE_MS]


@pytest.mark.usefixtures("little_memory")
async def test_a_search_that_takes_too_long_is_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(*(an_item(f"many{number:02}") for number in range(90)))
    world.work.may_go.clear()
    read, searches = world.items.read, [0]

    async def read_slowly(*given: Any) -> list[Due]:
        if not given[4]:
            return await read(*given)
        searches[0] += 1
        world.clock.time += 1_000
        raise StoreUnavailable

    monkeypatch.setattr(world.items, "read", read_slowly)
    with pytest.raises(StoreUnavailable):
        await world.timer.look()
    world.clock.time += COOL_DOWN_FACTOR * 1_000 - 1
    assert await world.timer.look(), "more is due"
    assert searches == [1]
    world.clock.time += 1
    with pytest.raises(StoreUnavailable):
        await world.timer.look()
    assert searches == [2]


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


@pytest.mark.parametrize("error", [StoreUnavailable(), ValueError("no")])
async def test_what_cannot_be_removed_is_tried_again_and_never_given_up(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world = World(an_item("one"), an_item("two"))

    async def refuse(dues: Sequence[Due]) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(world.items, "drop_done", refuse)
        for _ in range(FAILURES_MAX + 1):
            await world.pass_time(RETRY_MS_MAX)
    assert len(world.items.items) == 2
    world.work.fails = {"one": OSError("once")}
    await world.pass_time(RETRY_MS_MAX)
    world.work.fails.clear()
    assert world.work.gave_up == []
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
