# SPDX-License-Identifier: Apache-2.0
"""Work in slices: now while there is time, in order always, and never for long at a stretch."""

import asyncio

import pytest

from tidings import tasks
from tidings.tasks import TurnBudget


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by the work itself."""
    now = [100.0]
    monkeypatch.setattr(tasks, "perf_counter", lambda: now[0])
    return now


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_the_turn_has_time_for_is_done_at_once() -> None:
    line, done = TurnBudget(), list[int]()
    for number in range(3):
        line.do(done.append, number)
    assert done == [0, 1, 2]


async def test_what_comes_after_a_long_one_waits_its_turn(clock: list[float]) -> None:
    line, done = TurnBudget(), list[int]()

    def work(number: int) -> None:
        done.append(number)
        clock[0] += tasks.SLICE_SECONDS * 0.6

    for number in range(6):
        line.do(work, number)
    assert done == [0, 1]
    await turns(1)
    assert done == [0, 1, 2, 3]
    await turns(1)
    assert done == [0, 1, 2, 3, 4, 5]


async def test_nobody_overtakes_those_who_wait(clock: list[float]) -> None:
    line, done = TurnBudget(), list[int]()
    line.do(lambda _: clock.__setitem__(0, clock[0] + 1), 0)
    line.do(done.append, 1)
    clock[0] = 100.0  # as if there were time again
    line.do(done.append, 2)
    assert done == []
    await turns(1)
    assert done == [1, 2]


async def test_deferred_is_never_now() -> None:
    line, done = TurnBudget(), list[int]()
    line.defer(done.append, 1)
    assert done == []
    await turns(1)
    assert done == [1]


async def test_a_failure_leaves_the_others_their_turn() -> None:
    line, done = TurnBudget(), list[int]()
    failures = list[object]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context["exception"])
    )
    line.defer(lambda _: 1 / 0, None)  # type: ignore[arg-type]
    line.defer(done.append, 1)
    await turns(2)
    assert done == [1]
    assert [type(failure) for failure in failures] == [ZeroDivisionError]
