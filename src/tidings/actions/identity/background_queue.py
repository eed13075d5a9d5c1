# SPDX-License-Identifier: Apache-2.0
"""Bounded queue for background jobs, with a few workers and order within each key."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tidings.tasks import Tasks

log = logging.getLogger("tidings.tasks")

Job = Callable[[], Awaitable[None]]


class BackgroundQueue:
    """Background job queue: jobs run concurrently, but jobs with the same key run in order.

    Each worker has its own queue, and a key always goes to the same worker. Python's randomly
    seeded string hash selects the worker, so an attacker cannot aim at one.
    """

    def __init__(self, name: str, *, workers: int, waiting_max: int, close_seconds: float) -> None:
        self._name = name
        self._waiting_max = waiting_max
        self._close_seconds = close_seconds
        self._waiting = 0
        self._queues: list[asyncio.Queue[Job]] = [asyncio.Queue() for _ in range(workers)]
        self._started: set[int] = set()
        self._tasks = Tasks(name)
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Return whether further jobs are refused."""
        return self._is_closed or self._waiting >= self._waiting_max

    def put(self, key: str, job: Job) -> bool:
        """Queue a job; return False if too many are waiting or running already."""
        if self.is_full:
            return False
        self._waiting += 1
        worker = hash(key) % len(self._queues)
        self._queues[worker].put_nowait(job)
        if worker not in self._started:
            self._started.add(worker)
            self._tasks.start(self._work(self._queues[worker]))
        return True

    async def settled(self) -> None:
        """Wait until every queued job is done."""
        for queue in self._queues:
            await queue.join()

    async def close(self) -> None:
        """Refuse new jobs, wait a bounded time for the queued jobs, and drop the rest."""
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

    async def _work(self, queue: asyncio.Queue[Job]) -> None:
        while True:
            job = await queue.get()
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
