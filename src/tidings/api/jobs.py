# SPDX-License-Identifier: Apache-2.0
"""Operations on jobs: progress of a tenant's jobs, and dead letters for operators."""

from typing import Final, Literal, cast

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller, require_root
from tidings.actions.inbox.posted import DeadLetterJobs
from tidings.actions.jobs.exports import PersonExports
from tidings.actions.jobs.person_export import result_of
from tidings.actions.verbs import JobVerbs
from tidings.api.fields import Limit
from tidings.api.operations import Audited, operation
from tidings.api.requests import Query
from tidings.model import limits
from tidings.model.entries import Deletion
from tidings.model.ids import rfc3339
from tidings.model.refusals import (
    CursorInvalid,
    ExportGone,
    ExportUnfinished,
    JobNotFound,
    QueueUnavailable,
    TenantNotFound,
    UserDeleted,
    UserNotFound,
)
from tidings.ports.bus import DeadLetter
from tidings.ports.tenant_jobs import JobKind, JobState, TenantJob

TAG: Final = "Jobs"


class JobProgress(msgspec.Struct):
    """Progress of the deletion of a chat: `done` is the number of entries in its log whose content
    is removed, and `of` is the number of all entries."""

    done: int
    of: int


class JobRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job of a tenant. `chat_id`, `user_id` or `inbox` names what the job deletes or exports. A
    finished job that deletes a user has a `receipt`; one that exports a user has a `download`, the
    path of the export, which exists until `expires_at`. From phase `members_removed` on, nobody can
    read the chat that a job deletes."""

    job: str
    kind: Literal["chat.delete"] | JobKind
    state: JobState
    phase: str
    counts: dict[str, int]
    chat_id: str | None = None
    user_id: str | None = None
    inbox: str | None = None
    progress: JobProgress | None = None
    receipt: str | None = None
    download: str | None = None
    expires_at: str | None = None
    created_at: str
    updated_at: str


@operation(
    "GET",
    "/v1/tenants/{tenant}/jobs/{job_id}",
    tag=TAG,
    summary="Get a job",
    key="tenant",
    refusals=(TenantNotFound, JobNotFound),
)
async def get_job(caller: Caller, tenant: str, job_id: str, job_verbs: JobVerbs) -> JobRecord:
    """Return the job. Its state is `running` until its phase is `done`. A job that deletes a chat
    has the phases `started`, `members_removed`, `keys_removed`, `done`; a job that deletes a user
    has `started`, `marked`, `sessions_removed`, `content_erased`, `files_removed`,
    `invites_removed`, `blocks_removed`, `chats_left`, `settling`, `done`."""
    return job_record(await job_verbs.get(caller, tenant, job_id))


def job_record(job: Deletion | TenantJob) -> JobRecord:
    """Return the public record of a job."""
    if isinstance(job, TenantJob):
        return _tenant_job_record(job)
    return JobRecord(
        job=job.job_id,
        kind="chat.delete",
        state="done" if job.phase == "done" else "running",
        chat_id=job.chat_id,
        phase=job.phase,
        counts={"entries_emptied": job.emptied},
        progress=JobProgress(job.emptied, job.entries),
        created_at=rfc3339(job.created_at),
        updated_at=rfc3339(job.updated_at),
    )


def _tenant_job_record(job: TenantJob) -> JobRecord:
    export = result_of(job) if job.kind == "user.export" else None
    download = f"/v1/tenants/{job.tenant}/jobs/{job.job_id}/download"
    return JobRecord(
        job=job.job_id,
        kind=cast(JobKind, job.kind),
        state=job.state,
        phase=job.phase,
        counts=job.counts,
        user_id=job.subject if job.kind.startswith("user.") else None,
        inbox=job.subject if job.kind.startswith("inbox.") else None,
        receipt=job.result if job.kind == "user.delete" else None,
        download=download if export is not None else None,
        expires_at=rfc3339(export.expires_at) if export is not None else None,
        created_at=rfc3339(job.created_at),
        updated_at=rfc3339(job.updated_at),
    )


class StartedExport(msgspec.Struct):
    """The job that gathers an export."""

    job: str


@operation(
    "GET",
    "/v1/tenants/{tenant}/users/{user_id}/export",
    tag=TAG,
    summary="Export the data of a user",
    key="tenant",
    statuses=(202,),
    refusals=(TenantNotFound, UserNotFound, UserDeleted),
    audit=Audited(),
    cost=rate_limits.EXPORT_COST,
)
async def export_user(
    caller: Caller, tenant: str, user_id: str, exports: PersonExports
) -> StartedExport:
    """Start a job that gathers the stored data of a user. While it runs, a repeated request returns
    the same job. Afterwards, a request starts another one, which replaces the earlier export. The
    finished job has a `download`."""
    return StartedExport((await exports.start(caller, tenant, user_id)).job_id)


class DownloadQuery(Query, frozen=True):
    """Which part of the export to return."""

    cursor: str | None = None


class ExportRecords(msgspec.Struct):
    """A part of an export; `next_cursor` is null in the last part. The `kind` of a record is
    `profile`, `session`, `push_device`, `block`, `scheduled`, `membership`, `message`, `reaction`,
    `preferences`, `notification` or `audit`."""

    data: list[msgspec.Raw]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/jobs/{job_id}/download",
    tag=TAG,
    summary="Download the export of a user",
    key="tenant",
    refusals=(TenantNotFound, JobNotFound, ExportUnfinished, ExportGone, CursorInvalid),
    audit=Audited(),
)
async def download_export(
    caller: Caller, tenant: str, job_id: str, asked: DownloadQuery, exports: PersonExports
) -> ExportRecords:
    """Return a part of a finished export. The export is removed 7 days after it was requested."""
    return ExportRecords(*await exports.part(caller, tenant, job_id, asked.cursor))


class AsideQuery(Query, frozen=True):
    """Which page of the failed delivery jobs to return."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class AsideRecord(msgspec.Struct):
    """A delivery job that failed too often, with its notification, its users and the reason."""

    id: str
    tenant: str
    inbox: str
    notification_id: str
    users: list[str]
    reason: str
    set_aside_at: str


