# SPDX-License-Identifier: Apache-2.0
"""Deliver a notification to a portion of its users, up to 100, by storing their copies.

A repeat does no harm: a user who already has a copy gets no second one, and a portion that is
finished twice is counted once.
"""

from collections.abc import Awaitable, Callable, Sequence

from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.preferences import Reachable
from tidings.metrics import declared
from tidings.model.ids import UserKey, user_key
from tidings.model.limits import SECOND_MS
from tidings.model.notifications import Copy
from tidings.model.push_rules import YOUNG_MS_MAX
from tidings.ports.bus import Bus, CopiesMade, Job
from tidings.ports.inboxes import Copies, DeliveredInPart, Notifications
from tidings.ports.world import Clock


class DeliverCopies:
    """Stores the copies of one delivery job, and tells the devices of its users."""

    def __init__(
        self,
        *,
        notifications: Notifications,
        copies: Copies,
        reachable: Reachable,
        views: LogViews,
        bus: Bus,
        clock: Clock,
        delivered: Callable[[Job], Awaitable[None]] | None = None,
    ) -> None:
        """Set up the deliveries; `delivered` is called after each job that is done."""
        self._notifications = notifications
        self._copies = copies
        self._reachable = reachable
        self._views = views
        self._bus = bus
        self._clock = clock
        self._delivered = delivered
        self._copied: list[Callable[[Job, Sequence[UserKey]], None]] = []

    def listen(self, copied: Callable[[Job, Sequence[UserKey]], None]) -> None:
        """Call `copied` with the users who have just got their copy."""
        self._copied.append(copied)

    async def __call__(self, job: Job) -> None:
        """Deliver a job, unless nobody is to see its notification any more.

        Raises:
            Unavailable: The job must be tried again later.
        """
        now = self._clock.now()
        view = await self._views.get(job.tenant, job.inbox)
        if not view.hides(job.notification_id, job.expires_at, now):
            await self._make_copies(job, now)
        await self._notifications.finish_job(job.tenant, job.inbox, job.notification_id, job.number)
        if self._delivered is not None:
            await self._delivered(job)
        took_ms = max(0, self._clock.now() - job.posted_at)
        declared.notification_seconds.of[()].observe(took_ms / SECOND_MS)

    async def _make_copies(self, job: Job, now: int) -> None:
        listed = [user_key(job.tenant, user) for user in job.users]
        users = await self._reachable.wanting(listed, job.inbox, job.category)
        copy = Copy(
            notification_id=job.notification_id,
            category=job.category,
            received_at=max(now, job.posted_at),
            expires_at=job.expires_at,
            collapse=job.collapse,
        )
        try:
            new = await self._copies.deliver(users, job.inbox, copy)
        except DeliveredInPart as part:
            self._notify(job, copy, part.new, part.new)
            raise
        # After a crash it is unknown who was notified of their copies. While the job is young, all
        # users are notified, also those who had a copy already.
        is_young = now - job.posted_at <= YOUNG_MS_MAX
        self._notify(job, copy, new, users if is_young else new)

    def _notify(
        self, job: Job, copy: Copy, new: Sequence[UserKey], connected: Sequence[UserKey]
    ) -> None:
        """Notify users who have just got their copy, and those of the others who are connected."""
        for copied in self._copied:
            copied(job, new)
        if connected:
            made = job.tenant, job.inbox, job.notification_id, copy.received_at, tuple(connected)
            self._bus.publish(CopiesMade(*made))
