# SPDX-License-Identifier: Apache-2.0
"""Runs delivery jobs: each stores the copies of a notification for up to 100 users.

A job is removed from the queue only after its work is done. Therefore it runs again after a crash.
That does no harm: a user who already has a copy gets no second one, and a job that finishes twice
is counted once.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from tidings.diagnosis import report_queue
from tidings.metrics import declared
from tidings.metrics.counts import report_counts
from tidings.metrics.meters import Reading, report
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import (
    DeadLetter,
    DeadLetters,
    Job,
    Jobs,
    JobsUnavailable,
    Taken,
)
from tidings.ports.world import Clock
from tidings.tasks import Tasks

T = TypeVar("T")

log = logging.getLogger("tidings.delivery")

JOBS_MAX: Final = 1_000
"""Limit on jobs in memory. It is high, because tenants take turns only among the jobs in memory: a
broker returns jobs in the order in which they were queued."""
STORE_JOBS_MAX: Final = 200
"""Limit on jobs in memory if the queue is in the store. It is lower, because the store itself lets
tenants take turns."""
TAKEN_AT_ONCE: Final = 100
USERS_AT_ONCE: Final = 800
"""No further job begins while the running jobs have this many users: eight of the largest."""
JOBS_AT_ONCE: Final = 32
ATTEMPTS_MAX: Final = 5
REASON_CHARS_MAX: Final = 500


class TenantRoundRobin(Generic[T]):
    """Queue in which tenants take turns, so that a small tenant never waits for a large one."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()

    def put(self, tenant: str, waiting: T) -> None:
        """Add work to the end of the tenant's queue."""
        self._queues.setdefault(tenant, deque()).append(waiting)

    def next(self, busy: Container[str] = ()) -> T | None:
        """Remove and return the next work of the tenant whose turn it is; None if no work waits.

        Tenants who are busy miss their turn.
        """
        tenant = next((name for name in self._queues if name not in busy), None)
        if tenant is None:
            return None
        queue = self._queues.pop(tenant)
        first = queue.popleft()
        if queue:
            self._queues[tenant] = queue  # behind all others
        return first


class _Work(msgspec.Struct, eq=False):
    """A job in progress."""

    taken: Taken
    is_delivered: bool = False
    attempts: int = 0
    failures: int = 0
    """Number of failures that the job itself caused."""
    reason: str | None = None
    """Reason why the job becomes a dead letter; None if it does not."""


class JobRunner:
    """Background task that takes jobs and runs them. Several runners share a queue."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        dead_letters: DeadLetters,
        deliver: Callable[[Job], Awaitable[None]],
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
        jobs_max: int = JOBS_MAX,
    ) -> None:
        """Set up the runner; `back_off(n)` waits before the n-th retry, with jitter, at most a few
        seconds."""
        self._jobs = jobs
        self._dead_letters = dead_letters
        self._deliver = deliver
        self._clock = clock
        self._back_off = back_off
        self._jobs_max = jobs_max
        self._turns: TenantRoundRobin[_Work] = TenantRoundRobin()
        self._taken = 0
        self._running = 0
        self._users_running = 0
        self._has_room = asyncio.Event()
        self._tasks = Tasks("jobs")
        self.finished = 0
        self.set_aside = 0
        self.failed_attempts = 0
        report_queue("delivery jobs", self)
        report_counts(self, "jobs")
        report(self, _readings)

    def depths(self) -> Mapping[str, int]:
        """Return the number of jobs that this process has taken, and how many of them run."""
        return {"taken": self._taken, "running": self._running}

    def start(self) -> None:
        """Start the background task. Services that are not reachable yet are tried again."""
        self._tasks.start(self._run())

    async def close(self) -> None:
        """Stop. Unfinished jobs run again, in another runner or in this one after a restart."""
        await self._tasks.close()
        await self._jobs.close()

    async def _run(self) -> None:
        attempt = 0
        while True:
            try:
                taken = await self._jobs.take(min(TAKEN_AT_ONCE, self._jobs_max - self._taken))
            except Exception as error:
                if not isinstance(error, JobsUnavailable):
                    log.exception("taking jobs failed", extra={"action": "taking_failed"})
                attempt += 1
                await self._back_off(attempt)
                continue
            attempt = 0
            for taken_job in taken:
                self._taken += 1
                self._turns.put(taken_job.job.tenant, _Work(taken_job))
            self._go_on()
            while self._taken >= self._jobs_max:
                self._has_room.clear()
                await self._has_room.wait()

    def _go_on(self) -> None:
        while self._has_free() and (work := self._turns.next()) is not None:
            self._running += 1
            self._users_running += len(work.taken.job.users)
            self._tasks.start(self._do(work))

    def _has_free(self) -> bool:
        return self._running < JOBS_AT_ONCE and self._users_running < USERS_AT_ONCE

    async def _do(self, work: _Work) -> None:
        try:
            await self._take_the_steps(work)
        except (StoreUnavailable, JobsUnavailable):
            self._tasks.start(self._again(work))
        except Exception as error:
            self._blame(work, error)
            self._tasks.start(self._again(work))
        else:
            self._taken -= 1
            self._has_room.set()
        finally:
            self._running -= 1
            self._users_running -= len(work.taken.job.users)
            self._go_on()

    def _blame(self, work: _Work, error: Exception) -> None:
        job = work.taken.job
        where = {"tenant": job.tenant, "job": _name(job)}
        log.error("job failed", exc_info=error, extra={"action": "job_failed", **where})
        work.failures += 1
        if work.failures >= ATTEMPTS_MAX:
            work.reason = f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX]

    async def _again(self, work: _Work) -> None:
        """Queue a failed job again after a pause, during which other jobs run."""
        self.failed_attempts += 1
        work.attempts += 1
        await self._back_off(work.attempts)
        self._turns.put(work.taken.job.tenant, work)
        self._go_on()

    async def _take_the_steps(self, work: _Work) -> None:
        job = work.taken.job
        if work.reason is not None:
            await self._keep_dead_letter(job, work.reason)
        elif not work.is_delivered:
            await self._deliver(job)
            work.is_delivered = True
        await self._jobs.finish(work.taken)
        if work.reason is None:
            self.finished += 1
        else:
            self.set_aside += 1

    async def _keep_dead_letter(self, job: Job, reason: str) -> None:
        extra = {"action": "job_dead_letter", "tenant": job.tenant, "job": _name(job)}
        log.error("job set aside: %s", reason, extra=extra)
        await self._dead_letters.keep(
            DeadLetter(aside_id=_name(job), job=job, reason=reason, at=self._clock.now())
        )


def _readings(runner: JobRunner) -> list[Reading]:
    depths = runner.depths()
    return [
        (declared.jobs, "waiting", depths["taken"] - depths["running"]),
        (declared.jobs, "running", depths["running"]),
        (declared.jobs_aside, (), runner.set_aside),
    ]


def _name(job: Job) -> str:
    """Return a stable name, so that a job that runs again does not become two dead letters."""
    return f"{job.notification_id}-{job.number}"
