# SPDX-License-Identifier: Apache-2.0
"""Operations on jobs: progress of chat deletions for tenants, and dead letters for operators."""

from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller, require_root
from tidings.actions.inbox.posted import DeadLetterJobs
from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import Limit
from tidings.api.operations import operation
from tidings.api.requests import Query
from tidings.model import limits
from tidings.model.entries import Deletion, Phase
from tidings.model.ids import rfc3339
from tidings.model.refusals import CursorInvalid, JobNotFound, QueueUnavailable, TenantNotFound
from tidings.ports.bus import DeadLetter

TAG: Final = "Jobs"


class JobProgress(msgspec.Struct):
    """`done` is the number of entries in the chat's log that are empty already, and `of` is the
    number of all entries."""

    done: int
    of: int


class JobRecord(msgspec.Struct):
    """A job that deletes a chat. From phase `members_removed` on, nobody can read the chat."""

    job: str
    kind: Literal["chat.delete"]
    chat_id: str
    phase: Phase
    progress: JobProgress
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
async def get_job(caller: Caller, tenant: str, job_id: str, verbs: ChatVerbs) -> JobRecord:
    """Return the job. Its phase is `started`, `members_removed`, `keys_removed`, then `done`."""
    return job_record(await verbs.job(caller, tenant, job_id))


def job_record(job: Deletion) -> JobRecord:
    """Return the public record of a job."""
    return JobRecord(
        job=job.job_id,
        kind="chat.delete",
        chat_id=job.chat_id,
        phase=job.phase,
        progress=JobProgress(job.emptied, job.entries),
        created_at=rfc3339(job.created_at),
        updated_at=rfc3339(job.updated_at),
    )


class AsideQuery(Query, frozen=True):
    """Which part of the list to return."""

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


OPERATIONS: Final = (list_jobs_aside, replay_job, drop_job, get_job)
