# SPDX-License-Identifier: Apache-2.0
"""Background tasks with an owner: counted, bounded by what starts them, and ended with it."""

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

log = logging.getLogger("tidings.tasks")


class Tasks:
    """A group of tasks that live as long as their owner. A failure is logged, never swallowed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: set[asyncio.Task[None]] = set()
        self._is_closing = False

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
