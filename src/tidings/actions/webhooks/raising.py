# SPDX-License-Identifier: Apache-2.0
"""Raises events about users and notifications when the work that they report is done."""

import msgspec

from tidings.actions.inbox.posted import delivered_by
from tidings.actions.webhooks.events import TenantEvents
from tidings.model.notifications import Broadcast
from tidings.ports.bus import Job
from tidings.ports.inboxes import Notifications
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
    """Raises `notification.delivered` when the last delivery job of a notification is done.

    Several jobs may find that none is left: those that end at the same moment, and one that runs
    again after a crash. The event is appended once.
    """

    notifications: Notifications
    events: TenantEvents

    async def __call__(self, job: Job) -> None:
        """Raise the event if no job of the notification is left, with the number of its users.

        It is also raised if the notification has expired meanwhile, but not if it was removed, for
        example with its inbox.

        Raises:
            StoreUnavailable: The event may or may not have been raised.
        """
        if not await self.events.endpoints(job.tenant, "notification.delivered"):
            return
        found = await self.notifications.get(job.tenant, job.inbox, [job.notification_id])
        if not found:
            return
        recipients = found[0].recipients
        finished = await self.notifications.finished_jobs(
            job.tenant, job.inbox, job.notification_id
        )
        delivered = delivered_by(finished, recipients)
        if delivered < recipients:
            return
        data = {
            "inbox": job.inbox,
            "notification_id": job.notification_id,
            "recipients": recipients,
            "delivered": delivered,
        }
        once = _delivered_name(job.inbox, job.notification_id)
        await self.events(job.tenant, "notification.delivered", data, once)


class RaiseBroadcastDelivered(msgspec.Struct, frozen=True):
    """Raises `notification.delivered` when a broadcast is appended to the log of its inbox."""

    events: TenantEvents

    async def __call__(self, broadcast: Broadcast) -> None:
        """Raise the event, unless the entry is a retraction.

        A repeated post finds its entry in the log, and raises what the first attempt could not.
        """
        if broadcast.kind == "broadcast":
            data = {
                "inbox": broadcast.inbox,
                "notification_id": broadcast.notification_id,
                "recipients": broadcast.recipients,
                "delivered": broadcast.recipients,
            }
            # Broadcasts of an inbox that is deleted and created again have the same ids.
            once = _delivered_name(broadcast.inbox, broadcast.mark)
            await self.events(broadcast.tenant, "notification.delivered", data, once)


def _delivered_name(inbox: str, name: str) -> str:
    """Return the name of the fact that a notification was delivered."""
    return f"notification.delivered {inbox} {name}"
