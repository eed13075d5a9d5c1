# SPDX-License-Identifier: Apache-2.0
"""Work in the background that ends with its owner."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("tidings.registry")


class Background:
    """The tasks of one part. A failure is logged, never swallowed."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("background work failed", exc_info=error, extra={"action": "task_failed"})

    async def finish(self) -> None:
        """Wait until nothing runs any more."""
        while self._running:
            await asyncio.wait(list(self._running))

    async def close(self) -> None:
        """Cancel what runs and wait for its end."""
        for task in list(self._running):
            task.cancel()
        await self.finish()
