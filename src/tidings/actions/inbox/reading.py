# SPDX-License-Identifier: Apache-2.0
"""What a user has in an inbox: the list, the unread count, marking as read."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidings.actions.content.cursors import Cursors
from tidings.actions.inbox.log_views import LogViews
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationReader, OpenedNotification
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.inbox_reading import (
    InboxItem,
    LogView,
    Place,
    UnreadCount,
    count_unread,
    first_copy_below,
    is_for,
    merged,
)
from tidings.model.notifications import NOTIFICATION, Broadcast, broadcast_sequence
from tidings.model.postings import check_category
from tidings.model.refusals import CursorInvalid, Invalid
from tidings.ports.bus import Bus, InboxRead
from tidings.ports.inboxes import Copies
from tidings.ports.world import Clock


class ListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of an inbox a user wants to see."""

    limit: int
    cursor: str | None = None
    category: str | None = None
    unread: bool | None = None
    """True: only what is unread; False: only what was read."""

    @property
    def is_filtered(self) -> bool:
        """Whether not all is wanted."""
        return self.category is not None or self.unread is not None

    def takes(self, one: InboxItem) -> bool:
        """Whether this is among what is wanted."""
        if self.category is not None and one.category != self.category:
            return False
        return self.unread is None or self.unread == (one.read_at is None)


class ListedNotification(msgspec.Struct, frozen=True):
    """A notification as a user sees it."""

    received: InboxItem
    shown: OpenedNotification


class _Start(msgspec.Struct, frozen=True, array_like=True):
    """Where a page goes on: below a place, with so many of the user's copies above it."""

    time: int
    notification_id: str
    passed: int


@dataclass(frozen=True, slots=True)
class ListNotifications:
    """A user's inbox, newest first."""

    configs: InboxConfigs
    copies: Copies
    views: LogViews
    showing: NotificationReader
    cursors: Cursors
    clock: Clock

    async def __call__(
        self, user: UserKey, inbox: str, wanted: ListFilter
    ) -> tuple[list[ListedNotification], str | None]:
        """A page, and the cursor of the next; only without one it was the last, empty or not.

        Raises:
            InboxNotFound: There is no such inbox.
            Invalid: No category can have this name.
            CursorInvalid: The cursor is not for this list.
        """
        tenant = tenant_of(user)
        if wanted.category is not None:
            check_category(wanted.category)
        await self.configs.get(tenant, inbox)
        purpose = _purpose(inbox, wanted)
        start = self._start(purpose, user, wanted.cursor)
        # The log first: what it says was taken back by now is not shown, whatever else is read.
        view = await self.views.get(tenant, inbox)
        found = await self._listed(user, inbox, view, wanted, start)
        if found is None:
            found = await self._listed(user, inbox, view, wanted, start, is_whole=True)
        assert found is not None, "nothing stands below the whole"
        listed, copies = found
        page = listed[: wanted.limit]
        cursor = None
        if len(listed) > len(page):
            last = page[-1].place
            above = sum(place >= last for place in copies)
            ending = _Start(*last, (start.passed if start else 0) + above)
            cursor = self.cursors.seal(purpose, user, msgspec.json.encode(ending))
        return await self._shown(tenant, inbox, view, page), cursor

    async def _listed(
        self,
        user: UserKey,
        inbox: str,
        view: LogView,
        wanted: ListFilter,
        start: _Start | None,
        *,
        is_whole: bool = False,
    ) -> tuple[list[InboxItem], list[Place]] | None:
        """What the page is cut from, one more than it takes if there is more; the copies read.

        None if too many of the newest copies are hidden to know what comes next: then it takes the
        whole of what the user has.
        """
        below: Place | None = (start.time, start.notification_id) if start else None
        left = limits.USER_COPIES_MAX - (start.passed if start else 0)
        most = left if is_whole or wanted.is_filtered else min(left, wanted.limit + 1)
        copies = []
        if most > 0:
            before = first_copy_below(below) if below else None
            copies = await self.copies.newest(user, inbox, before=before, limit=most)
        now = self.clock.now()
        told = [
            one
            for one in await broadcasts_for(self.showing, user, view)
            if (below is None or (one.posted_at, one.notification_id) < below)
            and not view.hides(one.notification_id, one.expires_at, now)
        ]
        if not wanted.is_filtered:
            told = told[-wanted.limit - 1 :]  # the newest stand last
        state = await self.copies.read_state(user, inbox)
        received = merged(copies, told, state)
        places = [one.place for one in received if one.announcement is None]
        listed = [
            one
            for one in received
            if wanted.takes(one) and not view.hides(one.notification_id, one.expires_at, now)
        ]
        if len(copies) == most < left:
            # Further copies may stand between what everyone was told before the last of these.
            listed = [one for one in listed if one.place >= places[-1]]
            if len(listed) <= wanted.limit:
                return None
        return listed, places

    async def _shown(
        self, tenant: str, inbox: str, view: LogView, page: Sequence[InboxItem]
    ) -> list[ListedNotification]:
        now = self.clock.now()
        visible = [one for one in page if not view.hides(one.notification_id, one.expires_at, now)]
        ids = [one.notification_id for one in visible if one.announcement is None]
        texts = await self.showing.copy_texts(tenant, inbox, ids)
        for one in visible:
            if one.announcement is not None:
                shown = await self.showing.broadcast_text(one.announcement)
                if shown is not None:
                    texts[one.notification_id] = shown
        return [
            ListedNotification(one, texts[one.notification_id])
            for one in visible
            if one.notification_id in texts
        ]

    def _start(self, purpose: str, user: UserKey, cursor: str | None) -> _Start | None:
        if cursor is None:
            return None
        try:
            return msgspec.json.decode(self.cursors.open(purpose, user, cursor), type=_Start)
        except msgspec.DecodeError:
            raise CursorInvalid from None


