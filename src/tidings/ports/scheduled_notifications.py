# SPDX-License-Identifier: Apache-2.0
"""Port for notifications that wait for their time of delivery.

The notification itself is stored like every other, with the time of delivery as its time of
posting. This port stores what else is needed at that time.
"""

from collections.abc import Sequence
from typing import Protocol

from tidings.model.notifications import Notification
from tidings.ports.bus import Job
from tidings.ports.due import Due


def due_of_notification(notification: Notification, now: int) -> Due:
    """Return the item that says when a notification is due."""
    return Due(
        kind="inbox",
        at=notification.posted_at,
        item_id=notification.notification_id,
        subject=notification.inbox,
        tenant=notification.tenant,
        made_at=now,
    )


def due_of_job(job: Job) -> Due:
    """Return the item that says when the notification of a waiting job is due."""
    return Due(
        kind="inbox",
        at=job.posted_at,
        item_id=job.notification_id,
        subject=job.inbox,
        tenant=job.tenant,
        made_at=job.posted_at,
    )


class ScheduledNotifications(Protocol):
    """Stores delivery jobs until their time, and what became of scheduled broadcasts.

    Every write is durable when it returns, and safe to repeat.
    """

    async def hold(self, jobs: Sequence[Job]) -> None:
        """Store delivery jobs of a notification, which are queued at its time."""
        ...

    async def held(
        self, tenant: str, inbox: str, notification_id: str, limit: int
    ) -> Sequence[Job]:
        """Return the first jobs of a notification that still wait, from a strong read."""
        ...

    async def release(self, jobs: Sequence[Job]) -> None:
        """Remove jobs that are in the queue, or that are not needed any more."""
        ...

    async def begin(self, tenant: str, inbox: str, notification_id: str, head: int) -> int | None:
        """Store the head of the log before a scheduled broadcast is appended for the first time.

        Returns the head that was stored first; None if there is no such notification.
        """
        ...

    async def finish(self, tenant: str, inbox: str, notification_id: str, sequence: int) -> None:
        """Store the sequence of a scheduled broadcast in the log, which has its content now."""
        ...

    async def fail(self, tenant: str, inbox: str, notification_id: str) -> None:
        """Store that the delivery of a notification was given up."""
        ...
