# SPDX-License-Identifier: Apache-2.0
"""Runs the jobs of tenants step by step, in turns.

A round advances a few jobs of some tenants by one step each. The next round continues with the next
tenants, so that the jobs of one tenant never delay those of another. Each step stores its progress.
If a process dies, its lease on the job expires, and another process continues the job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from tidings.delivery.rounds import repeat_rounds
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import Unavailable
from tidings.ports.tenant_jobs import JobSteps, NotYet, TenantJob, TenantJobs
from tidings.ports.world import Clock
from tidings.tasks import Tasks

log = logging.getLogger("tidings.delivery")

TENANTS_AT_ONCE: Final = 8
"""Number of tenants whose jobs advance in one round; the next round serves the next tenants."""
JOBS_AT_ONCE: Final = 4
"""Jobs of one tenant that advance by a step in one round."""
JOBS_LISTED: Final = 100
"""Number of a tenant's oldest unfinished jobs among which a round looks for jobs that need not
wait."""
RETRY_MS: Final = 1 * SECOND_MS
WAITING_MAX: Final = 10_000
"""Number of jobs whose waiting times a process keeps in memory."""


class TenantJobRunner:
    """Background task that runs jobs. Several runners share the work."""

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

    def start(self) -> None:
        """Start. Services that are not reachable yet are tried again."""
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
        """Advance some jobs of some tenants; return whether there may be more to do at once.

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
