# SPDX-License-Identifier: Apache-2.0
"""The writer with group commit: write jobs that arrive during one commit are written in the next.

A transaction consists of write jobs, and each write job has its own outcome.

Statements run on the event loop: they change memory only and take a few microseconds each. The
commit waits for the disk, so it runs in a thread. (Statements in a thread were measured to be 1.4
to 5.5 times slower, because they contend with the event loop for the interpreter lock.)

A job is settled after its commit has returned. A failed commit stops the store, because a disk that
lost one write cannot be trusted with the next.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from time import monotonic
from typing import Any, Final, TypeVar

import apsw

from tidings.diagnosis import report_queue
from tidings.logs.requests import for_requests
from tidings.metrics import declared
from tidings.metrics.meters import report
from tidings.ports.world import Failpoints
from tidings.stores.sqlite.engine.checkpoints import Checkpoints
from tidings.stores.sqlite.engine.connections import DISK_TROUBLE, StoreBroken, timed
from tidings.stores.sqlite.engine.write_jobs import (
    AwaitedWrite,
    Bulk,
    JobWritten,
    RowsWrite,
    SteppedWrite,
    Steps,
    UndoWrite,
    Unfinished,
    WriteJob,
)

log = logging.getLogger("tidings.store")

T = TypeVar("T")

BATCH_ROWS_MAX: Final = 150
"""A transaction with this many rows accepts no further job. Its statements take a few
milliseconds."""
WAITING_JOBS_MAX: Final = 100_000

_OBSERVE_COMMIT: Final = declared.store_seconds.of["commit"].observe
_OBSERVE_ENTRIES: Final = declared.commit_entries.of[()].observe


class _Lost:
    """Outcome of a write job that failed, or whose commit may have failed."""


class Writer:
    """Runs queued write jobs in transactions, over the only connection that writes."""

    def __init__(
        self,
        db: apsw.Connection,
        checkpoints: Checkpoints,
        *,
        failpoints: Failpoints,
        broken: Callable[[StoreBroken], None],
    ) -> None:
        self._db = db
        self._checkpoints = checkpoints
        self._failpoints = failpoints
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._waiting: deque[WriteJob] = deque()
        self._began_at = 0.0
        """When the current transaction began."""
        self._is_busy = False
        self._trouble: StoreBroken | None = None
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        report_queue("writer", self)
        report(self, lambda writer: [(declared.store_waiting, (), len(writer._waiting))])

    def depths(self) -> Mapping[str, int]:
        """Return the number of waiting jobs and of open transactions."""
        return {"waiting": len(self._waiting), "running": int(self._is_busy)}

    def submit(self, job: WriteJob) -> None:
        """Queue the job for the next transaction; it fails if the store cannot write."""
        if self._trouble or self._is_closed or len(self._waiting) >= WAITING_JOBS_MAX:
            self._loop.call_soon(job.fail)
            return
        self._waiting.append(job)
        if not self._is_busy:
            # The transaction begins in the next turn of the loop, so that other jobs of this turn
            # can join it.
            self._is_busy = True
            self._idle.clear()
            # It is not part of the request that happens to begin it.
            self._loop.call_soon(self._begin, context=Context())

    async def write(self, act: Callable[[apsw.Connection], T], *, rows: int = 5) -> T:
        """Run a function in the next transaction, and return its result when it is durable.

        `rows` is the approximate number of rows that the function writes; it limits the size of the
        transaction. If the function raises an exception, only its own rows are rolled back.

        Raises:
            StoreUnavailable: The store cannot write, or too many jobs are waiting. The outcome may
                be unknown.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(AwaitedWrite(act, future, rows))
        with timed(act):
            return await future

    async def write_rows(self, name: Callable[..., object], bulk: Bulk) -> None:
        """Run statements that return nothing, like `write`, but together with those of other calls.

        This is several times cheaper if there are many calls. Within a transaction, these
        statements run before those of other jobs. `name` is the method that calls this; the time is
        measured under its name.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        self.submit(RowsWrite(bulk, future))
        with timed(name):
            await future

    async def write_in_steps(self, begin: Callable[[apsw.Connection], Steps[T]], *, rows: int) -> T:
        """Perform a large write like `write`, but let the event loop do other work between steps.

        All steps are one transaction: no reader sees only a part of it, and other writes wait.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(SteppedWrite(begin, future, rows))
        with timed(begin):
            return await future

    def empty_log_after_commit(self) -> None:
        """Empty the write-ahead log after the commit of the current transaction.

        The log is emptied before the jobs of the transaction are settled. If a reader still needs
        the log, this is repeated after the next commit.
        """
        self._checkpoints.empty_soon()

    async def close(self) -> None:
        """Finish all submitted jobs, then stop."""
        await self._idle.wait()
        self._is_closed = True
        self._thread.shutdown()

    def _begin(self) -> None:
        self._began_at = monotonic()
        batch = self._take_batch()
        if not batch:
            self._become_idle()
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except Exception as error:
            self._give_up(error, batch)
            return
        self._write_batch(batch)

    def _write_batch(self, batch: list[WriteJob]) -> None:
        """Write the whole batch, or the next step of a stepped write; commit at the end."""
        try:
            outcomes = self._write_all(batch)
            self._failpoints.reach("before_commit")
        except Unfinished:
            self._loop.call_soon(self._write_batch, batch)
            return
        except Exception as error:
            # After any exception it is unknown which part of the transaction was written.
            self._give_up(error, batch)
            return
        self._thread.submit(self._commit).add_done_callback(
            lambda commit: self._loop.call_soon_threadsafe(self._finish, commit, batch, outcomes)
        )

    def _take_batch(self) -> list[WriteJob]:
        batch: list[WriteJob] = []
        rows = 0
        while self._waiting and rows < BATCH_ROWS_MAX:
            if isinstance(self._waiting[0], SteppedWrite):
                if not batch:
                    batch.append(self._waiting.popleft())
                break
            job = self._waiting.popleft()
            if count := self._prepared(job):
                batch.append(job)
                rows += count
        return batch

    def _prepared(self, job: WriteJob) -> int:
        try:
            return job.prepare()
        except Exception:
            # The code that submitted the job must handle this. The writer continues.
            log.exception("preparing failed", extra={"action": "prepare_failed"})
            return 0

    def _write_all(self, batch: list[WriteJob]) -> list[object]:
        if isinstance(batch[0], SteppedWrite):
            return [self._write_step(batch[0])]
        try:
            written = self._write_in_bulk(batch)
        except DISK_TROUBLE:
            raise
        except Exception:
            # Rarely, a sequence is taken or a key was used before: write each job on its own.
            self._db.execute("ROLLBACK; BEGIN IMMEDIATE")
            written = set()
        return [
            JobWritten if index in written else self._write_alone(job)
            for index, job in enumerate(batch)
        ]

    def _write_in_bulk(self, batch: list[WriteJob]) -> set[int]:
        statements: dict[str, list[tuple[Any, ...]]] = {}
        written = set()
        for index, job in enumerate(batch):
            bulk = job.bulk()
            if bulk is None:
                continue
            written.add(index)
            for statement, rows in bulk:
                statements.setdefault(statement, []).extend(rows)
        for statement, rows in statements.items():
            self._db.executemany(statement, rows)
        return written

    def _write_alone(self, job: WriteJob) -> object:
        self._db.execute("SAVEPOINT job")
        try:
            outcome = job.write(self._db)
        except UndoWrite as undo:
            self._db.execute("ROLLBACK TO job")
            outcome = undo.outcome
        except DISK_TROUBLE:
            raise
        except Exception:
            with for_requests(job.requests):
                log.exception("write failed", extra={"action": "write_failed"})
            self._db.execute("ROLLBACK TO job")
            outcome = _Lost
        self._db.execute("RELEASE job")
        return outcome

    def _write_step(self, job: SteppedWrite) -> object:
        try:
            return job.write(self._db)
        except UndoWrite as undo:
            self._db.execute("ROLLBACK; BEGIN IMMEDIATE")
            return undo.outcome

    def _commit(self) -> None:
        self._db.execute("COMMIT")
        self._checkpoints.between_commits(self._db)
        self._failpoints.reach("after_commit_before_answer")

    def _finish(self, commit: Future[None], batch: list[WriteJob], outcomes: list[object]) -> None:
        if error := commit.exception():
            self._give_up(error, batch)
            return
        _OBSERVE_COMMIT(monotonic() - self._began_at)
        if count := sum(job.entry_count for job in batch):
            _OBSERVE_ENTRIES(count)
        for job, outcome in zip(batch, outcomes, strict=True):
            _settle(job, outcome)
        if self._waiting:
            self._begin()
        else:
            self._become_idle()

    def _become_idle(self) -> None:
        self._is_busy = False
        self._idle.set()

    def _give_up(self, error: BaseException, batch: list[WriteJob]) -> None:
        self._trouble = StoreBroken(f"the store cannot write: {error}")
        log.critical("store broken", extra={"action": "store_broken", "error": str(error)})
        left = [*batch, *self._waiting]
        self._waiting.clear()
        self._is_busy = False
        self._idle.set()
        for job in left:
            _settle(job, _Lost)
        self._broken(self._trouble)


def _settle(job: WriteJob, outcome: object) -> None:
    try:
        if outcome is _Lost:
            job.fail()
        else:
            job.settle(outcome)
    except Exception:
        # The other jobs must still be settled.
        with for_requests(job.requests):
            log.exception("settling failed", extra={"action": "settle_failed"})
