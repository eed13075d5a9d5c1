# SPDX-License-Identifier: Apache-2.0
"""Reads: each on a connection of its own, from one snapshot, never on the event loop."""

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import apsw

from tidings.model.refusals import StoreUnavailable
from tidings.stores.sqlite.trouble import DISK_TROUBLE

T = TypeVar("T")

READERS: Final = 4
WAITING_READS_MAX: Final = 5_000


class Readers:
    """A few connections that only read, each used by one read at a time."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._idle: queue.SimpleQueue[apsw.Connection] = queue.SimpleQueue()
        self._all = [connect() for _ in range(READERS)]
        for db in self._all:
            self._idle.put(db)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="read")
        self._waiting = 0

    async def read(self, act: Callable[[apsw.Connection], T]) -> T:
        """Run a function of queries on one snapshot, at least as new as the call.

        Raises:
            StoreUnavailable: Too many reads are waiting, or the disk failed.
        """
        if self._waiting >= WAITING_READS_MAX:
            raise StoreUnavailable("too many reads are waiting")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._on_snapshot, act
            )
        finally:
            self._waiting -= 1

    def _on_snapshot(self, act: Callable[[apsw.Connection], T]) -> T:
        db = self._idle.get()
        try:
            db.execute("BEGIN")
            try:
                return act(db)
            finally:
                if db.in_transaction:
                    db.execute("COMMIT")
        except DISK_TROUBLE as error:
            raise StoreUnavailable("the store cannot be read") from error
        finally:
            self._idle.put(db)

    def close(self) -> None:
        """Finish the reads that run, then close."""
        self._threads.shutdown()
        for db in self._all:
            db.close()
