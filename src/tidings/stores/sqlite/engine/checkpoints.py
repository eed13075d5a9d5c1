# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the write-ahead log, in a thread of their own.

By default SQLite runs a checkpoint inside a commit, and that commit is slow. Here a thread with its
own connection copies pages while commits continue. When the write-ahead log has grown very long, it
is restarted between two commits; by then few pages are left to copy.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import apsw

from tidings.stores.sqlite.engine.connections import BUSY_MS

COPY_PAGES: Final = 4_000
RESTART_PAGES: Final = 18_000
"""Number of pages in the write-ahead log (about 70 MiB) at which it is restarted. This is half way
between two copies, which begin at 16,000 and 20,000 pages: the first copy has ended by then, and
few pages are left to copy."""
READERS_WAIT_MS: Final = 50
"""Maximum time for which a commit waits for readers when the write-ahead log is to be restarted.
Longer than any read of a request takes, but a backup reads for seconds."""
NICENESS: Final = 10
"""Increase of the checkpoint thread's nice value, which leaves it about a tenth of the CPU share of
other threads."""


class Checkpoints:
    """Runs checkpoints of the write-ahead log, depending on its length."""

    def __init__(self, db: apsw.Connection, own: apsw.Connection) -> None:
        self._own = own
        self._pages = 0
        self._copied_to = 0
        self._restart_at = RESTART_PAGES
        self._must_empty = False
        self._has_waited = False
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
        """Empty the write-ahead log after the next commit, because it contains destroyed data."""
        self._must_empty = True

    def between_commits(self, db: apsw.Connection) -> None:
        """Start a checkpoint if it is due. The commit thread calls this between transactions.

        Raises:
            apsw.Error: The disk failed, now or during an earlier copy of pages.
        """
        if self._failure is not None:
            raise self._failure
        pages = self._pages
        if pages < self._copied_to:
            self._copied_to = 0  # the log was restarted
        if self._must_empty:
            self._restart(db, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        elif pages >= self._restart_at:
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
            # A disk that failed one sync may report success on a retry. The write-ahead log, the
            # only good copy, would then be discarded. Therefore the next commit fails, and the
            # store stops.
            self._failure = error
        finally:
            self._is_copying.release()

    def _restart(self, db: apsw.Connection, mode: int) -> None:
        with self._is_copying:
            # While the log must be emptied, every commit tries; only the first waits for readers.
            waits = not (self._must_empty and self._has_waited)
            db.set_busy_timeout(READERS_WAIT_MS if waits else 0)
            try:
                db.wal_checkpoint(mode=mode)
            except apsw.BusyError:
                self._restart_at = self._pages + COPY_PAGES  # a reader still needs the log
                self._has_waited = True
                return
            finally:
                db.set_busy_timeout(BUSY_MS)
            self._pages = self._copied_to = 0
            self._restart_at = RESTART_PAGES
            self._must_empty = self._has_waited = False

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()


def _lower_priority() -> None:
    """Lower the priority of this thread, on systems where threads have separate priorities."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        with suppress(OSError):  # without the permission the priority stays as it is
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
