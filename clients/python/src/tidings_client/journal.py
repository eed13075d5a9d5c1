# SPDX-License-Identifier: Apache-2.0
"""Brings changes to the storage in batches: one write for all that came up since the last."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from tidings_client.errors import StorageTrouble
from tidings_client.saved import Changes, Outgoing, Saved
from tidings_client.storage import Storage

T = TypeVar("T")

POSITIONS_SECONDS: Final = 0.1
"""How long positions and marks may wait for others to be written with them; a message for the
outbox does not wait."""


class Journal:
    """Collects changes; `run` writes them, in a thread of its own."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidings-storage")
        self.changes = Changes()
        """What the next write keeps. Whoever adds to it calls `wake`."""
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        """Those who wait for the next write."""

    async def open(self) -> Saved:
        """Load what was saved. Raises as `Storage.load` does."""
        try:
            return await self._in_thread(self._storage.load)
        except StorageTrouble:
            self._thread.shutdown(wait=False)
            raise

    async def run(self) -> None:
        """Write for ever. Raises StorageTrouble as soon as something cannot be kept."""
        while True:
            await self._changed.wait()
            await self._pause()
            self._changed.clear()
            self._urgent.clear()
            await self._write()

    async def close(self) -> None:
        """Write the rest and let go of the storage."""
        try:
            if self.changes:
                await self._write()
        finally:
            await self._in_thread(self._storage.close)
            self._thread.shutdown(wait=False)

    def wake(self) -> None:
        """There is something to write, some time soon."""
        self._changed.set()

    def post(self, message: Outgoing) -> "asyncio.Future[None]":
        """Write a message at once; the future is done when it is kept."""
        self.changes.posted[message.key] = message
        return self._soon()

    def flush(self) -> "asyncio.Future[None]":
        """Write at once; the future is done when all changes so far are kept."""
        return self._soon()

    def _soon(self) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._changed.set()
        self._urgent.set()
        return done

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POSITIONS_SECONDS):
                await self._urgent.wait()

    async def _write(self) -> None:
        changes, self.changes = self.changes, Changes()
        waiting, self._waiting = self._waiting, []
        trouble: StorageTrouble | None = None
        try:
            if changes:
                await self._in_thread(partial(self._storage.save, changes))
        except StorageTrouble as error:
            trouble = error
            raise
        finally:
            for done in waiting:
                _settle(done, trouble)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run what blocks. Once begun it is not taken back: a cancellation waits for its end."""
        done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            done.result()
            raise


def _settle(done: "asyncio.Future[None]", trouble: StorageTrouble | None) -> None:
    if done.done():
        return
    if trouble is None:
        done.set_result(None)
    else:
        done.set_exception(trouble)
