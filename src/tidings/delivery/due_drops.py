# SPDX-License-Identifier: Apache-2.0
"""Removes due items whose work is done, many with one write."""

import asyncio
from collections import deque
from typing import Final

from tidings.ports.due import DROPPED_MAX, Due, DueItems
from tidings.tasks import Tasks

WRITES_AT_ONCE: Final = 4


class DueDrops:
    """Gathers items while earlier ones are being removed, so that many are removed together when
    many are done."""

    def __init__(self, items: DueItems, tasks: Tasks) -> None:
        self._items = items
        self._tasks = tasks
        self._waiting: deque[tuple[Due, asyncio.Future[None]]] = deque()
        self._writes = 0

    async def __call__(self, due: Due) -> None:
        """Remove an item that nobody stores again, and return when it is removed.

        Raises:
            Unavailable: The item may still be there.
        """
        removed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((due, removed))
        if self._writes < WRITES_AT_ONCE:
            self._writes += 1
            self._tasks.start(self._write_all())
        await removed

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                count = min(DROPPED_MAX, len(self._waiting))
                await self._write([self._waiting.popleft() for _ in range(count)])
        finally:
            self._writes -= 1

    async def _write(self, some: list[tuple[Due, asyncio.Future[None]]]) -> None:
        try:
            await self._items.drop_done([due for due, _ in some])
        except Exception as error:
            for _, removed in some:
                if not removed.done():
                    removed.set_exception(error)
        else:
            for _, removed in some:
                if not removed.done():
                    removed.set_result(None)
