# SPDX-License-Identifier: Apache-2.0
"""Tasks with an owner: what ends does not begin anew when the owner closes."""

import asyncio
import gc
import weakref

import pytest

from tidings import tasks as module
from tidings.tasks import Backlog, Tasks


async def test_a_task_that_hands_on_to_the_next_ends_with_its_owner() -> None:
    tasks, begun = Tasks("relay race"), 0

    async def run() -> None:
        nonlocal begun
        begun += 1
        try:
            if begun == 1:
                await asyncio.Event().wait()
        finally:
            if begun < 100:
                tasks.start(run())

    tasks.start(run())
    await asyncio.sleep(0)
    await tasks.close()
    assert begun == 1


async def test_what_was_closed_may_begin_again() -> None:
    tasks, ended = Tasks("again"), asyncio.Event()

    async def run() -> None:
        ended.set()

    await tasks.close()
    tasks.start(run())
    await tasks.finish()
    assert ended.is_set()


async def test_a_loop_outlives_whatever_its_step_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "BACK_OFF_SECONDS", 0.0)
    tasks, steps, done = Tasks("loop"), 0, asyncio.Event()

    async def step() -> None:
        nonlocal steps
        steps += 1
        if steps <= 3:
            raise ValueError("a surprise")
        done.set()
        await asyncio.Event().wait()

    tasks.repeat(step)
    await done.wait()
    await tasks.close()
    assert (steps, tasks.failed_steps) == (4, 3)
    assert [line.action for line in caplog.records] == ["loop_failed"] * 3  # type: ignore[attr-defined]


class Work:
    """Something that is not finished."""


async def test_a_backlog_does_not_keep_what_others_finish() -> None:
    backlog, works = Backlog(), [Work() for _ in range(9)]
    for age, work in enumerate(works):
        backlog.begin(work, age)
    is_kept = [weakref.ref(work) for work in works]
    for work in works:
        backlog.end_later(work, 60.0)
    del work, works
    gc.collect()
    assert [kept for kept in is_kept if kept() is not None] == []
    assert 8 <= backlog.seconds < 60, "the oldest counts"
    backlog.begin("own", 70.0)
    assert backlog.seconds >= 70
    backlog.end("own")
    assert backlog.seconds < 60
    backlog = Backlog()
    backlog.begin("work", 9.0)
    backlog.end_later("work", 0.0)
    assert backlog.seconds == 0, "others have finished it"
