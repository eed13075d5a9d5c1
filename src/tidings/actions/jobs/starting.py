# SPDX-License-Identifier: Apache-2.0
"""Start a tenant's job, and return the progress of a job."""

from collections.abc import Callable

import msgspec

from tidings.actions.identity.caller import Caller, require_tenant
from tidings.model.entries import Deletion, chat_of
from tidings.model.refusals import JobNotFound
from tidings.ports.chats import Deletions
from tidings.ports.tenant_jobs import JOB_ID_CHARS_MAX, JobKind, TenantJob, TenantJobs, job_id_of
from tidings.ports.world import Clock


class StartJob:
    """Starts jobs, and wakes the runner of this process, so that a new job begins at once."""

    def __init__(self, jobs: TenantJobs, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each start of a job."""
        self._listeners.append(listener)

    async def __call__(
        self,
        tenant: str,
        kind: JobKind,
        subject: str,
        job_id: str | None = None,
        cursor: str | None = None,
        *,
        prepare: Callable[[TenantJob], TenantJob] | None = None,
    ) -> TenantJob:
        """Store the job durably and return it; if the job exists already, return the stored job.

        Without `job_id`, the id is made of kind and subject, so that a repeated request finds the
        same job. `prepare` changes a new job before it is stored.
        """
        now = self._clock.now()
        job = TenantJob(
            tenant=tenant,
            job_id=job_id or job_id_of(kind, subject),
            kind=kind,
            subject=subject,
            cursor=cursor,
            created_at=now,
            updated_at=now,
        )
        stored = await self._jobs.create(job if prepare is None else prepare(job))
        self.wake()
        return stored

    def wake(self) -> None:
        """Wake the runner, because there is work to do."""
        for listener in self._listeners:
            listener()


async def find_job(jobs: TenantJobs, tenant: str, job_id: str) -> TenantJob | None:
    """Return the job with an id that somebody has sent; None if there is none."""
    return await jobs.get(tenant, job_id) if len(job_id) <= JOB_ID_CHARS_MAX else None


class GetJob(msgspec.Struct, frozen=True):
    """Return the progress of a tenant's job."""

    jobs: TenantJobs
    deletions: Deletions

    async def __call__(self, caller: Caller, tenant: str, job_id: str) -> TenantJob | Deletion:
        """Return the job with this id.

        Raises:
            JobNotFound: The tenant has no such job.
        """
        require_tenant(caller, tenant)
        chat = chat_of(job_id)
        job: TenantJob | Deletion | None
        if chat is not None:
            job = await self.deletions.get(chat)
        else:
            job = await find_job(self.jobs, tenant, job_id)
        if job is None or job.tenant != tenant:
            raise JobNotFound
        return job
