# SPDX-License-Identifier: Apache-2.0
"""Background tasks with an owner: counted, bounded by what starts them, and ended with it."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from time import perf_counter
from typing import Any, Final, TypeVar

log = logging.getLogger("tidings.tasks")

BACK_OFF_SECONDS: Final = 1.0
"""How long a loop waits after its first failure; twice as long after each further one."""
BACK_OFF_SECONDS_MAX: Final = 60.0


class Tasks:
    """A group of tasks that live as long as their owner. A failure is logged, never swallowed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self.failed_steps = 0
        """Steps of loops that raised an error."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work in the background.

        In a context of its own: what goes on for long, for everybody, must not look as if it were
        done for whoever happened to start it.
        """
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._running.add(task)
        task.add_done_callback(self._ended)
        if self._is_closing:
            task.cancel()

    def repeat(self, step: Callable[[], Awaitable[None]]) -> None:
        """Call `step` again and again until the owner closes, whatever it raises.

        A step waits for its next occasion itself. After a failed step the loop logs the error and
        backs off, because a loop that ended in silence would be missed only weeks later.
        """
        self.start(self._loop(step))

    async def _loop(self, step: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await step()
                failures = 0
            except Exception:
                self.failed_steps += 1
                seconds = min(BACK_OFF_SECONDS * 2**failures, BACK_OFF_SECONDS_MAX)
                failures = min(failures + 1, 16)
                log.exception(
                    "background loop failed, and continues in %g s",
                    seconds,
                    extra={"action": "loop_failed", "group": self._name},
                )
                await asyncio.sleep(seconds)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error(
                "background task failed",
                exc_info=error,
                extra={"action": "task_failed", "group": self._name},
            )

    def cancel(self) -> None:
        """Cancel what still runs, without waiting for its end."""
        for task in list(self._running):
            task.cancel()

    async def finish(self) -> None:
        """Wait until nothing runs any more."""
        while self._running:
            await asyncio.wait(list(self._running))

    async def close(self) -> None:
        """Cancel what still runs and wait for its end.

        What is started meanwhile does not begin: a task that hands on to the next one when it ends
        would go on until nothing is left to do.
        """
        self._is_closing = True
        try:
            self.cancel()
            await self.finish()
        finally:
            self._is_closing = False


T = TypeVar("T")

SLICE_SECONDS: Final = 0.003


class TurnBudget:
    """A line of things to do, first come, first served; as long as those who stand in it let it.

    Between two slices the loop turns once: sockets are read and written, timers fire.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_scheduled = False
        self._until = 0.0
        """When what is done in this turn has to make way for the next."""

    def do(self, act: Callable[[T], None], thing: T) -> None:
        """Do this now if nobody waits and the turn has time left, else when its turn comes."""
        if self._waiting or (self._is_scheduled and perf_counter() > self._until):
            self._waiting.append((act, thing))
            return
        if not self._is_scheduled:
            self._schedule()
            self._until = perf_counter() + SLICE_SECONDS
        act(thing)

    def defer(self, act: Callable[[T], None], thing: T) -> None:
        """Do this at the end of the turn, or later; never now."""
        self._waiting.append((act, thing))
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._work)

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
            # Whatever became of one of them: the others still have their turn.
            self._is_scheduled = False
            if waiting:
                self._schedule()
