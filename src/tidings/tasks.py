# SPDX-License-Identifier: Apache-2.0
"""Background work: groups of tasks, bounded queues, and a time limit per turn of the event loop."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from time import perf_counter
from typing import Any, Final, TypeVar

from tidings.diagnosis import LoopState, report_queue, running_loops
from tidings.logs.requests import Requests, current_requests, for_requests

log = logging.getLogger("tidings.tasks")

BACK_OFF_SECONDS: Final = 1.0
"""Pause of a background loop after its first failure; it doubles with each further failure."""
BACK_OFF_SECONDS_MAX: Final = 60.0

Job = Callable[[], Awaitable[None]]
_Queue = asyncio.Queue[tuple[Requests, Job]]
SLICE_SECONDS: Final = 0.003


class Tasks:
    """A group of tasks, which end when their owner closes the group. Failures are logged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[asyncio.Task[None], None] = {}
        """Tasks that have not ended. Each connection has a group: an empty set would take 216 bytes
        of it, an empty dictionary takes 64."""
        self._is_closing = False
        self.failed_steps = 0
        """Number of steps of background loops that raised an error."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work in the background, in an empty context.

        Work for many callers must not run in the context of the request that happened to start it.
        """
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._running[task] = None
        task.add_done_callback(self._ended)
        if self._is_closing:
            task.cancel()

    def repeat(self, step: Callable[[], Awaitable[None]]) -> None:
        """Call `step` again and again until the group is closed, even after errors.

        A step itself waits until its next work is due. After a failed step, the loop logs the error
        and waits before the next call. It never ends because of an error, since nobody would notice
        that for weeks.
        """
        self.start(self._loop(step, LoopState(self._name, getattr(step, "__qualname__", "?"))))

    async def _loop(self, step: Callable[[], Awaitable[None]], state: LoopState) -> None:
        running_loops.add(state)
        try:
            await self._repeat(step, state)
        finally:
            running_loops.discard(state)

    async def _repeat(self, step: Callable[[], Awaitable[None]], state: LoopState) -> None:
        failures, now = 0, asyncio.get_running_loop().time
        while True:
            began = now()
            try:
                await step()
                failures = 0
            except Exception as error:
                self.failed_steps += 1
                state.failed(error)
                if now() - began > BACK_OFF_SECONDS_MAX:
                    failures = 0  # it worked for a while, so this is a new failure
                seconds = min(BACK_OFF_SECONDS * 2**failures, BACK_OFF_SECONDS_MAX)
                failures = min(failures + 1, 16)
                log.exception(
                    "background loop failed, and continues in %g s",
                    seconds,
                    extra={"action": "loop_failed", "group": self._name},
                )
                await asyncio.sleep(seconds)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()):
            log.error(
                "background task failed",
                exc_info=error,
                extra={"action": "task_failed", "group": self._name},
            )

    def cancel(self) -> None:
        """Cancel all running tasks without waiting for their end."""
        for task in list(self._running):
            task.cancel()

    async def finish(self) -> None:
        """Wait until no task is running."""
        while self._running:
            await asyncio.wait(list(self._running))

    async def close(self) -> None:
        """Cancel all running tasks and wait for their end.

        Tasks that are started meanwhile are cancelled, too. Otherwise a task that starts a
        successor when it ends would keep this waiting until no work is left.
        """
        self._is_closing = True
        try:
            self.cancel()
            await self.finish()
        finally:
            self._is_closing = False


T = TypeVar("T")