class AsideList(msgspec.Struct):
    """A page of dead letters; `next_cursor` is null on the last page."""

    data: list[AsideRecord]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/jobs/aside",
    tag=TAG,
    summary="List dead letters",
    key="root",
    refusals=(CursorInvalid,),
)
async def list_jobs_aside(
    caller: Caller, asked: AsideQuery, dead_letters: DeadLetterJobs
) -> AsideList:
    """Return the delivery jobs that failed too often, oldest notification first."""
    require_root(caller)
    page, cursor = await dead_letters.page(asked.cursor, asked.limit)
    return AsideList([_record(dead_letter) for dead_letter in page], cursor)


@operation(
    "POST",
    "/v1/jobs/aside/{aside_id}/replay",
    tag=TAG,
    summary="Replay a dead letter",
    key="root",
    statuses=(202,),
    refusals=(JobNotFound, QueueUnavailable),
)
async def replay_job(caller: Caller, aside_id: str, dead_letters: DeadLetterJobs) -> AsideRecord:
    """Put a dead letter back into the queue. Users who already have a copy do not get a second
    one."""
    require_root(caller)
    return _record(await dead_letters.replay(aside_id))


@operation(
    "DELETE",
    "/v1/jobs/aside/{aside_id}",
    tag=TAG,
    summary="Drop a dead letter",
    key="root",
    statuses=(204,),
    refusals=(JobNotFound,),
)
async def drop_job(caller: Caller, aside_id: str, dead_letters: DeadLetterJobs) -> None:
    """Drop a dead letter for good. The progress of its notification will never show that all users
    have received it."""
    require_root(caller)
    await dead_letters.drop(aside_id)


def _record(dead_letter: DeadLetter) -> AsideRecord:
    job = dead_letter.job
    return AsideRecord(
        id=dead_letter.aside_id,
        tenant=job.tenant,
        inbox=job.inbox,
        notification_id=job.notification_id,
        users=list(job.users),
        reason=dead_letter.reason,
        set_aside_at=rfc3339(dead_letter.at),
    )


OPERATIONS: Final = (list_jobs_aside, replay_job, drop_job, get_job, export_user, download_export)
