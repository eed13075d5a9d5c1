# SPDX-License-Identifier: Apache-2.0
"""Moving the write-ahead log into the database without holding up writers.

SQLite would do it inside some unlucky commit. Here a thread with a connection of its own copies
pages while commits go on; only when the log has grown very long is it restarted between two
commits, by which time little is left to copy.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from tidings.stores.sqlite.errors import DISK_TROUBLE, StoreRefused

DATABASE = "tidings.db"
SMALL_CACHE_KIB: Final = 1_024
"""Pages of the file are read where they are mapped; only those in the log are copied."""
WRITER_CACHE_KIB: Final = 8 * 1_024
"""What a few thousand messages change. Any long writing fills it, whatever its size."""


def connect(path: Path, *, cache_kib: int = SMALL_CACHE_KIB) -> apsw.Connection:
    """Open the file, making it if there is none; nobody but its owner may read it.

    Raises:
        StoreRefused: It cannot be opened, or is no database.
    """
    try:
        db = apsw.Connection(str(path))
        path.chmod(0o600)
        db.set_busy_timeout(5_000)
        settings = db.execute(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;"
            "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;"
            f"PRAGMA cache_size = -{cache_kib}; PRAGMA mmap_size = 268435456"
        )
        settings.fetchall()  # a statement runs only once the rows of the one before were taken
    except DISK_TROUBLE as error:
        raise StoreRefused(f"{path} cannot be opened: {error}") from error
    return db


COPY_PAGES: Final = 4_000
RESTART_PAGES: Final = 18_000
"""About 70 MiB, and half way between two copies: what is left to copy is little, and the last copy
is over."""
NICENESS: Final = 10
"""Who copies has a tenth of the weight of those whose answers are waited for."""


class Checkpoints:
    """Watches the length of the write-ahead log of one writing connection."""

    def __init__(self, db: apsw.Connection, own: apsw.Connection) -> None:
        self._own = own
        self._pages = 0
        self._copied_to = 0
        self._must_empty = False
        self._failure: apsw.Error | None = None
        self._is_copying = threading.Lock()
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="checkpoint", initializer=_step_back
        )
        db.set_wal_hook(self._grown)

    def _grown(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def empty_soon(self) -> None:
        """Empty the log after the next commit: it holds what must not be found any more."""
        self._must_empty = True

    def between_commits(self, db: apsw.Connection) -> None:
        """Called on the committing thread, with no transaction open.

        Raises:
            apsw.Error: The disk failed, now or while pages were copied.
        """
        if self._failure is not None:
            raise self._failure
        pages = self._pages
        if pages < self._copied_to:
            self._copied_to = 0  # the log was restarted
        if self._must_empty:
            self._restart(db, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        elif pages >= RESTART_PAGES:
            self._restart(db, apsw.SQLITE_CHECKPOINT_RESTART)
        elif pages - self._copied_to >= COPY_PAGES and self._is_copying.acquire(blocking=False):
            self._copied_to = pages
            self._thread.submit(self._copy)

    def _copy(self) -> None:
        try:
            self._own.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            pass  # somebody else copies
        except apsw.Error as error:
            # Asked again, a disk that failed one sync may say yes, and the log, which is the
            # only good copy, would go. So the next commit is told, and the store stops.
            self._failure = error
        finally:
            self._is_copying.release()

    def _restart(self, db: apsw.Connection, mode: int) -> None:
        with self._is_copying:
            try:
                db.wal_checkpoint(mode=mode)
            except apsw.BusyError:
                return  # a reader still needs it; the next commit tries again
            self._pages = self._copied_to = 0
            self._must_empty = False

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()


def _step_back() -> None:
    """Let the other threads go first, where a thread can have a priority of its own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        with suppress(OSError):  # who may not is not nicer, and that is all
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