class TurnBudget:
    """Queue of calls, first in first out, which run for about 3 ms per turn of the event loop.

    The queue itself is not bounded: callers must limit what they queue. Between two slices of 3 ms,
    the event loop reads and writes sockets, and fires timers.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_scheduled = False
        self._until = 0.0
        """The time when the slice of this turn ends."""

    def do(self, act: Callable[[T], None], thing: T) -> None:
        """Call `act(thing)` now if nothing is queued and the slice has time left, else queue it."""
        if self._waiting or (self._is_scheduled and perf_counter() > self._until):
            self._waiting.append((act, thing))
            return
        if not self._is_scheduled:
            self._schedule()
            self._until = perf_counter() + SLICE_SECONDS
        act(thing)

    def do_each(self, act: Callable[[T], None], things: Sequence[T]) -> None:
        """Call `do` for each of the things, in order."""
        for thing in things:
            if self._is_scheduled and not self._waiting and perf_counter() <= self._until:
                act(thing)
            else:
                self.do(act, thing)

    def defer(self, act: Callable[[T], None], thing: T) -> None:
        """Queue `act(thing)` for the next turn of the event loop or later."""
        self._waiting.append((act, thing))
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        # The calls belong to different requests.
        asyncio.get_running_loop().call_soon(self._work, context=Context())

    def _work(self) -> None:
        waiting = self._waiting
        until = perf_counter() + SLICE_SECONDS
        try:
            while waiting:
                act, thing = waiting.popleft()
                act(thing)
                if perf_counter() > until:
                    break
        finally:
            # If a call fails, the other calls are still made.
            self._is_scheduled = False
            if waiting:
                self._schedule()


class BackgroundQueue:
    """Queue of functions that run in the background: concurrently, but in order for the same key.

    A fixed number of tasks runs them. Each task has its own queue, and a key always belongs to the
    same task. Python's randomly seeded string hash selects the task, so that an attacker cannot
    overload a chosen task.
    """

    def __init__(self, name: str, *, workers: int, waiting_max: int, close_seconds: float) -> None:
        self._name = name
        self._waiting_max = waiting_max
        self._close_seconds = close_seconds
        self._waiting = 0
        self._queues: list[_Queue] = [asyncio.Queue() for _ in range(workers)]
        self._started: set[int] = set()
        self._tasks = Tasks(name)
        self._is_closed = False
        report_queue(name, self)

    def depths(self) -> Mapping[str, int]:
        """Return the number of functions that wait or run."""
        return {"waiting": self._waiting}

    @property
    def is_full(self) -> bool:
        """Return True if the queue accepts no more functions: it is full or closed."""
        return self._is_closed or self._waiting >= self._waiting_max

    def put(self, key: str, job: Job) -> bool:
        """Queue the function `job`, which runs for the requests of the caller; return False if the
        queue is full or closed."""
        if self.is_full:
            return False
        self._waiting += 1
        worker = hash(key) % len(self._queues)
        self._queues[worker].put_nowait((current_requests(), job))
        if worker not in self._started:
            self._started.add(worker)
            self._tasks.start(self._work(self._queues[worker]))
        return True

    async def settled(self) -> None:
        """Wait until every queued function has run."""
        for queue in self._queues:
            await queue.join()

    async def close(self) -> None:
        """Accept no more functions, wait a bounded time for those in the queue, and drop the
        rest."""
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close_seconds):
                await self.settled()
        if self._waiting:
            log.warning(
                "background jobs were dropped at shutdown",
                extra={"action": "jobs_dropped", "group": self._name, "dropped": self._waiting},
            )
        await self._tasks.close()

    async def _work(self, queue: _Queue) -> None:
        while True:
            requests, job = await queue.get()
            with for_requests(requests):
                try:
                    await job()
                except Exception as error:
                    # An unexpected error in one job must not end the worker.
                    log.error(
                        "background job failed",
                        exc_info=error,
                        extra={"action": "task_failed", "group": self._name},
                    )
            self._waiting -= 1
            queue.task_done()


class Backlog:
    """Measures the age of unfinished work."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun: dict[object, float] = {}
        self._unseen: list[Callable[[], float]] = []
        self._left, self._left_until = math.inf, 0.0
        """Start of the oldest work that others will finish, and the time by which they have
        finished all of it."""

    def watch(self, age: Callable[[], float]) -> None:
        """Count also work that this process cannot see; `age()` returns how old it may be."""
        self._unseen.append(age)

    def begin(self, work: object, age: float = 0.0) -> None:
        """Record the start of work with this age; `end` is called with the same object."""
        self._begun[work] = self._loop.time() - max(0.0, age)

    def end(self, work: object) -> None:
        """Record that the work is finished."""
        self._begun.pop(work, None)

    def end_later(self, work: object, seconds: float) -> None:
        """Record that others will finish the work within this time; the object is not kept."""
        now = self._loop.time()
        begun = self._begun.pop(work, now)
        self._left = min(begun, self._left) if now < self._left_until else begun
        self._left_until = max(self._left_until, now + seconds)

    @property
    def seconds(self) -> float:
        """Age of the oldest unfinished work; 0 if there is none."""
        now = self._loop.time()
        left = self._left if now < self._left_until else math.inf
        begun = min(self._begun.values(), default=left)
        return max(0.0, now - begun, now - left, *(age() for age in self._unseen))
