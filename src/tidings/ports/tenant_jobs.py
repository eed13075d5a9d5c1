# SPDX-License-Identifier: Apache-2.0
"""Port for a tenant's jobs: long operations that are answered first and then done in steps.

A step is repeated if a process dies in it, so it must be safe to repeat. For exact counts, a job
first stores the items that it is about to remove (`pending`) and their number. The next step
removes them. A repeated removal then counts nothing twice, and leaves nothing out.
"""

from typing import Final, Literal, Protocol

import msgspec

JobKind = Literal[
    "user.delete",
    "inbox.delete",
    "tenant.delete",
    "user.export",
    "webhook.resume",
    "webhook.replay",
    "webhook.delete",
    "push.everyone",
]
JobState = Literal["running", "done"]

PENDING_MAX: Final = 25
"""Greatest number of items that a job stores as pending, so that a step stays short."""


class TenantJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its progress."""

    tenant: str
    job_id: str
    kind: str
    """One of `JobKind`, or a kind that only a newer version knows."""
    subject: str
    """The user, inbox or tenant that the job is about, by the id within the tenant."""
    phase: str = "started"
    """The part of the work that was finished last; each kind of job has its own names."""
    state: JobState = "running"
    pending: tuple[str, ...] = ()
    """Items that are already counted, and that the next step removes."""
    cursor: str | None = None
    """Position at which the current phase continues; its form depends on the phase."""
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    result: str | None = None
    """Result of a finished job, such as a receipt."""
    created_at: int
    updated_at: int

    def counting(self, **more: int) -> "TenantJob":
        """Return the job with these numbers added to its counts."""
        counts = dict(self.counts)
        for name, number in more.items():
            counts[name] = counts.get(name, 0) + number
        return msgspec.structs.replace(self, counts=counts)

    def at(self, phase: str) -> "TenantJob":
        """Return the job with this phase as its last finished phase; the next phase has not
        begun."""
        return msgspec.structs.replace(self, phase=phase, pending=(), cursor=None)


JOB_ID_CHARS_MAX: Final = 200
"""More characters than the id of any job has."""


def job_id_of(kind: JobKind, subject: str) -> str:
    """Return the id of the only job of this kind about a subject, such as `delete-user-ann`."""
    noun, _, verb = kind.partition(".")
    return f"{verb}-{noun}-{subject}"


class TenantJobs(Protocol):
    """Stores the jobs of all tenants, finished or not. Calls are durable when they return."""

    async def create(self, job: TenantJob) -> TenantJob:
        """Store the job unless one with this id exists; return the stored job."""
        ...

    async def get(self, tenant: str, job_id: str) -> TenantJob | None:
        """Return a job, from a strong read."""
        ...

    async def unfinished(
        self, *, after: str, tenants: int, jobs: int
    ) -> dict[str, list[TenantJob]]:
        """Return the oldest unfinished jobs of the next tenants after a tenant, by tenant id.

        Each tenant has at most `jobs` of them, so that no tenant hides the jobs of another. Their
        progress may be outdated; `lease` returns the current progress.
        """
        ...

    async def running(self, tenant: str, limit: int) -> list[TenantJob]:
        """Return the oldest unfinished jobs of one tenant, as `unfinished` does."""
        ...

    async def lease(self, job: TenantJob, holder: str, now: int) -> TenantJob | None:
        """Acquire the lease on a job; return the job with its current progress.

        Returns None if another holder has the lease, or if the job is finished. Two holders at once
        would do no harm, but the work would be done and paid for twice.
        """
        ...

    async def save(self, job: TenantJob, holder: str) -> bool:
        """Store the progress of a leased job; return False if another holder has the lease by
        now."""
        ...

    async def remove(self, tenant: str, job_id: str) -> None:
        """Remove a finished job, if there is one."""
        ...


class ExportPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a person's export, encrypted."""

    tenant: str
    job_id: str
    started_at: int
    """When the job was created. A later export of the same person has the same job id."""
    number: int
    box: bytes
    box_key: int
    expires_at: int


class ExportParts(Protocol):
    """Stores parts of exports, which are removed after they have expired."""

    async def put(self, part: ExportPart) -> None:
        """Store a part in place of an earlier one with the same number; durable when it returns."""
        ...

    async def get(self, job: TenantJob, number: int) -> ExportPart | None:
        """Return a part of a job's export; None if there is none, or it was removed."""
        ...


class NotYet(Exception):
    """The next step of a job must not begin before a certain time."""

    def __init__(self, until: int) -> None:
        super().__init__(f"not before {until}")
        self.until = until


class JobSteps(Protocol):
    """Performs the steps of one kind of job."""

    async def step(self, job: TenantJob) -> TenantJob:
        """Do the next bounded part of the job, and return the job with its new progress.

        A repeated step does no harm, so a process may die at any moment.

        Raises:
            NotYet: The next step must not begin before a certain time.
        """
        ...
