# SPDX-License-Identifier: Apache-2.0
"""The runner of delivery jobs: gives the users of a notification their copies, portion by portion.

Every step may be done twice, so a job that comes again after a crash does no harm: who has a copy
keeps it, and progress is the set of finished jobs. Nothing is finished before it is done.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import msgspec

from tidings.actions.inbox.log_views import LogViews
from tidings.delivery.pushing import YOUNG_MS_MAX
from tidings.model.ids import user_key
from tidings.model.notifications import Copy
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Bus, CopiesMade
from tidings.ports.inboxes import Copies, Notifications
from tidings.ports.jobs import DeadLetter, DeadLetters, Job, Jobs, JobsUnavailable, Taken
from tidings.ports.world import Clock
from tidings.tasks import Tasks

T = TypeVar("T")


class Turns(Generic[T]):
    """What waits, a queue for each tenant."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()

    def put(self, tenant: str, waiting: T) -> None:
        """Stand in queue behind what is the tenant's own."""
        self._queues.setdefault(tenant, deque()).append(waiting)

    def next(self) -> T | None:
        """The first of the tenant whose turn it is; None if nothing waits."""
        if not self._queues:
            return None
        tenant, queue = self._queues.popitem(last=False)
        first = queue.popleft()
        if queue:
            self._queues[tenant] = queue  # behind all others
        return first


log = logging.getLogger("tidings.delivery")

JOBS_MAX: Final = 1_000
"""So many jobs are held; then no more are taken. Tenants take turns among what is held, because a
broker gives jobs out in the order in which they came."""
STORE_JOBS_MAX: Final = 200
"""The same for a queue in the store, which gives the tenants turns itself."""
TAKEN_AT_ONCE: Final = 100
JOBS_AT_ONCE: Final = 8
ATTEMPTS_MAX: Final = 5
REASON_CHARS_MAX: Final = 500


class _Work(msgspec.Struct, eq=False):
    """A job on its way."""

    taken: Taken
    is_delivered: bool = False
    attempts: int = 0
    failures: int = 0
    """How often it failed while it was itself to blame."""
    reason: str | None = None
    """Why nobody can do it: it is set aside."""


class JobRunner:
    """Takes jobs and does them for as long as it runs. Several of them share a queue."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        dead_letters: DeadLetters,
        notifications: Notifications,
        copies: Copies,
        views: LogViews,
        bus: Bus,
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
        jobs_max: int = JOBS_MAX,
    ) -> None:
        """`back_off` waits before the n-th new attempt, with jitter, seconds at the most."""
        self._jobs = jobs
        self._dead_letters = dead_letters
        self._notifications = notifications
        self._copies = copies
        self._views = views
        self._bus = bus
        self._clock = clock
        self._back_off = back_off
        self._jobs_max = jobs_max
        self._turns: Turns[_Work] = Turns()
        self._held = 0
        self._running = 0
        self._has_room = asyncio.Event()
        self._tasks = Tasks("jobs")
        self.finished = 0
        self.set_aside = 0
        self.failed_attempts = 0

    def start(self) -> None:
        """Begin; what cannot be reached now is waited for."""
        self._tasks.start(self._run())

    async def close(self) -> None:
        """Stop. What is under way comes again, here or at another runner."""
        await self._tasks.close()
        await self._jobs.close()

    async def _run(self) -> None:
        attempt = 0
        while True:
            try:
                taken = await self._jobs.take(min(TAKEN_AT_ONCE, self._jobs_max - self._held))
            except Exception as error:
                if not isinstance(error, JobsUnavailable):
                    log.exception("taking failed", extra={"action": "taking_failed"})
                attempt += 1
                await self._back_off(attempt)
                continue
            attempt = 0
            for one in taken:
                self._held += 1
                self._turns.put(one.job.tenant, _Work(one))
            self._go_on()
            while self._held >= self._jobs_max:
                self._has_room.clear()
                await self._has_room.wait()

    def _go_on(self) -> None:
        while self._running < JOBS_AT_ONCE and (work := self._turns.next()) is not None:
            self._running += 1
            self._tasks.start(self._do(work))

    async def _do(self, work: _Work) -> None:
        try:
            await self._take_the_steps(work)
        except (StoreUnavailable, JobsUnavailable):
            self._tasks.start(self._again(work))
        except Exception as error:
            self._blame(work, error)
            self._tasks.start(self._again(work))
        else:
            self._held -= 1
            self._has_room.set()
        finally:
            self._running -= 1
            self._go_on()

    def _blame(self, work: _Work, error: Exception) -> None:
        job = work.taken.job
        where = {"tenant": job.tenant, "job": _name(job)}
        log.error("job failed", exc_info=error, extra={"action": "job_failed", **where})
        work.failures += 1
        if work.failures >= ATTEMPTS_MAX:
            work.reason = f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX]

    async def _again(self, work: _Work) -> None:
        """Others have their turn meanwhile."""
        self.failed_attempts += 1
        work.attempts += 1
        await self._back_off(work.attempts)
        self._turns.put(work.taken.job.tenant, work)
        self._go_on()

    async def _take_the_steps(self, work: _Work) -> None:
        job = work.taken.job
        if work.reason is not None:
            await self._set_aside(job, work.reason)
        elif not work.is_delivered:
            await self._deliver(job)
            work.is_delivered = True
        await self._jobs.finish(work.taken)
        if work.reason is None:
            self.finished += 1
        else:
            self.set_aside += 1

    async def _deliver(self, job: Job) -> None:
        now = self._clock.now()
        view = await self._views.get(job.tenant, job.inbox)
        if not view.hides(job.notification_id, job.expires_at, now):
            await self._make_copies(job, now)
        await self._notifications.finish_job(job.tenant, job.inbox, job.notification_id, job.number)

    async def _make_copies(self, job: Job, now: int) -> None:
        users = [user_key(job.tenant, user) for user in job.users]
        copy = Copy(
            notification_id=job.notification_id,
            category=job.category,
            received_at=max(now, job.posted_at),
            expires_at=job.expires_at,
        )
        new = await self._copies.deliver(users, job.inbox, copy)
        # After a crash nobody knows who was told of copies that are there: while it is news, all.
        told = users if now - job.posted_at <= YOUNG_MS_MAX else new
        if told:
            self._bus.publish(
                CopiesMade(
                    job.tenant, job.inbox, job.notification_id, copy.received_at, tuple(told)
                )
            )

    async def _set_aside(self, job: Job, reason: str) -> None:
        extra = {"action": "job_set_aside", "tenant": job.tenant, "job": _name(job)}
        log.error("job set aside: %s", reason, extra=extra)
        await self._dead_letters.keep(
            DeadLetter(aside_id=_name(job), job=job, reason=reason, at=self._clock.now())
        )


def _name(job: Job) -> str:
    """Always the same for a job: one that comes again is not set aside twice."""
    return f"{job.notification_id}-{job.number}"
