# SPDX-License-Identifier: Apache-2.0
"""Notify users of notifications in their inboxes: listed users at once, everybody in a job."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.preferences import Reachable
from tidings.actions.inbox.showing import NotificationReader, OpenedNotification
from tidings.actions.push.journal import NOTIFICATION, PushJournal, notification_subject
from tidings.actions.push.noticing import Badges
from tidings.actions.push.sending import SendPush
from tidings.metrics import declared
from tidings.model.ids import UserKey
from tidings.model.inbox_reading import is_for
from tidings.model.limits import SECOND_MS
from tidings.model.notifications import Broadcast
from tidings.model.push_rules import shortened
from tidings.model.refusals import Unavailable
from tidings.ports.push import COLLAPSE_KEY_BYTES_MAX, PushNotice, PushStore
from tidings.ports.tenant_jobs import NotYet, TenantJob
from tidings.ports.world import Clock

USERS_AT_ONCE: Final = 100
"""Number of users whose preferences are read together. A step of a job notifies this many users,
and there is one step per second."""
SENDS_AT_ONCE: Final = 25
SEND_SECONDS_MAX: Final = 20.0
"""Time limit for the notices of one such group of users. A push service that answers late would
otherwise delay the jobs of other tenants, and another process would begin the same step when the
lease of the job has ended."""


class NotifyInbox(msgspec.Struct, frozen=True):
    """Notify users of a notification, as far as their preferences allow it now."""

    send: SendPush
    reachable: Reachable
    showing: NotificationReader
    views: LogViews
    badges: Badges
    clock: Clock

    @property
    def journal(self) -> PushJournal:
        """The journal in which it is kept what became of the notices."""
        return self.send.journal

    async def listed(
        self, tenant: str, inbox: str, notification_id: str, users: Sequence[UserKey]
    ) -> int:
        """Notify users who just got a copy of a notification; return how many were notified.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        reached = [user for user in users if await self.send.is_reachable(user)]
        if not reached:
            return 0
        shown = await self.showing.copy_text(tenant, inbox, notification_id)
        return 0 if shown is None else await self.notify(tenant, inbox, shown, reached)

    async def notify(
        self, tenant: str, inbox: str, shown: OpenedNotification, users: Sequence[UserKey]
    ) -> int:
        """Notify reachable users of a notification; return how many were notified."""
        notified = 0
        for start in range(0, len(users), USERS_AT_ONCE):
            some, now = users[start : start + USERS_AT_ONCE], self.clock.now()
            times = await self.reachable.times("push", some, inbox, shown.category, now)
            wanting = [user for user, at in times.items() if at == now]
            self._skip(some, times, now, notification_subject(inbox, shown.notification_id))
            view = await self.views.now(tenant, inbox)
            if view.is_retracted(shown.notification_id):
                break
            notice = await self._notice(tenant, inbox, shown)
            still = partial(self._is_wanted, tenant, inbox, shown)
            notified += await self._send_all(wanting, notice, still)
        return notified

    def _skip(
        self, users: Sequence[UserKey], times: Mapping[UserKey, int], now: int, about: str
    ) -> None:
        """Keep in the journal who does not want to be notified of a notification, or not now."""
        unwanted = [user for user in users if user not in times]
        self.journal.skipped(unwanted, about, NOTIFICATION, "unwanted")
        quiet = [user for user, at in times.items() if at != now]
        self.journal.skipped(quiet, about, NOTIFICATION, "quiet")

    async def _is_wanted(
        self, tenant: str, inbox: str, shown: OpenedNotification, user: UserKey
    ) -> bool:
        """Return True if a user is still to be notified, before another attempt."""
        now = self.clock.now()
        times = await self.reachable.times("push", [user], inbox, shown.category, now)
        view = await self.views.now(tenant, inbox)
        return times.get(user) == now and not view.is_retracted(shown.notification_id)

    async def _send_all(
        self,
        users: Sequence[UserKey],
        notice: PushNotice,
        still: Callable[[UserKey], Awaitable[bool]],
    ) -> int:
        """Notify users as far as the time suffices; return how many were notified."""
        done: list[UserKey] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(SEND_SECONDS_MAX):
                for start in range(0, len(users), SENDS_AT_ONCE):
                    async with asyncio.TaskGroup() as group:
                        for user in users[start : start + SENDS_AT_ONCE]:
                            group.create_task(self._send(user, notice, still, done))
        if late := set(users) - set(done):
            declared.push.counts["dropped"] += len(late)
            self.journal.lost(late, _about(notice), NOTIFICATION, "dropped")
        return len(done)

    async def _send(
        self,
        user: UserKey,
        notice: PushNotice,
        still: Callable[[UserKey], Awaitable[bool]],
        done: list[UserKey],
    ) -> None:
        badge = await self.badges.of(user)
        try:
            badged = msgspec.structs.replace(notice, badge=badge)
            if not await self.send(user, badged, still=partial(still, user)):
                self.journal.unregistered(user, notice)
        except Unavailable:
            # The others are notified nevertheless; a repeat would notify some of them twice.
            declared.push.counts["failed"] += 1
            self.journal.lost((user,), _about(notice), NOTIFICATION, "failed")
        done.append(user)

    async def _notice(self, tenant: str, inbox: str, shown: OpenedNotification) -> PushNotice:
        title = body = None
        if (await self.send.directory.tenant(tenant)).content == "preview":
            title, body = (shown.text.message.get(name) for name in ("title", "body"))
        return PushNotice(
            kind="notification",
            data={"inbox": inbox, "notification_id": shown.notification_id},
            collapse_key=f"{inbox}.{shown.notification_id}"[-COLLAPSE_KEY_BYTES_MAX:],
            title=shortened(title) if isinstance(title, str) else None,
            body=shortened(body) if isinstance(body, str) else None,
        )


