# SPDX-License-Identifier: Apache-2.0
"""Opening connections, and checkpoints of the write-ahead log that do not delay writers.

SQLite would run a checkpoint inside some unlucky commit. Here a thread with a connection of its own
copies pages while commits continue; only when the log has grown very long is it restarted between
two commits, and by then little is left to copy.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from tidings.model.setup_error import SetupError
from tidings.stores.sqlite.errors import DISK_TROUBLE

DATABASE = "tidings.db"
SMALL_CACHE_KIB: Final = 1_024
"""Page cache of a reader: small, since file pages are memory-mapped and only log pages copied."""
WRITER_CACHE_KIB: Final = 8 * 1_024
"""Page cache of the writer, for the changes of a few thousand messages. Long writes fill any."""


def connect(path: Path, *, cache_kib: int = SMALL_CACHE_KIB) -> apsw.Connection:
    """Open the database file, creating it if there is none; only its owner may read it.

    Raises:
        SetupError: The file cannot be opened, or is not a database.
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
        settings.fetchall()  # a statement runs only after the rows before it were fetched
    except DISK_TROUBLE as error:
        raise SetupError(f"{path} cannot be opened: {error}") from error
    return db


COPY_PAGES: Final = 4_000
RESTART_PAGES: Final = 18_000
"""About 70 MiB, and half way between two copies: the last copy is done, and little is left."""
NICENESS: Final = 10
"""Nice value of the checkpoint thread: about a tenth of the CPU share of request threads."""


class Checkpoints:
    """Checkpoints of the write-ahead log of one writing connection, by its length."""

    def __init__(self, db: apsw.Connection, own: apsw.Connection) -> None:
        self._own = own
        self._pages = 0
        self._copied_to = 0
        self._must_empty = False
        self._failure: apsw.Error | None = None
        self._is_copying = threading.Lock()
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="checkpoint", initializer=_lower_priority
        )
        db.set_wal_hook(self._grown)

    def _grown(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def empty_soon(self) -> None:
        """Empty the log after the next commit, because it contains destroyed data."""
        self._must_empty = True

    def between_commits(self, db: apsw.Connection) -> None:
        """Start a checkpoint if it is due; called on the committing thread between transactions.

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
            pass  # another connection runs a checkpoint
        except apsw.Error as error:
            # A disk that failed one sync may report success on a retry, and the log, which is the
            # only good copy, would be lost. Therefore the next commit fails, and the store stops.
            self._failure = error
        finally:
            self._is_copying.release()

    def _restart(self, db: apsw.Connection, mode: int) -> None:
        with self._is_copying:
            try:
                db.wal_checkpoint(mode=mode)
            except apsw.BusyError:
                return  # a reader still needs the log; the next commit tries again
            self._pages = self._copied_to = 0
            self._must_empty = False

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()


def _lower_priority() -> None:
    """Lower the priority of this thread, on systems where a thread can have its own."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        with suppress(OSError):  # without the permission the priority stays as it is
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
