# SPDX-License-Identifier: Apache-2.0
"""Connections to the database file: opening, and readers in threads.

Users' requests take turns on a few connections. Reads of credentials and of revocations have their
own connections and threads, so that load from users does not delay them.
"""

import asyncio
import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, thread_time
from typing import Any, Final, TypeVar

import apsw

from tidings.metrics import declared
from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.store import CallClass, Requester, current_requester
from tidings.stores.scheduler import Scheduler, Turn, wait_for_turn
from tidings.stores.sqlite.engine.gathered_reads import GatheredReads

DISK_TROUBLE: Final = (
    apsw.IOError,
    apsw.FullError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.BusyError,
    apsw.ProtocolError,
)
"""Errors caused by the disk or the machine, not by the statement that raised them."""

DATABASE = "tidings.db"
RESTORING: Final = "tidings.db.restoring"
"""Name of the database while a backup is being restored into it."""
SMALL_CACHE_KIB: Final = 1_024
"""Page cache of a reader. It is small, because the file is memory-mapped: only pages from the
write-ahead log are copied into the cache."""
WRITER_CACHE_KIB: Final = 8 * 1_024
"""Page cache of the writer, enough for a few thousand messages. A larger cache would not help,
because a long write fills any cache."""

T = TypeVar("T")

READERS: Final = 4
USER_READS_AT_ONCE: Final = 2
USER_READS_WAITING_MAX: Final = limits.USER_CHATS_MAX
"""Maximum number of waiting reads per user. A user can send to all chats at once, even if none of
them is cached and each send has to read its chat."""
READS_WAITING_MAX: Final = 5_000
TURN_SECONDS: Final = 0.001
"""CPU time that one turn allows. A requester whose read takes n times as long skips n - 1 turns."""

_CONNECTIONS: Final[dict[CallClass, int]] = {"users": READERS, "credentials": 1, "revocations": 1}
BUSY_MS: Final = 5_000


class StoreBroken(Exception):
    """The disk failed while the store was running.

    The store stops, because its answers could be wrong.
    """


def connect(path: Path, *, cache_kib: int = SMALL_CACHE_KIB) -> apsw.Connection:
    """Open the database file, or create it if there is none. Only its owner may read the file.

    Raises:
        SetupError: The file cannot be opened, or is not a database, or a restore into its folder
            is not finished.
    """
    if path.name == DATABASE and path.with_name(RESTORING).exists():
        raise SetupError(
            f"a restore into {path.parent} is not finished: run `tidings restore` again, or delete "
            f"{path.with_name(RESTORING)}"
        )
    try:
        db = apsw.Connection(str(path))
        path.chmod(0o600)
        db.set_busy_timeout(BUSY_MS)
        settings = db.execute(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;"
            "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;"
            f"PRAGMA cache_size = -{cache_kib}; PRAGMA mmap_size = 268435456"
        )
        settings.fetchall()  # a statement runs only after the rows before it were fetched
    except DISK_TROUBLE as error:
        raise SetupError(f"{path} cannot be opened: {error}") from error
    return db


@contextmanager
def open_to_read(folder: Path, *, leaves_files: bool = True) -> Iterator[apsw.Connection]:
    """Open the store in a folder for one read transaction, whether or not a server uses it.

    SQLite leaves two empty files behind if no server uses the store. Without `leaves_files` there
    are none, but then no server may start during the transaction.

    Raises:
        SetupError: There is no store in the folder, or it cannot be read.
    """
    path = folder / DATABASE
    if not path.exists():
        raise SetupError(f"there is no store in {folder}")
    is_closed = not path.with_name(f"{DATABASE}-wal").exists()
    how = "?immutable=1" if is_closed and not leaves_files else ""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        with closing(apsw.Connection(path.absolute().as_uri() + how, flags=flags)) as db:
            db.set_busy_timeout(BUSY_MS)
            db.execute("PRAGMA mmap_size = 268435456; BEGIN").fetchall()
            yield db
    except DISK_TROUBLE as error:
        raise SetupError(f"{path} cannot be read: {error}") from error


@contextmanager
def timed(act: Callable[..., object]) -> Iterator[None]:
    """Measure an operation of the store, under the name of the function that asked for it.

    A function inside of `SqliteChats.get` is measured as `Chats.get`.
    """
    began = monotonic()
    try:
        yield
    finally:
        function = act.func if isinstance(act, partial) else act
        name = getattr(function, "__qualname__", "other").partition(".<locals>")[0]
        declared.store_seconds.of[name.removeprefix("Sqlite")].observe(monotonic() - began)


