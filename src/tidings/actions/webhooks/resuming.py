# SPDX-License-Identifier: Apache-2.0
"""Starts the job that finds what an endpoint has missed while it was disabled."""

from typing import Final

from tidings.actions.jobs.starting import StartJob
from tidings.caches import LruCache
from tidings.model.limits import SECOND_MS
from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.world import Clock

STARTED_MS: Final = 30 * SECOND_MS
"""Time within which the process that enables an endpoint starts the job, unless it dies."""
REMEMBERED_MAX: Final = 10_000


class ResumeEndpoints:
    """Starts the job of an endpoint that is enabled again, and makes sure that it was stored."""

    def __init__(self, start_job: StartJob, clock: Clock) -> None:
        self._start_job = start_job
        self._clock = clock
        self._asked: LruCache[str, int] = LruCache(REMEMBERED_MAX)
        """For some endpoints, the change after which this process made sure of the job."""

    async def __call__(self, endpoint: WebhookEndpoint) -> None:
        """Start the job of an endpoint that is resuming, unless the job exists already.

        Raises:
            StoreUnavailable: The job may not be stored.
        """
        job_id = resume_job_id(endpoint)
        begin = endpoint.since if endpoint.resumes_from is None else endpoint.resumes_from
        cursor = f"{begin} {endpoint.updated_at}"
        name = endpoint.webhook_id
        await self._start_job(endpoint.tenant, "webhook.resume", name, job_id, cursor)

    async def make_sure(self, endpoint: WebhookEndpoint) -> int | None:
        """Start the job if it may be missing. Without it, nothing would ever be delivered.

        Returns the milliseconds after which this must be asked again, because the process that
        enabled the endpoint may still start the job; None if the job exists.

        Raises:
            StoreUnavailable: The job may not be stored.
        """
        if self._asked.get(endpoint.place) == endpoint.updated_at:
            return None
        wait_ms = endpoint.updated_at + STARTED_MS - self._clock.now()
        if wait_ms > 0:
            return wait_ms
        await self(endpoint)
        self._asked.put(endpoint.place, endpoint.updated_at)
        return None


def resume_job_id(endpoint: WebhookEndpoint) -> str:
    """Return the id of the job that finds what an endpoint has missed. While the endpoint is
    resuming, a change of its address or events is a reason for another job."""
    return f"resume-webhook-{endpoint.webhook_id}-{endpoint.updated_at}"
