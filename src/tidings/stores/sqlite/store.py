# SPDX-License-Identifier: Apache-2.0
"""Opening the embedded store: the folder, the lock, the connections, the ports it serves."""

import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from tidings.ports.failpoints import Failpoints
from tidings.stores.sqlite.chats import SqliteChats
from tidings.stores.sqlite.checkpoints import Checkpoints
from tidings.stores.sqlite.log import SqliteLog
from tidings.stores.sqlite.people import SqliteTenants, SqliteUsers
from tidings.stores.sqlite.readers import Readers
from tidings.stores.sqlite.receipts import SqliteReceipts
from tidings.stores.sqlite.schema import migrate
from tidings.stores.sqlite.secrets import SqliteDataKeys, SqliteDeployment, ensure_epoch
from tidings.stores.sqlite.sweeping import SqliteSweeping
from tidings.stores.sqlite.trouble import DISK_TROUBLE, StoreBroken, StoreRefused
from tidings.stores.sqlite.writer import Writer

DATABASE = "tidings.db"
LOCK = "lock"


@dataclass(frozen=True, slots=True)
class SqliteStore:
    """Every port chat needs, on one database file."""

    log: SqliteLog
    chats: SqliteChats
    receipts: SqliteReceipts
    tenants: SqliteTenants
    users: SqliteUsers
    data_keys: SqliteDataKeys
    deployment: SqliteDeployment
    sweeping: SqliteSweeping


@asynccontextmanager
async def open_store(
    folder: Path, *, failpoints: Failpoints, broken: Callable[[StoreBroken], None]
) -> AsyncIterator[SqliteStore]:
    """Open the store in this folder, making it if there is none.

    `broken` is called once if the disk fails later on: the server has to stop then.

    Raises:
        StoreRefused: Another process has it open, a newer program wrote it, or it is no store.
    """
    with _only_process(folder), ExitStack() as opened:
        path = folder / DATABASE
        main = opened.enter_context(closing(_connect(path)))
        migrate(main)
        epoch = ensure_epoch(main)
        copier = opened.enter_context(closing(_connect(path)))
        checkpoints = Checkpoints(main, copier)
        writer = Writer(main, checkpoints, failpoints=failpoints, broken=broken)
        readers = Readers(lambda: _connect(path))
        try:
            yield SqliteStore(
                log=SqliteLog(writer, readers, failpoints),
                chats=SqliteChats(writer, readers),
                receipts=SqliteReceipts(writer, readers),
                tenants=SqliteTenants(writer, readers),
                users=SqliteUsers(writer, readers),
                data_keys=SqliteDataKeys(writer, readers),
                deployment=SqliteDeployment(writer, readers, epoch),
                sweeping=SqliteSweeping(writer, readers),
            )
        finally:
            await writer.close()
            readers.close()
            checkpoints.close()


def _connect(path: Path) -> apsw.Connection:
    try:
        db = apsw.Connection(str(path))
        path.chmod(0o600)
        db.set_busy_timeout(5_000)
        settings = db.execute(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;"
            "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536;"
            "PRAGMA mmap_size = 268435456"
        )
        settings.fetchall()  # a statement runs only once the rows of the one before were taken
    except DISK_TROUBLE as error:
        raise StoreRefused(f"{path} cannot be opened: {error}") from error
    return db


def is_in_use(folder: Path) -> bool:
    """Whether a process has the store in this folder open."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def _only_process(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel lets go of it when the process dies, however it dies."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise StoreRefused(
                f"{folder} is in use by another Tidings process (pid {lock.read().strip()}): "
                "stop that one first, or give this one another folder with --data"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
