# SPDX-License-Identifier: Apache-2.0
"""Connections that read, each for one snapshot at a time, in threads and never on the event loop.

Users take turns at a few connections. Credentials and revocations have connections and threads of
their own, so that load from users does not delay them.
"""

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from time import thread_time
from typing import Any, Final, TypeVar

import apsw

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.requesters import Lane, current_requester
from tidings.stores.scheduler import Scheduler, Turn, wait_for_turn
from tidings.stores.sqlite.errors import DISK_TROUBLE

T = TypeVar("T")

READERS: Final = 4
USER_READS_AT_ONCE: Final = 2
USER_READS_WAITING_MAX: Final = limits.USER_CHATS_MAX
"""Enough for a user who sends to each of their chats while none of them is cached."""
READS_WAITING_MAX: Final = 5_000
TURN_SECONDS: Final = 0.001
"""Thread time of one turn: a requester whose read takes longer skips as many turns."""

_CONNECTIONS: Final[dict[Lane, int]] = {"users": READERS, "credentials": 1, "revocations": 1}


class Readers:
    """Pools of connections that only read, each used by one read at a time."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._pools = {lane: _Pool(connect, lane, count) for lane, count in _CONNECTIONS.items()}

    async def read(self, act: Callable[[apsw.Connection], T]) -> T:
        """Run a function of queries on one snapshot, at least as new as the call.

        Raises:
            RateLimited: Too many reads of this requester are waiting.
            StoreUnavailable: Too many reads are waiting in all, or the disk failed.
        """
        requester = current_requester()
        pool = self._pools[requester.lane]
        turn = await wait_for_turn(pool.scheduler, requester)
        read = _Read(act, turn, asyncio.get_running_loop())
        pool.start(read)
        result: T = await read.future
        return result

    def close(self) -> None:
        """Finish the reads that run, then close."""
        for pool in self._pools.values():
            pool.close()


class _Read:
    """A function of queries with its turn; its caller may have stopped waiting."""

    def __init__(
        self, act: Callable[[apsw.Connection], Any], turn: Turn, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.turn = turn
        self.future: asyncio.Future[Any] = loop.create_future()
        self.turns_used = 1.0
        self._act = act

    def run(self, db: apsw.Connection) -> Any:  # noqa: ANN401 - the result of the function
        """Run the queries; called in a thread."""
        began = thread_time()
        try:
            return _on_snapshot(db, self._act)
        except DISK_TROUBLE as error:
            raise StoreUnavailable("the store cannot be read") from error
        finally:
            self.turns_used = (thread_time() - began) / TURN_SECONDS

    def settle(self, work: "Future[Any]") -> None:
        """Pass the result on to the caller; called on the loop."""
        if self.future.done():
            return
        if error := work.exception():
            self.future.set_exception(error)
        else:
            self.future.set_result(work.result())


class _Pool:
    """Connections, as many threads, and a scheduler with as many slots."""

    def __init__(self, connect: Callable[[], apsw.Connection], lane: Lane, size: int) -> None:
        self.scheduler = Scheduler(
            slots=size,
            user_slots=min(size, USER_READS_AT_ONCE),
            user_waiting_max=USER_READS_WAITING_MAX,
            waiting_max=READS_WAITING_MAX,
        )
        self._idle: queue.SimpleQueue[apsw.Connection] = queue.SimpleQueue()
        self._all = [connect() for _ in range(size)]
        for db in self._all:
            self._idle.put(db)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=f"read-{lane}")

    def start(self, read: _Read) -> None:
        """Run a read in a thread. It keeps its turn until it ends, even if the caller left."""
        loop = read.future.get_loop()

        def done(work: "Future[Any]") -> None:
            with suppress(RuntimeError):  # the loop is closed, so no caller waits
                loop.call_soon_threadsafe(self._finish, read, work)

        self._threads.submit(self._run, read).add_done_callback(done)

    def _run(self, read: _Read) -> Any:  # noqa: ANN401 - the result of the function
        db = self._idle.get()
        try:
            return read.run(db)
        finally:
            self._idle.put(db)

    def _finish(self, read: _Read, work: "Future[Any]") -> None:
        self.scheduler.leave(read.turn, read.turns_used)
        read.settle(work)

    def close(self) -> None:
        """Finish the reads that run, then close."""
        self._threads.shutdown()
        for db in self._all:
            db.close()


def _on_snapshot(db: apsw.Connection, act: Callable[[apsw.Connection], T]) -> T:
    db.execute("BEGIN")
    try:
        return act(db)
    finally:
        if db.in_transaction:
            db.execute("COMMIT")