@dataclass(frozen=True, slots=True)
class CountUnread:
    """How much of an inbox a user has not read."""

    configs: InboxConfigs
    copies: Copies
    views: LogViews
    showing: NotificationReader
    clock: Clock

    async def __call__(self, user: UserKey, inbox: str) -> UnreadCount:
        """Counted anew each time.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        tenant = tenant_of(user)
        await self.configs.get(tenant, inbox)
        view = await self.views.get(tenant, inbox)
        told = await broadcasts_for(self.showing, user, view)
        state = await self.copies.read_state(user, inbox)
        copies = await self.copies.newest(user, inbox, before=None, limit=limits.USER_COPIES_MAX)
        return count_unread(view, copies, told, state, self.clock.now())


@dataclass(frozen=True, slots=True)
class MarkRead:
    """Mark some of an inbox as read, or all that came up to some time."""

    configs: InboxConfigs
    copies: Copies
    views: LogViews
    showing: NotificationReader
    bus: Bus
    clock: Clock
    count: CountUnread

    async def some(self, user: UserKey, inbox: str, notification_ids: Sequence[str]) -> UnreadCount:
        """These are read; what the user does not have is passed over. Returns what is left."""
        if not 1 <= len(notification_ids) <= limits.READ_IDS_MAX:
            raise Invalid(f"ids: 1 to {limits.READ_IDS_MAX}", "/ids")
        await self.configs.get(tenant_of(user), inbox)
        now = self.clock.now()
        ids = [one for one in dict.fromkeys(notification_ids) if NOTIFICATION.fullmatch(one)]
        if own := [one for one in ids if broadcast_sequence(one) is None]:
            await self.copies.mark_read(user, inbox, own, now)
        if len(own) < len(ids):
            view = await self._reaching(tenant_of(user), inbox, ids)
            told = await broadcasts_for(self.showing, user, view)
            sequences = [one.sequence for one in told if one.notification_id in ids]
            if sequences:
                await self.copies.read_announcements(user, inbox, sequences, now)
        return await self._left(user, inbox)

    async def before(self, user: UserKey, inbox: str, time: int) -> UnreadCount:
        """All that came up to this time is read. Returns what is left."""
        await self.configs.get(tenant_of(user), inbox)
        view = await self.views.get(tenant_of(user), inbox, age_ms=0)
        now = self.clock.now()
        # What was posted in a burst bears times a little ahead of the clock.
        until = max(now, view.head_at) if time >= now else time
        announced = view.last_broadcast_until(until)
        await self.copies.read_before(user, inbox, min(time, now), announced)
        return await self._left(user, inbox)

    async def _reaching(self, tenant: str, inbox: str, ids: Sequence[str]) -> LogView:
        """The log with these in it, if it has them: another process may have shown them already."""
        view = await self.views.get(tenant, inbox)
        if max(broadcast_sequence(one) or 0 for one in ids) > view.head:
            view = await self.views.get(tenant, inbox, age_ms=0)
        return view

    async def _left(self, user: UserKey, inbox: str) -> UnreadCount:
        self.bus.publish(InboxRead(user, inbox))
        return await self.count(user, inbox)


async def broadcasts_for(
    showing: NotificationReader, user: UserKey, view: LogView
) -> list[Broadcast]:
    """What everyone was told, as far as it is for this user."""
    if all(one.late_joiners for one in view.broadcasts):
        return list(view.broadcasts)
    joined_at = await showing.joined_at(user)
    return [one for one in view.broadcasts if is_for(one, joined_at)]


def _purpose(inbox: str, wanted: ListFilter) -> str:
    return f"notifications\0{inbox}\0{wanted.category}\0{wanted.unread}"