def _about(notice: PushNotice) -> str:
    return notification_subject(notice.data["inbox"], notice.data["notification_id"])


class PushToEveryone(msgspec.Struct, frozen=True):
    """The job that notifies all registered users of a tenant of a broadcast.

    A step notifies up to a hundred users, and there is one step in a second. If a process dies in a
    step, its users may be notified again; the notice then replaces the first one on the device.
    """

    store: PushStore
    notify: NotifyInbox
    clock: Clock

    async def step(self, job: TenantJob) -> TenantJob:
        due = job.updated_at + SECOND_MS
        if job.cursor is not None and self.clock.now() < due:
            raise NotYet(due)
        inbox, _, sequence = job.subject.rpartition(":")
        broadcast = await self._broadcast(job.tenant, inbox, int(sequence))
        shown = None
        if broadcast is not None:
            shown = await self.notify.showing.broadcast_text(broadcast)
        if broadcast is None or shown is None:
            return msgspec.structs.replace(job, state="done", phase="done", cursor=None)
        page = await self.store.of_tenant(job.tenant, after=job.cursor, limit=USERS_AT_ONCE)
        after = await self._without_repeats(broadcast, [one.user_id for one in page.rows], job)
        notified = await self.notify.notify(job.tenant, inbox, shown, after)
        job = job.counting(notified=notified)
        if page.end is None:
            return msgspec.structs.replace(job, state="done", phase="done", cursor=None)
        return msgspec.structs.replace(job, cursor=page.end)

    async def _without_repeats(
        self, broadcast: Broadcast, users: Sequence[UserKey], job: TenantJob
    ) -> list[UserKey]:
        """Return each user once, without those whom the broadcast does not concern. The user with
        whom the step before ended is left out too, because all devices of a user are notified
        together."""
        before = f"{job.tenant}:{(job.cursor or '').partition('#')[0]}"
        found = []
        for user in dict.fromkeys(users):
            joined_at = await self.notify.showing.joined_at(user)
            if user != before and (broadcast.late_joiners or is_for(broadcast, joined_at)):
                found.append(user)
        return found

    async def _broadcast(self, tenant: str, inbox: str, sequence: int) -> Broadcast | None:
        view = await self.notify.views.get(tenant, inbox, age_ms=0)
        found = next((one for one in view.broadcasts if one.sequence == sequence), None)
        if found is None or view.is_retracted(found.notification_id):
            return None
        return found
