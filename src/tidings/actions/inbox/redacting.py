# SPDX-License-Identifier: Apache-2.0
"""Taking a notification back, and how far one has got."""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Literal

import msgspec

from tidings.actions.inbox.announcing import BroadcastAppender
from tidings.actions.inbox.log_views import LogViews
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationTexts
from tidings.model import limits
from tidings.model.notifications import (
    NOTIFICATION,
    Broadcast,
    Notification,
    broadcast_sequence,
)
from tidings.model.refusals import NotificationNotFound
from tidings.ports.bus import Bus, Retracted
from tidings.ports.inboxes import Notifications
from tidings.ports.world import Chance, Clock

Status = Literal["queued", "running", "done", "redacted"]


class PostProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a notification has got."""

    notification_id: str
    status: Status
    recipients: int
    delivered: int
    label: str | None
    """What the tenant called the audience; None if it did not, or once it was taken back."""


@dataclass(frozen=True, slots=True)
class FindNotification:
    """A notification as it was posted, whichever way."""

    configs: InboxConfigs
    notifications: Notifications
    clock: Clock

    async def __call__(
        self, tenant: str, inbox: str, notification_id: str
    ) -> Notification | Broadcast:
        """The notification.

        Raises:
            InboxNotFound, NotificationNotFound: There is none, or it has expired.
        """
        await self.configs.get(tenant, inbox)
        found = await self._read(tenant, inbox, notification_id)
        if found is None or found.expires_at <= self.clock.now():
            raise NotificationNotFound
        return found

    async def _read(
        self, tenant: str, inbox: str, notification_id: str
    ) -> Notification | Broadcast | None:
        if NOTIFICATION.fullmatch(notification_id) is None:
            return None
        sequence = broadcast_sequence(notification_id)
        if sequence is None:
            found = await self.notifications.get(tenant, inbox, [notification_id])
            return found[0] if found else None
        entries = await self.notifications.announcements(tenant, inbox, after=sequence - 1, limit=1)
        is_there = entries and entries[0].sequence == sequence and entries[0].kind == "broadcast"
        return entries[0] if is_there else None


@dataclass(frozen=True, slots=True)
class GetProgress:
    """How many of its users have a notification. Counted from what is done, never incremented."""

    find: FindNotification
    notifications: Notifications
    views: LogViews
    texts: NotificationTexts

    async def __call__(self, tenant: str, inbox: str, notification_id: str) -> PostProgress:
        found = await self.find(tenant, inbox, notification_id)
        view = await self.views.get(tenant, inbox)
        is_gone = found.box is None or view.is_retracted(notification_id)
        if isinstance(found, Broadcast):
            delivered, name = found.recipients, found.mark
        else:
            delivered, name = await self._delivered(found), notification_id
        status: Status = "redacted"
        if not is_gone:
            status = _status(delivered, found.recipients, isinstance(found, Broadcast))
        text = None
        if not is_gone:
            text = await self.texts.open(tenant, inbox, name, found.box, found.box_key)
        return PostProgress(
            notification_id=notification_id,
            status=status,
            recipients=found.recipients,
            delivered=delivered,
            label=text.label if text else None,
        )

    async def _delivered(self, found: Notification) -> int:
        finished = await self.notifications.finished_jobs(
            found.tenant, found.inbox, found.notification_id
        )
        return delivered_by(finished, found.recipients)


@dataclass(frozen=True, slots=True)
class RedactNotification:
    """Take a notification back: whoever looks after the answer sees nothing of it."""

    find: FindNotification
    notifications: Notifications
    views: LogViews
    announce: BroadcastAppender
    bus: Bus
    clock: Clock
    chance: Chance

    async def __call__(self, tenant: str, inbox: str, notification_id: str) -> None:
        """For good. Again, it answers the same and changes nothing.

        Raises:
            InboxNotFound, NotificationNotFound: There is none, or it has expired.
            StoreUnavailable, InboxBusy: Unknown outcome.
        """
        found = await self.find(tenant, inbox, notification_id)
        view = await self.views.get(tenant, inbox, age_ms=0)
        is_whole = found.box is not None
        if is_whole and not view.is_retracted(notification_id):
            await self.announce(
                self._retraction(found),
                after=view.head,
                is_same=lambda entry: entry.target == notification_id,
            )
        durable_at = monotonic()
        if is_whole:  # also what an earlier attempt left half done: twice does no harm
            self.bus.publish(Retracted(tenant, inbox, notification_id))
            await self._empty(found)
        await _until(durable_at + self.notifications.announcements_age_ms / limits.SECOND_MS)

    def _retraction(self, found: Notification | Broadcast) -> Broadcast:
        return Broadcast(
            tenant=found.tenant,
            inbox=found.inbox,
            sequence=0,
            kind="retraction",
            posted_at=self.clock.now(),
            mark=self.chance.token(8).hex(),
            expires_at=found.expires_at,
            target=found.notification_id,
        )

    async def _empty(self, found: Notification | Broadcast) -> None:
        if isinstance(found, Broadcast):
            await self.notifications.empty_announcement(found.tenant, found.inbox, found.sequence)
        else:
            await self.notifications.empty(found.tenant, found.inbox, found.notification_id)


def delivered_by(finished: set[int], recipients: int) -> int:
    """How many users the finished jobs stand for: a hundred each, the last one the rest."""
    last, rest = divmod(recipients - 1, limits.JOB_USERS_MAX)
    return sum(rest + 1 if number == last else limits.JOB_USERS_MAX for number in finished)


def _status(delivered: int, recipients: int, is_for_everyone: bool) -> Status:
    if is_for_everyone or delivered >= recipients:
        return "done"
    return "running" if delivered else "queued"


async def _until(time: float) -> None:
    # A loop may count a pause from when its turn began: what is left is waited for again.
    while (left := time - monotonic()) > 0:  # noqa: ASYNC110 - time is what it waits for
        await asyncio.sleep(left)
