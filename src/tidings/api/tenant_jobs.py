# SPDX-License-Identifier: Apache-2.0
"""Jobs of a tenant: work that continues after the answer, and its progress."""

from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller
from tidings.actions.verbs import ChatVerbs
from tidings.api.operations import operation
from tidings.model.deletions import Deletion, Phase
from tidings.model.refusals import JobNotFound, TenantNotFound
from tidings.model.times import rfc3339

TAG: Final = "Jobs"


class JobProgress(msgspec.Struct):
    """How many entries of the chat's log are emptied, and how many there are."""

    done: int
    of: int


class JobRecord(msgspec.Struct):
    """A job that deletes a chat. From `members_removed` on nobody can read the chat."""

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


OPERATIONS: Final = (get_job,)
