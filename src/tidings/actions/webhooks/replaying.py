# SPDX-License-Identifier: Apache-2.0
"""The jobs that deliver the events of a period to an endpoint: once more, or for the first time."""

from typing import Final

import msgspec

from tidings.actions.webhooks.attempts import first_since
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.reminders import Reminders
from tidings.actions.webhooks.resuming import resume_job_id
from tidings.model.ids import ChatId
from tidings.model.limits import SECOND_MS
from tidings.model.webhooks import EVENT_LOG, REPLAYED, OwedStream, WebhookEndpoint
from tidings.ports.chats import Chats
from tidings.ports.log import Log
from tidings.ports.tenant_jobs import TenantJob
from tidings.ports.webhooks import WebhookQueue, Webhooks

CHATS_IN_STEP: Final = 25
SLACK_MS: Final = 10 * SECOND_MS
"""A job that resumes an endpoint begins this much before the endpoint was disabled, and ends this
much after it was enabled, because other processes learn of it later. Some events come twice."""


class ReplayEvents:
    """Goes through the chats of a tenant, newest first, and stores that the endpoint is owed their
    events.

    The cursor of a job consists of the period and the position in the list of chats.
    """

    def __init__(
        self,
        store: Webhooks,
        directory: WebhookDirectory,
        queue: WebhookQueue,
        remind: Reminders,
        chats: Chats,
        log: Log,
    ) -> None:
        self._store = store
        self._directory = directory
        self._queue = queue
        self._remind = remind
        self._chats = chats
        self._log = log

    async def step(self, job: TenantJob) -> TenantJob:
        """Do the next part of the job; an endpoint that is deleted meanwhile ends it."""
        found = await self._store.of(job.tenant)
        endpoint = next((one for one in found if one.webhook_id == job.subject), None)
        if endpoint is None:
            return _done(job)
        await self._remind(endpoint)
        if _is_superseded(job, endpoint):
            return _done(job)
        first, last, below = _parts(job)
        page = await self._chats.of_tenant(job.tenant, below=below or None, limit=CHATS_IN_STEP)
        heads = await self._chats.heads([one.chat_id for one in page.rows])
        for chat, head in heads.items():
            owed = await self._owed(job, chat, head, first, last)
            if owed is not None:
                await self._queue.owe(endpoint.place, owed)
                job = job.counting(chats=1, events=owed.head - owed.sent)
        if page.end is not None:
            return msgspec.structs.replace(job, cursor=f"{first} {last} {page.end}")
        await self._queue.owe(endpoint.place, _own_events(job, first, last))
        return _done(job) if await self._is_finished(job, endpoint) else job

    async def _owed(
        self, job: TenantJob, chat: ChatId, head: int, first: int, last: int
    ) -> OwedStream | None:
        begin = await first_since(self._log, chat, head, first)
        end = await first_since(self._log, chat, head, last + 1) - 1
        stream = REPLAYED + chat if job.kind == "webhook.replay" else chat
        return OwedStream(stream, begin - 1, end) if begin <= end else None

    async def _is_finished(self, job: TenantJob, endpoint: WebhookEndpoint) -> bool:
        """End the resumption of the endpoint, so that its events are delivered again. Return False
        if the endpoint was changed meanwhile. The last step is then repeated, because nothing else
        would end the resumption."""
        if job.kind == "webhook.resume" and endpoint.is_resuming:
            after = msgspec.structs.replace(
                endpoint, is_resuming=False, revision=endpoint.revision + 1
            )
            if not await self._store.change(endpoint, after):
                return False
        # A process that found an earlier reminder while the job ran has done nothing.
        await self._remind(endpoint)
        self._directory.forget(endpoint.tenant)
        return True


def _is_superseded(job: TenantJob, endpoint: WebhookEndpoint) -> bool:
    """Return True if the endpoint was changed while it is resuming. Another job finds all events
    then, and lets the endpoint go on; otherwise the endpoint would get some events twice."""
    is_resume = job.kind == "webhook.resume" and endpoint.is_resuming
    return is_resume and job.job_id != resume_job_id(endpoint)


def _parts(job: TenantJob) -> tuple[int, int, str]:
    first, last, below = f"{job.cursor} ".split(" ")[:3]
    slack = SLACK_MS if job.kind == "webhook.resume" and not below else 0
    return int(first) - slack, int(last) + slack, below


def _own_events(job: TenantJob, first: int, last: int) -> OwedStream:
    """Return the events of the tenant's event log, whose sequences are their times."""
    stream = REPLAYED + EVENT_LOG if job.kind == "webhook.replay" else EVENT_LOG
    return OwedStream(stream, max(0, first - 1), last)


def _done(job: TenantJob) -> TenantJob:
    return msgspec.structs.replace(job.at("done"), state="done")
