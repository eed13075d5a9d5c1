# SPDX-License-Identifier: Apache-2.0
"""Find, list and retract posted notifications, report their delivery; manage dead letters."""

import asyncio
import re
from time import monotonic
from typing import Final, Literal

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.inbox.broadcast_log import BroadcastAppender, LogViews
from tidings.actions.inbox.late_delivery import release_all
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationTexts
from tidings.model import limits
from tidings.model.ids import UserKey, ulid_time
from tidings.model.inbox_reading import LogView
from tidings.model.notifications import (
    NOTIFICATION,
    Broadcast,
    Notification,
    Text,
    broadcast_sequence,
)
from tidings.model.refusals import (
    CursorInvalid,
    JobNotFound,
    NotificationNotFound,
    QueueUnavailable,
)
from tidings.ports.bus import Bus, DeadLetter, DeadLetters, Jobs, JobsUnavailable, Retracted
from tidings.ports.inboxes import Notifications
from tidings.ports.scheduled_notifications import ScheduledNotifications
from tidings.ports.world import Chance, Clock

ASIDE: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}-[0-9]{1,5}")

_KEPT_MS_MAX: Final = limits.KEEP_DAYS_MAX * limits.DAY_MS

Status = Literal["scheduled", "queued", "running", "done", "redacted", "restored", "failed"]


class DeadLetterJobs(msgspec.Struct, frozen=True):
    """Lists, replays and deletes dead letters of the delivery queue.

    It does not check rights; its callers do.
    """

    dead_letter: DeadLetters
    jobs: Jobs

    async def page(self, cursor: str | None, limit: int) -> tuple[list[DeadLetter], str | None]:
        """Return a page of dead letters and the cursor of the next page; None at the end.

        Raises:
            CursorInvalid: The cursor is malformed.
        """
        if cursor is not None and ASIDE.fullmatch(cursor) is None:
            raise CursorInvalid
        found = await self.dead_letter.page(after=cursor, limit=limit + 1)
        page = found[:limit]
        return page, page[-1].aside_id if len(found) > limit else None

    async def replay(self, aside_id: str) -> DeadLetter:
        """Put a dead letter back into the queue and return it.

        Raises:
            JobNotFound: There is no such dead letter.
            QueueUnavailable: The dead letter remains, but its job may have been queued.
        """
        found = await self._get(aside_id)
        try:
            await self.jobs.put([found.job])
        except JobsUnavailable as error:
            raise QueueUnavailable from error
        await self.dead_letter.drop(aside_id)
        return found

    async def drop(self, aside_id: str) -> None:
        """Delete a dead letter. Its users get no copy, except those who already have one.

        Raises:
            JobNotFound: There is no such dead letter.
        """
        await self._get(aside_id)
        await self.dead_letter.drop(aside_id)

    async def _get(self, aside_id: str) -> DeadLetter:
        is_id = ASIDE.fullmatch(aside_id) is not None
        found = await self.dead_letter.get(aside_id) if is_id else None
        if found is None:
            raise JobNotFound
        return found


class PostProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of the delivery of a notification."""

    notification_id: str
    status: Status
    recipients: int
    delivered: int
    label: str | None
    """The tenant's label for the audience; None if there is none, or after a retraction."""


class FindNotification(msgspec.Struct, frozen=True):
    """Find a notification or broadcast by its id."""

    configs: InboxConfigs
    notifications: Notifications
    clock: Clock

    async def __call__(
        self, tenant: str, inbox: str, notification_id: str
    ) -> Notification | Broadcast:
        """Return the notification or broadcast.

        Raises:
            InboxNotFound: There is no such inbox.
            NotificationNotFound: The notification does not exist, or has expired.
        """
        await self.configs.get(tenant, inbox)
        found = await self.stored(tenant, inbox, notification_id)
        if found is None or found.expires_at <= self.clock.now():
            raise NotificationNotFound
        return found

    async def stored(
        self, tenant: str, inbox: str, notification_id: str
    ) -> Notification | Broadcast | None:
        """Return the notification or broadcast, even if it has expired; None if it is not
        stored. A scheduled broadcast that is in the log is found there."""
        if NOTIFICATION.fullmatch(notification_id) is None:
            return None
        sequence = broadcast_sequence(notification_id)
        if sequence is None:
            found = await self.notifications.get(tenant, inbox, [notification_id])
            if not found or found[0].sequence is None:
                return found[0] if found else None
            sequence = found[0].sequence
        entries = await self.notifications.broadcasts(tenant, inbox, after=sequence - 1, limit=1)
        is_there = entries and entries[0].sequence == sequence and entries[0].kind == "broadcast"
        return entries[0] if is_there else None


