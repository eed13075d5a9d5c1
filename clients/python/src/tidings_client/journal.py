# SPDX-License-Identifier: Apache-2.0
"""Save changes in batches: one write to the storage for all changes since the last write."""

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
"""How long positions and marks wait for other changes, to be written together. A message for the
outbox does not wait."""


class Journal:
    """Collects changes, which `run` writes to the storage in a separate thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidings-storage")
        self.changes = Changes()
        """The changes for the next write; call `wake` after adding to them."""
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        """Futures that are done after the next write."""

    async def open(self) -> Saved:
        """Return the saved state. Raises the same errors as `Storage.load`."""
        try:
            return await self._in_thread(self._storage.load)
        except StorageTrouble:
            self._thread.shutdown(wait=False)
            raise

    async def run(self) -> None:
        """Write all changes until this is cancelled.

        Raises:
            StorageTrouble: The storage cannot be written.
        """
        while True:
            await self._changed.wait()
            await self._pause()
            self._changed.clear()
            self._urgent.clear()
            await self._write()

    async def close(self) -> None:
        """Write the last changes and close the storage."""
        try:
            if self.changes:
                await self._write()
        finally:
            await self._in_thread(self._storage.close)
            self._thread.shutdown(wait=False)

    def wake(self) -> None:
        """Schedule a write, because `changes` has something new."""
        self._changed.set()

    def post(self, message: Outgoing) -> "asyncio.Future[None]":
        """Write a message at once; the future is done when the message is saved."""
        self.changes.posted[message.key] = message
        return self._soon()

    def flush(self) -> "asyncio.Future[None]":
        """Write at once; the future is done when all changes so far are saved."""
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
        """Run blocking work in the thread; a cancellation waits until the work has ended."""
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
