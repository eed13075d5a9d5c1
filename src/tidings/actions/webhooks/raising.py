# SPDX-License-Identifier: Apache-2.0
"""Raises events about users and notifications when the work that they report is done."""

from collections.abc import Awaitable, Callable

import msgspec

from tidings.actions.inbox.posted import PostProgress
from tidings.actions.webhooks.events import TenantEvents
from tidings.model.notifications import Broadcast
from tidings.ports.bus import Job
from tidings.ports.tenant_jobs import JobSteps, TenantJob


class RaiseUserDeleted(msgspec.Struct, frozen=True):
    """Performs the steps of a job that deletes a user, and raises `user.deleted` with the last."""

    steps: JobSteps
    events: TenantEvents

    async def step(self, job: TenantJob) -> TenantJob:
        """Do the next step. The event is raised before the job is stored as done."""
        after = await self.steps.step(job)
        if after.state == "done" and job.state != "done":
            data = {"user_id": job.subject, "job": job.job_id}
            await self.events(job.tenant, "user.deleted", data)
        return after


class RaiseDelivered(msgspec.Struct, frozen=True):
    """Raises `notification.delivered` when the last delivery job of a notification is done."""

    progress: Callable[[str, str, str], Awaitable[PostProgress]]
    events: TenantEvents

    async def __call__(self, job: Job) -> None:
        """Raise the event if no job of the notification is left, with the number of its users."""
        if not self.events.is_wanted(job.tenant, "notification.delivered"):
            return
        found = await self.progress(job.tenant, job.inbox, job.notification_id)
        if found.delivered < found.recipients:
            return
        data = {
            "inbox": job.inbox,
            "notification_id": job.notification_id,
            "recipients": found.recipients,
            "delivered": found.delivered,
        }
        await self.events(job.tenant, "notification.delivered", data)


class RaiseBroadcastDelivered(msgspec.Struct, frozen=True):
    """Raises `notification.delivered` when a broadcast is appended to the log of its inbox."""

    events: TenantEvents

    async def __call__(self, broadcast: Broadcast) -> None:
        """Raise the event, unless the entry is a retraction."""
        if broadcast.kind == "broadcast":
            data = {
                "inbox": broadcast.inbox,
                "notification_id": broadcast.notification_id,
                "recipients": broadcast.recipients,
                "delivered": broadcast.recipients,
            }
            await self.events(broadcast.tenant, "notification.delivered", data)
