# SPDX-License-Identifier: Apache-2.0
"""Helpers of a running load: bounded concurrency, the limit of open files, interruptible waits."""

import asyncio
import resource
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any, Final, TypeVar

from tidings.tools.load.rest import LoadStopped

T = TypeVar("T")


async def side_by_side(works: Iterable[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """Run at most `at_once` works concurrently and return their results in order.

    If one fails, its error is raised without an exception group.
    """
    turn = asyncio.Semaphore(at_once)

    async def in_turn(work: Coroutine[Any, Any, T]) -> T:
        async with turn:
            return await work

    waiting = list(works)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_turn(work)) for work in waiting]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        for work in waiting:
            work.close()  # no warning about works that were never started
    return [task.result() for task in tasks]


SPARE: Final = 200
"""Open files that are not connections."""


def allow_connections(count: int) -> None:
    """Raise the limit of open files of this process and its children to this many connections.

    Raises:
        LoadStopped: The system does not allow it.
    """
    needed = count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else max(hard, needed)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
    except (ValueError, PermissionError):
        raise LoadStopped(
            f"{needed} open files are needed and {hard} are allowed: raise `ulimit -n`"
        ) from None


TICK_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.02


class Watch:
    """Waits for time to pass or a condition, and aborts when trouble is reported."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._has_stopped = asyncio.Event()

    def stopped(self, reason: str) -> None:
        """Abort every wait with this reason; only the first reason is kept."""
        if self._reason is None:
            self._reason = reason
            self._has_stopped.set()

    async def wait(self, seconds: float, tick: Callable[[], None] | None = None) -> None:
        """Wait for this many seconds; `tick` is called about twice per second.

        Raises:
            LoadStopped: Trouble was reported.
        """
        end = perf_counter() + seconds
        while (left := end - perf_counter()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_stopped.wait(), min(left, TICK_SECONDS))
            if self._reason is not None:
                raise LoadStopped(self._reason)
            if tick is not None:
                tick()

    async def until(self, condition: Callable[[], bool], seconds_max: float) -> bool:
        """Wait until the condition holds; return False if it does not within `seconds_max`.

        Raises:
            LoadStopped: Trouble was reported.
        """
        end = perf_counter() + seconds_max
        while not condition():
            if perf_counter() > end:
                return False
            await self.wait(LOOK_SECONDS)
        return True
