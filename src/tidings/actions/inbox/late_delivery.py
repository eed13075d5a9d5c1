# SPDX-License-Identifier: Apache-2.0
"""Deliver notifications at the time that their posts gave."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.actions.inbox.settings import InboxConfigs, Settings
from tidings.actions.inbox.showing import NotificationTexts
from tidings.model.notifications import Broadcast, Notification, late_key
from tidings.model.refusals import InboxNotFound, QueueUnavailable
from tidings.model.scheduled import SETTLE_MS
from tidings.ports.bus import BroadcastPosted, Bus, Job, Jobs, JobsUnavailable
from tidings.ports.due import Due
from tidings.ports.inboxes import Notifications
from tidings.ports.people import UserStore
from tidings.ports.scheduled_notifications import ScheduledNotifications
from tidings.ports.tenant_jobs import NotYet
from tidings.ports.world import Chance, Clock

JOBS_AT_ONCE: Final = 100


class DeliverLate(msgspec.Struct, frozen=True):
    """Delivers a notification that is due: a single job at once, several by the queue that workers
    share, and a broadcast by appending it.

    A job that is done at once takes the turn of its tenant. In the queue it would wait behind the
    jobs of other tenants. A repeat has no further effect: a job that runs twice delivers nothing
    twice, and the broadcast is found in the log.
    """

    configs: InboxConfigs
    settings: Settings
    notifications: Notifications
    scheduled: ScheduledNotifications
    jobs: Jobs
    deliver: Callable[[Job], Awaitable[None]]
    users: UserStore
    texts: NotificationTexts
    views: LogViews
    append_broadcast: BroadcastAppender
    bus: Bus
    clock: Clock
    chance: Chance

    async def do(self, due: Due) -> bool:
        """Deliver the notification that is due, unless it was retracted or its inbox deleted.

        Returns False if the notification is not there; the same request may store it yet.

        Raises:
            NotYet: The notification may be one that is still being stored.
            Unavailable: The notification must be delivered again later.
        """
        tenant, inbox, name = due.tenant, due.subject, due.item_id
        found = await self.notifications.get(tenant, inbox, [name])
        if not found and self.clock.now() < due.made_at + SETTLE_MS:
            raise NotYet(due.made_at + SETTLE_MS)
        view = await self.views.get(tenant, inbox, age_ms=0)
        is_gone = not found or found[0].is_retracted or not await self._has_inbox(tenant, inbox)
        if is_gone or view.hides(name, found[0].expires_at, self.clock.now()):
            await release_all(self.scheduled, tenant, inbox, name)
        elif not found[0].everyone:
            await self._deliver(found[0])
        elif found[0].sequence is None:
            await self._append(found[0], view.head)
        return bool(found)

    async def give_up(self, due: Due) -> None:
        """Mark the notification as failed, because its delivery failed unexpectedly several
        times."""
        name = due.tenant, due.subject, due.item_id
        await self.scheduled.fail(*name)
        await release_all(self.scheduled, *name)

    async def _has_inbox(self, tenant: str, inbox: str) -> bool:
        try:
            await self.configs.get(tenant, inbox)
        except InboxNotFound:
            return False
        return True

    async def _deliver(self, found: Notification) -> None:
        name = found.tenant, found.inbox, found.notification_id
        jobs = await self.scheduled.held(*name, JOBS_AT_ONCE)
        if len(jobs) == 1:
            await self.deliver(jobs[0])
            await self.scheduled.release(jobs)
            return
        while jobs:
            await self._queue(jobs)
            await self.scheduled.release(jobs)
            jobs = await self.scheduled.held(*name, JOBS_AT_ONCE)

    async def _queue(self, jobs: Sequence[Job]) -> None:
        try:
            await self.jobs.put(jobs)
        except JobsUnavailable:
            raise QueueUnavailable from None

    async def _append(self, found: Notification, head: int) -> None:
        tenant, inbox, name = found.tenant, found.inbox, found.notification_id
        after = await self.scheduled.begin(tenant, inbox, name, head)
        draft = await self._draft(found)
        if after is None or draft is None:
            return  # retracted or erased meanwhile
        entry, _ = await self.append_broadcast(
            draft,
            after=after,
            is_same=lambda entry: draft.key == entry.key or entry.target == name,
        )
        if entry.kind == "retraction":
            return
        await self.scheduled.finish(tenant, inbox, name, entry.sequence)
        self.bus.publish(BroadcastPosted(tenant, inbox, entry.sequence))

    async def _draft(self, found: Notification) -> Broadcast | None:
        tenant, inbox, name = found.tenant, found.inbox, found.notification_id
        text = await self.texts.open(tenant, inbox, name, found.box, found.box_key)
        if text is None:
            return None
        mark = self.chance.token(8).hex()
        sealed = await self.texts.seal(tenant, inbox, mark, text)
        _, late_joiners = await self.settings.terms(tenant, await self.configs.get(tenant, inbox))
        return Broadcast(
            tenant=tenant,
            inbox=inbox,
            sequence=0,
            kind="broadcast",
            posted_at=self.clock.now(),
            mark=mark,
            expires_at=found.expires_at,
            category=found.category,
            late_joiners=late_joiners,
            recipients=await self.users.about_how_many(tenant),
            key=late_key(name),
            collapse=found.collapse,
            box=sealed.box,
            box_key=sealed.box_key,
        )


async def release_all(
    scheduled: ScheduledNotifications, tenant: str, inbox: str, notification_id: str
) -> None:
    """Remove all waiting jobs of a notification that is not delivered."""
    while jobs := await scheduled.held(tenant, inbox, notification_id, JOBS_AT_ONCE):
        await scheduled.release(jobs)