class Readers:
    """Pools of connections that only read, each used by one read at a time."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._pools = {
            call_class: _Pool(connect, call_class, count)
            for call_class, count in _CONNECTIONS.items()
        }
        users = self._pools["users"]
        self._gathered = GatheredReads(users.scheduler, users.run)

    async def read(self, act: Callable[[apsw.Connection], T]) -> T:
        """Run a function that queries one snapshot, and return its result.

        The snapshot includes every write that was committed before the call.

        Raises:
            RateLimited: This requester has too many waiting reads.
            StoreUnavailable: All requesters together have too many waiting reads, the disk failed,
                or the store is closed.
        """
        requester = current_requester()
        pool = self._pools[requester.call_class]
        with timed(act):
            if not requester.user and requester.call_class == "users":
                return await self._gather(requester, act)
            turn = await wait_for_turn(pool.scheduler, requester)
            result: T = await pool.run(act, turn)
        return result

    async def _gather(self, requester: Requester, act: Callable[[apsw.Connection], T]) -> T:
        try:
            result: T = await self._gathered.read(requester, act)
        except DISK_TROUBLE as error:
            raise _unreadable() from error
        return result

    def close(self) -> None:
        """Finish the reads that run, then close."""
        for pool in self._pools.values():
            pool.close()


class _Read:
    """A read that runs in a thread, with its turn in the scheduler.

    It runs to its end even if the caller has stopped waiting.
    """

    def __init__(
        self, act: Callable[[apsw.Connection], Any], turn: Turn, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.turn = turn
        self.future: asyncio.Future[Any] = loop.create_future()
        self.turns_used = 1.0
        self._act = act

    def run(self, db: apsw.Connection) -> Any:  # noqa: ANN401 - the result of the function
        """Run the queries. This is called in a thread."""
        began = thread_time()
        try:
            return _on_snapshot(db, self._act)
        except DISK_TROUBLE as error:
            raise _unreadable() from error
        finally:
            self.turns_used = (thread_time() - began) / TURN_SECONDS

    def settle(self, work: "Future[Any]") -> None:
        """Pass the result on to the caller. This is called on the event loop."""
        if self.future.done():
            return
        if error := work.exception():
            self.future.set_exception(error)
        else:
            self.future.set_result(work.result())


class _Pool:
    """A number of threads, each with a connection while it reads, and as many slots in a scheduler.

    A connection is opened when a read needs it, because each reads the whole schema first.
    """

    def __init__(
        self, connect: Callable[[], apsw.Connection], call_class: CallClass, size: int
    ) -> None:
        self._connect = connect
        self.scheduler = Scheduler(
            f"reads of {call_class}",
            slots=size,
            user_slots=min(size, USER_READS_AT_ONCE),
            user_waiting_max=USER_READS_WAITING_MAX,
            waiting_max=READS_WAITING_MAX,
        )
        self._idle: queue.SimpleQueue[apsw.Connection] = queue.SimpleQueue()
        self._all: list[apsw.Connection] = []
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=f"read-{call_class}")
        self._is_closed = False

    def run(self, act: Callable[[apsw.Connection], Any], turn: Turn) -> asyncio.Future[Any]:
        """Run a read in a thread; return the future of its result.

        The read keeps its turn until it ends, even if the caller has stopped waiting.
        """
        loop = asyncio.get_running_loop()
        read = _Read(act, turn, loop)
        if self._is_closed:
            # Later, because this may have been called for the turn that another one left.
            loop.call_soon(self.scheduler.leave, turn, 0.0)
            read.future.set_exception(StoreUnavailable("the store is closed"))
            return read.future

        def done(work: "Future[Any]") -> None:
            with suppress(RuntimeError):  # the loop is closed, so no caller waits
                loop.call_soon_threadsafe(self._finish, read, work)

        self._threads.submit(self._run, read).add_done_callback(done)
        return read.future

    def _run(self, read: _Read) -> Any:  # noqa: ANN401 - the result of the function
        db = self._unused()
        try:
            return read.run(db)
        finally:
            self._idle.put(db)

    def _unused(self) -> apsw.Connection:
        with suppress(queue.Empty):
            return self._idle.get_nowait()
        try:
            db = self._connect()
        except (SetupError, *DISK_TROUBLE) as error:
            raise _unreadable() from error
        self._all.append(db)
        return db

    def _finish(self, read: _Read, work: "Future[Any]") -> None:
        self.scheduler.leave(read.turn, read.turns_used)
        read.settle(work)

    def close(self) -> None:
        """Finish the reads that run, then close."""
        self._is_closed = True
        self._threads.shutdown()
        for db in self._all:
            db.close()


def _unreadable() -> StoreUnavailable:
    return StoreUnavailable("the store cannot be read")


def _on_snapshot(db: apsw.Connection, act: Callable[[apsw.Connection], T]) -> T:
    db.execute("BEGIN")
    try:
        return act(db)
    finally:
        if db.in_transaction:
            db.execute("COMMIT")
