# SPDX-License-Identifier: Apache-2.0
"""Deletes chats and runs the jobs of tenants, in rounds of short steps.

Each step stores its progress. If a process dies, its lease on a job expires, and another process
continues the job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from tidings.metrics.counts import report_counts
from tidings.model import limits
from tidings.model.entries import Deletion
from tidings.model.ids import ChatId
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import Unavailable
from tidings.ports.bus import Appended, Bus
from tidings.ports.chats import Deletions
from tidings.ports.delivery import DeliveryStore
from tidings.ports.tenant_jobs import JobSteps, NotYet, TenantJob, TenantJobs
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.delivery")

POLL_SECONDS: Final = 2.0
"""Interval of the search for work that another process has begun or abandoned."""
PAUSE_SECONDS: Final = 0.02
"""Pause between two rounds, because messages are more urgent than such work."""


async def repeat_rounds(
    work: Callable[[], Awaitable[bool]],
    asked: asyncio.Event,
    back_off: Callable[[int], Awaitable[None]],
) -> None:
    """Repeat a round of work until this is cancelled.

    Args:
        work: Performs one round; returns whether more can be done at once.
        asked: Event that is set when there is new work, so that the next round does not wait.
        back_off: Waits before the n-th retry, while the store does not answer.
    """
    attempt = 0
    while True:
        asked.clear()
        try:
            is_more = await work()
        except Unavailable:
            attempt += 1
            await back_off(attempt)
            continue
        attempt = 0
        if is_more:
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await asked.wait()


class DeletionRunner:
    """Background task that deletes chats. Several runners share the work.

    In each round, a few chats advance. If a chat still has members, the round removes all of them,
    because members can read the chat until they are removed. A chat without members advances by one
    step, so that a long chat does not delay the others.
    """

    def __init__(
        self,
        *,
        deletions: Deletions,
        bus: Bus,
        clock: Clock,
        holder: str,
        delivery: DeliveryStore | None,
        back_off: Callable[[int], Awaitable[None]],
    ) -> None:
        """Set up the runner.

        Args:
            delivery: Where to find out whether members have the last entry; None if they had it
                before the deletion was answered.
            back_off: Waits before the n-th retry, with jitter, a few seconds at most.
        """
        self._deletions = deletions
        self._clock = clock
        self._holder = holder
        self._delivery = delivery
        self._back_off = back_off
        self._asked = asyncio.Event()
        self._tasks = Tasks("deletions")
        self.failed_steps = 0
        report_counts(self, "deletions")
        bus.subscribe(self._on_appended, Appended)

    def start(self) -> None:
        """Start the background task. Services that are not reachable yet are tried again."""
        self._tasks.repeat(self._run)

    async def close(self) -> None:
        """Stop. Unfinished deletions continue after the next start, here or elsewhere."""
        await self._tasks.close()

    def _on_appended(self, event: Appended) -> None:
        if event.entry.kind == "deleted":
            self._asked.set()

    async def _run(self) -> None:
        await repeat_rounds(self.round, self._asked, self._back_off)

    async def round(self) -> bool:
        """Perform one round of deletions; return True if any of these chats needs more steps.

        Raises:
            Unavailable: The store does not answer.
        """
        wait_ms = limits.DELETION_DELIVERY_MS if self._delivery is not None else 0
        before = self._clock.now() - wait_ms
        chats = await self._deletions.unfinished(before=before, limit=limits.DELETIONS_AT_ONCE)
        return any([await self._step(chat) for chat in chats])

    async def _is_delivered(self, job: Deletion) -> bool:
        """Return True if the members have the last entry, or if too much time has passed."""
        if self._delivery is None or job.phase != "started":
            return True
        if self._clock.now() - job.created_at >= limits.DELETION_DELIVERY_MS_MAX:
            return True
        reached = await self._delivery.reached([job.chat_id])
        return reached.get(job.chat_id, 0) >= job.entries

    async def _step(self, chat: ChatId) -> bool:
        try:
            job = await self._deletions.lease(chat, self._holder, self._clock.now())
            if job is None or not await self._is_delivered(job):
                return False
            after = await self._deletions.step(job, self._holder, self._clock.now())
            # All members are removed without a pause, because they can read the chat until then.
            while after is not None and after.phase == "started":
                after = await self._deletions.step(after, self._holder, self._clock.now())
        except Exception as error:
            # A failure with one chat must not stop the others. The chat is tried again later.
            self.failed_steps += 1
            if not isinstance(error, Unavailable):
                log.exception("deleting failed", extra={"action": "deleting_failed", "chat": chat})
            return False
        if after is None:
            return False
        if after.phase != job.phase:
            extra = {"action": "chat_deletion", "chat": chat, "phase": after.phase}
            log.info("deleting a chat", extra=extra)
        return after.phase != "done"


TENANTS_AT_ONCE: Final = 8
"""Number of tenants whose jobs advance in one round; the next round serves the next tenants."""
JOBS_AT_ONCE: Final = 4
"""Jobs of one tenant that advance by a step in one round."""
JOBS_LISTED: Final = 100
"""Maximum number of a tenant's unfinished jobs, oldest first, that a round looks at to find jobs
that can advance."""
RETRY_MS: Final = 1 * SECOND_MS
WAITING_MAX: Final = 10_000
"""Number of jobs whose waiting times a process keeps in memory."""


class TenantJobRunner:
    """Background task that runs the jobs of tenants. Several runners share the work.

    A round advances a few jobs of some tenants by one step each. The next round continues with the
    next tenants, so that the jobs of one tenant never delay those of another.
    """

    def __init__(
        self,
        *,
        jobs: TenantJobs,
        kinds: Mapping[str, JobSteps],
        clock: Clock,
        holder: str,
        back_off: Callable[[int], Awaitable[None]],
    ) -> None:
        """Set up the runner.

        Args:
            kinds: The work of each kind of job. Jobs of other kinds are left to newer versions.
            back_off: Waits before the n-th retry, with jitter, a few seconds at most.
        """
        self._jobs = jobs
        self._kinds = kinds
        self._clock = clock
        self._holder = holder
        self._back_off = back_off
        self._after = ""
        self._has_advanced = False
        """Whether a job has advanced since the runner was last at the first tenant."""
        self._waiting: dict[tuple[str, str], int] = {}
        """Jobs whose next step must wait, and until when; only those found in the last round."""
        self._asked = asyncio.Event()
        self._tasks = Tasks("tenant_jobs")
        self.failed_steps = 0
        report_counts(self, "tenant jobs")

    def start(self) -> None:
        """Start the background task. Services that are not reachable yet are tried again."""
        self._tasks.repeat(self._run)

    def ask(self) -> None:
        """Look for jobs now, because this process has just created one."""
        self._asked.set()

    async def close(self) -> None:
        """Stop. Unfinished jobs continue after the next start, here or elsewhere."""
        await self._tasks.close()

    async def _run(self) -> None:
        await repeat_rounds(self.round, self._asked, self._back_off)

    async def round(self) -> bool:
        """Advance some jobs of some tenants; return True if there may be more to do at once.

        Raises:
            Unavailable: The store does not answer.
        """
        found = await self._jobs.unfinished(
            after=self._after, tenants=TENANTS_AT_ONCE, jobs=JOBS_LISTED
        )
        is_last = len(found) < TENANTS_AT_ONCE
        was_first = not self._after
        self._after = "" if is_last else max(found)
        some = [job for jobs in found.values() for job in self._due(jobs)]
        async with asyncio.TaskGroup() as group:
            steps = [group.create_task(self._step(job)) for job in some]
        has_advanced = any(step.result() for step in steps)
        # After the last tenant, the runner rests unless a job of any tenant has advanced.
        self._has_advanced = has_advanced or (self._has_advanced and not was_first)
        return self._has_advanced or not is_last

    def _due(self, jobs: list[TenantJob]) -> list[TenantJob]:
        """Return those jobs of one tenant that advance in this round."""
        now = self._clock.now()
        due = [
            job
            for job in jobs
            if job.kind in self._kinds and self._waiting.get(_name(job), 0) <= now
        ]
        for job in due:
            self._waiting.pop(_name(job), None)
        return due[:JOBS_AT_ONCE]

    async def _step(self, job: TenantJob) -> bool:
        now = self._clock.now()
        try:
            leased = await self._jobs.lease(job, self._holder, now)
            if leased is None:
                self._wait(job, now + SECOND_MS)
                return False
            after = await self._kinds[leased.kind].step(leased)
            after = msgspec.structs.replace(after, updated_at=self._clock.now())
            await self._jobs.save(after, self._holder)
        except NotYet as wait:
            self._wait(job, wait.until)
            return False
        except Exception as error:
            # A failure of one job must not stop the others. The job is tried again later.
            self.failed_steps += 1
            self._wait(job, now + RETRY_MS)
            if not isinstance(error, Unavailable):
                extra = {"action": "job_failed", "tenant": job.tenant, "kind": job.kind}
                log.exception("a job failed", extra=extra)
            return False
        if after.phase != leased.phase:
            extra = {"action": "job", "tenant": job.tenant, "kind": job.kind, "phase": after.phase}
            log.info("a job has reached a phase", extra=extra)
        return True

    def _wait(self, job: TenantJob, until: int) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.clear()  # the next round only checks these jobs once more than necessary
        self._waiting[_name(job)] = until


def _name(job: TenantJob) -> tuple[str, str]:
    return job.tenant, job.job_id
