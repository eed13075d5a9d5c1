# SPDX-License-Identifier: Apache-2.0
"""The state of a process in its log: loops, queues and tasks, in bounds and without content."""

import asyncio
from collections.abc import Mapping

import pytest

from tidings import tasks as tasks_module
from tidings.assembly import process
from tidings.assembly.process import log_state
from tidings.diagnosis import report_queue, running_loops
from tidings.tasks import Tasks


class Basket:
    """A queue with three things in it."""

    def depths(self) -> Mapping[str, int]:
        return {"waiting": 3}


def states(caplog: pytest.LogCaptureFixture, what: str) -> list[dict[str, object]]:
    return [vars(one) for one in caplog.records if vars(one).get("action") == f"state_{what}"]


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


async def test_a_loop_says_where_it_failed_and_not_what_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks_module, "BACK_OFF_SECONDS", 0.0)
    failed = asyncio.Event()

    async def step() -> None:
        if failed.is_set():
            await asyncio.Event().wait()
        failed.set()
        raise ValueError("dear diary")

    before, tasks = set(running_loops), Tasks("diaries")
    tasks.repeat(step)
    while not failed.is_set() or not caplog.records:
        await asyncio.sleep(0)
    caplog.clear()
    log_state()
    [loop] = [one for one in states(caplog, "loop") if one["group"] == "diaries"]
    assert str(loop["step"]).endswith("step")
    assert loop["failures"] == 1
    assert str(loop["last_error"]).startswith("ValueError at tests/unit/test_state_dump.py:")
    assert "dear diary" not in str([vars(one) for one in caplog.records])
    await tasks.close()
    assert running_loops == before


async def test_a_queue_is_listed_as_long_as_it_exists(caplog: pytest.LogCaptureFixture) -> None:
    basket = Basket()
    report_queue("basket", basket)
    log_state()
    [queue] = [one for one in states(caplog, "queue") if one["queue"] == "basket"]
    assert queue["waiting"] == 3
    del basket
    caplog.clear()
    log_state()
    assert not [one for one in states(caplog, "queue") if one["queue"] == "basket"]


async def test_tasks_that_wait_at_the_same_place_are_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "STACKS_MAX", 1)
    end = asyncio.Event()

    async def outer() -> None:
        await inner()

    async def inner() -> None:
        await end.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(outer())
        await asyncio.sleep(0)
        log_state()
        end.set()
    [task] = states(caplog, "task")
    assert task["count"] == 5
    stack = task["stack"]
    assert isinstance(stack, tuple)
    assert [frame.rsplit(".", 1)[1] for frame in stack] == ["outer", "inner", "wait"]
    [last] = states(caplog, "end")
    assert last["tasks"] == 6
