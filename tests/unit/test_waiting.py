# SPDX-License-Identifier: Apache-2.0
"""Waiting in tests: ends with the condition, and an error says what was seen."""

import asyncio
import itertools
from collections.abc import Iterator

import anyio
import pytest

from tests.support.waiting import NotInTime, after_timers, retried, until

SOON = 0.02


async def test_it_gives_what_the_condition_gave() -> None:
    answers = iter(["", "", "there"])
    assert await until(lambda: next(answers)) == "there"


async def test_a_condition_may_be_asynchronous_and_may_have_to_equal_something() -> None:
    numbers = iter(range(10))

    async def number() -> int:
        await asyncio.sleep(0)
        return next(numbers)

    assert await until(number, equals=4) == 4
    assert next(numbers) == 5


async def test_an_event_says_when_to_look_again() -> None:
    changed, looks = asyncio.Event(), itertools.count()
    async with asyncio.TaskGroup() as group:
        group.create_task(until(lambda: next(looks) == 1, changed=lambda: changed))
        await asyncio.sleep(0)
        changed.set()
    assert next(looks) == 2


async def test_an_error_says_what_was_awaited_and_seen() -> None:
    heard = ["hello"]
    with pytest.raises(NotInTime) as caught:
        await until(lambda: len(heard), equals=2, describe=lambda: "a quiet room", seconds=SOON)
    told = str(caught.value)
    assert "lambda: len(heard)" in told
    assert "to be: 2\nseen last: 1\nthere was: 'a quiet room'" in told
    assert "heard = ['hello']" in told


async def test_a_look_that_does_not_end_is_told_of() -> None:
    with pytest.raises(NotInTime, match="the first look did not end"):
        await until(lambda: asyncio.Event().wait(), seconds=SOON)


async def test_a_look_that_is_ended_closes_what_it_has_opened() -> None:
    closed: list[str] = []

    async def look() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):  # as HTTP clients do it
                for connection in ("first", "second"):
                    await asyncio.sleep(0)
                    closed.append(connection)

    with pytest.raises(NotInTime):
        await until(look, seconds=-SOON)
    assert closed == ["first", "second"]


async def test_a_timeout_of_the_condition_is_its_own() -> None:
    async def fails() -> bool:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        await until(fails)


async def test_work_is_tried_again_after_these_errors_only() -> None:
    def outcomes() -> Iterator[Exception | None]:
        yield from (OSError(), OSError(), None, ValueError())

    left = outcomes()

    async def work() -> None:
        if (error := next(left)) is not None:
            raise error

    await retried(work, OSError)
    with pytest.raises(ValueError):
        await retried(work, OSError)


async def test_timers_that_were_set_before_have_run() -> None:
    ran: list[str] = []
    asyncio.get_running_loop().call_later(SOON, ran.append, "before")
    await after_timers(SOON)
    assert ran == ["before"]