class GetProgress(msgspec.Struct, frozen=True):
    """Report how many users have received a notification, computed from its finished delivery jobs.

    A delivery job that was retried is counted once.
    """

    find: FindNotification
    notifications: Notifications
    views: LogViews
    texts: NotificationTexts

    async def __call__(self, tenant: str, inbox: str, notification_id: str) -> PostProgress:
        found = await self.find(tenant, inbox, notification_id)
        view = await self.views.get(tenant, inbox)
        is_gone = found.box is None or view.is_retracted(found.notification_id)
        if isinstance(found, Broadcast):
            delivered, name = found.recipients, found.mark
        else:
            delivered, name = await self._delivered(found), notification_id
        status: Status = "redacted"
        if not is_gone:
            status = _status(delivered, found, self.find.clock.now())
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
        if found.everyone:
            return 0
        finished = await self.notifications.finished_jobs(
            found.tenant, found.inbox, found.notification_id
        )
        return delivered_by(finished, found.recipients)


class RetractNotification(msgspec.Struct, frozen=True):
    """Retract a notification, so that no request that starts after the answer shows it."""

    find: FindNotification
    notifications: Notifications
    scheduled: ScheduledNotifications
    views: LogViews
    append_broadcast: BroadcastAppender
    bus: Bus
    clock: Clock
    chance: Chance

    async def __call__(self, tenant: str, inbox: str, notification_id: str) -> None:
        """Retract the notification for good; a repeated call changes nothing and also succeeds.

        Raises:
            InboxNotFound: There is no such inbox.
            NotificationNotFound: The notification does not exist, or has expired.
            StoreUnavailable, InboxBusy: The outcome is unknown.
        """
        found = await self.find(tenant, inbox, notification_id)
        view = await self.views.get(tenant, inbox, age_ms=0)
        name = found.notification_id
        is_whole = found.box is not None
        if is_whole and not view.is_retracted(name):
            retraction = self._retraction(found)
            await self.append_broadcast(
                retraction, after=view.head, is_same=lambda entry: entry.target == name
            )
        durable_at = monotonic()
        if is_whole:  # also done after an interrupted attempt, because a repeat does no harm
            self.bus.publish(Retracted(tenant, inbox, name))
            await self._empty(found)
        await _until(durable_at + self.notifications.broadcasts_age_ms / limits.SECOND_MS)

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
        tenant, inbox, name = found.tenant, found.inbox, found.notification_id
        sent = found if isinstance(found, Broadcast) else None
        if isinstance(found, Notification) and found.everyone:
            # It is a scheduled broadcast, and may have got into the log meanwhile.
            sent = (await self.views.get(tenant, inbox, age_ms=0)).broadcast(name)
        if sent is not None:
            await self.notifications.retract_broadcast(tenant, inbox, sent.sequence)
        if isinstance(found, Notification):
            await self.notifications.empty(tenant, inbox, name)
            if found.posted_at > self.clock.now():
                await release_all(self.scheduled, tenant, inbox, name)


class PostedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification or broadcast with its text."""

    posted: Notification | Broadcast
    text: Text | None
    """None after a retraction."""
    is_scheduled: bool
    """Whether the notification waits for its time."""


class _Passed(msgspec.Struct, frozen=True, array_like=True):
    """Position in the list of posted notifications: the last id and the last broadcast returned."""

    notification_id: str | None = None
    sequence: int | None = None


class ListPosted(msgspec.Struct, frozen=True):
    """List the notifications and broadcasts that a tenant posted to an inbox, newest first."""

    configs: InboxConfigs
    notifications: Notifications
    views: LogViews
    texts: NotificationTexts
    cursors: Cursors
    clock: Clock

    async def __call__(
        self, tenant: str, inbox: str, cursor: str | None, limit: int
    ) -> tuple[list[PostedNotification], str | None]:
        """Return a page, and the cursor of the next page; only the last page has no cursor.

        Raises:
            InboxNotFound: There is no such inbox.
            CursorInvalid: The cursor is not for this list.
        """
        await self.configs.get(tenant, inbox)
        purpose, owner = f"posted {inbox}", UserKey(tenant)
        passed = _Passed()
        if (position := self.cursors.position(purpose, owner, cursor)) is not None:
            passed = msgspec.json.decode(position, type=_Passed)
        view = await self.views.get(tenant, inbox)
        found = await self._newest(tenant, inbox, passed, limit + 1)
        page = found[:limit]
        now = self.clock.now()
        shown = [
            await self._with_text(one, view.is_retracted(one.notification_id))
            for one in page
            if one.expires_at > now and not _is_double(one, view)
        ]
        if len(found) <= limit or page[-1].posted_at < now - _KEPT_MS_MAX:
            return shown, None
        end = msgspec.json.encode(_passed(passed, page)).decode()
        return shown, self.cursors.after(purpose, owner, end)

    async def _newest(
        self, tenant: str, inbox: str, passed: _Passed, limit: int
    ) -> list[Notification | Broadcast]:
        """Return the newest notifications and broadcasts after the position `passed`, including
        retracted ones."""
        listed = await self.notifications.newest(
            tenant, inbox, before=passed.notification_id, limit=limit
        )
        broadcasts = await self.notifications.last_broadcasts(
            tenant, inbox, before=passed.sequence, limit=limit
        )
        both: list[Notification | Broadcast] = [*listed, *broadcasts]
        both.sort(key=_time_of, reverse=True)
        return both[:limit]

    async def _with_text(
        self, posted: Notification | Broadcast, is_retracted: bool
    ) -> PostedNotification:
        text = None
        if not is_retracted:
            name = posted.mark if isinstance(posted, Broadcast) else posted.notification_id
            text = await self.texts.open(
                posted.tenant, posted.inbox, name, posted.box, posted.box_key
            )
        is_scheduled = posted.posted_at > self.clock.now() and text is not None
        return PostedNotification(
            posted=posted,
            text=text,
            is_scheduled=is_scheduled and isinstance(posted, Notification),
        )


def _is_double(posted: Notification | Broadcast, view: LogView) -> bool:
    """Return True if this is a retraction, or a scheduled broadcast that the log has too."""
    if isinstance(posted, Broadcast):
        return posted.target is not None
    # A process may die before it stores the sequence.
    return posted.sequence is not None or view.broadcast(posted.notification_id) is not None


def _time_of(posted: Notification | Broadcast) -> int:
    """Return the time by which notifications and broadcasts are merged into one list.

    Notifications that are sorted by this time are also sorted by id, and broadcasts by sequence. A
    page ends at an id and a sequence, so the next page would skip some of them in any other order.
    """
    if isinstance(posted, Broadcast):
        return posted.posted_at
    return ulid_time(posted.notification_id)


def _passed(before: _Passed, page: list[Notification | Broadcast]) -> _Passed:
    ids = [one.notification_id for one in page if isinstance(one, Notification)]
    sequences = [one.sequence for one in page if isinstance(one, Broadcast)]
    return _Passed(
        min(ids, default=before.notification_id), min(sequences, default=before.sequence)
    )


def delivered_by(finished: set[int], recipients: int) -> int:
    """Return the number of users in the finished delivery jobs of a notification.

    Each job has a hundred users, except the last, which has the rest.
    """
    last, rest = divmod(recipients - 1, limits.JOB_USERS_MAX)
    return sum(rest + 1 if number == last else limits.JOB_USERS_MAX for number in finished)


def _status(delivered: int, found: Notification | Broadcast, now: int) -> Status:
    if isinstance(found, Notification) and found.restored:
        return "restored"
    if isinstance(found, Notification) and found.failed and delivered < found.recipients:
        return "failed"
    if isinstance(found, Notification) and (found.everyone or found.posted_at > now):
        return "scheduled"
    if isinstance(found, Broadcast) or delivered >= found.recipients:
        return "done"
    return "running" if delivered else "queued"


async def _until(time: float) -> None:
    # The loop may measure a sleep from the start of its turn, so it may end early: sleep again.
    while (left := time - monotonic()) > 0:  # noqa: ASYNC110 - waits for a time
        await asyncio.sleep(left)
