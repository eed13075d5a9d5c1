# SPDX-License-Identifier: Apache-2.0
"""List a user's notifications in an inbox, and mark them as read."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.counting import CountUnread, broadcasts_for
from tidings.actions.inbox.preferences import chosen_broadcasts
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationReader, OpenedNotification
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of, ulid_time
from tidings.model.inbox_reading import (
    InboxItem,
    LogView,
    NotificationPosition,
    UnreadCount,
    copy_read_at,
    first_copy_below,
    merged,
)
from tidings.model.notifications import (
    NOTIFICATION,
    InboxConfig,
    broadcast_sequence,
    check_category,
)
from tidings.model.refusals import CursorInvalid, Invalid
from tidings.ports.bus import Bus, InboxRead
from tidings.ports.inboxes import Copies
from tidings.ports.world import Clock


class ListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of an inbox."""

    limit: int
    cursor: str | None = None
    category: str | None = None
    unread: bool | None = None
    """True to list only unread notifications, False to list only read ones, None to list all."""

    @property
    def is_filtered(self) -> bool:
        """Return True if the list leaves out some notifications."""
        return self.category is not None or self.unread is not None

    def takes(self, item: InboxItem) -> bool:
        """Return True if the list includes this notification."""
        if self.category is not None and item.category != self.category:
            return False
        return self.unread is None or self.unread == (item.read_at is None)


class ListedNotification(msgspec.Struct, frozen=True):
    """A notification in a user's list."""

    received: InboxItem
    shown: OpenedNotification


class _Start(msgspec.Struct, frozen=True, array_like=True):
    """The start of a page: the position of the last item on the page before.

    `passed` is the number of the user's copies that are newer than this page.
    """

    time: int
    notification_id: str
    passed: int


@dataclass(frozen=True, slots=True)
class ListNotifications:
    """List a user's inbox, newest first."""

    configs: InboxConfigs
    copies: Copies
    views: LogViews
    showing: NotificationReader
    cursors: Cursors
    clock: Clock

    async def __call__(
        self, user: UserKey, inbox: str, wanted: ListFilter
    ) -> tuple[list[ListedNotification], str | None]:
        """Return a page, and the cursor of the next page, or None after the last page.

        Raises:
            InboxNotFound: There is no such inbox.
            Invalid: No category can have this name.
            CursorInvalid: The cursor is not for this list.
        """
        tenant = tenant_of(user)
        if wanted.category is not None:
            check_category(wanted.category)
        config = await self.configs.get(tenant, inbox)
        purpose = _purpose(inbox, wanted)
        start = self._start(purpose, user, wanted.cursor)
        # Read the log first: notifications that are retracted by now must not be shown.
        view = await self.views.get(tenant, inbox)
        found = await self._listed(user, inbox, config, view, wanted, start)
        if found is None:
            found = await self._listed(user, inbox, config, view, wanted, start, is_whole=True)
        assert found is not None, "there is nothing below the whole list"
        listed, copies = found
        page = listed[: wanted.limit]
        cursor = None
        if len(listed) > len(page):
            last = page[-1].position
            above = sum(position >= last for position in copies)
            ending = _Start(*last, (start.passed if start else 0) + above)
            cursor = self.cursors.seal(purpose, user, msgspec.json.encode(ending))
        return await self._shown(tenant, inbox, view, page), cursor

    async def _listed(
        self,
        user: UserKey,
        inbox: str,
        config: InboxConfig,
        view: LogView,
        wanted: ListFilter,
        start: _Start | None,
        *,
        is_whole: bool = False,
    ) -> tuple[list[InboxItem], list[NotificationPosition]] | None:
        """Return the items of the page and the positions of the user's copies that were read.

        If another page follows, more items are returned than this page shows. Normally only the
        newest copies are read. If so many of them are hidden that they do not fill the page, the
        result is None, and the caller must call this again with `is_whole`, which reads all copies.
        """
        below: NotificationPosition | None = (start.time, start.notification_id) if start else None
        left = limits.USER_COPIES_MAX - (start.passed if start else 0)
        most = left if is_whole or wanted.is_filtered else min(left, wanted.limit + 1)
        copies = []
        if most > 0:
            before = first_copy_below(below) if below else None
            copies = await self.copies.newest(user, inbox, before=before, limit=most)
        now = self.clock.now()
        state = await self.copies.read_state(user, inbox)
        shown = await broadcasts_for(self.showing, user, view)
        broadcasts = [
            broadcast
            for broadcast in chosen_broadcasts(shown, config, state.preferences)
            if (below is None or (broadcast.posted_at, broadcast.notification_id) < below)
            and not view.hides(broadcast.notification_id, broadcast.expires_at, now)
        ]
        if not wanted.is_filtered:
            broadcasts = broadcasts[-wanted.limit - 1 :]  # the newest are last
        received = merged(copies, broadcasts, state)
        positions = [item.position for item in received if item.broadcast is None]
        listed = [
            item
            for item in received
            if wanted.takes(item) and not view.hides(item.notification_id, item.expires_at, now)
        ]
        if len(copies) == most < left:
            # Copies that were not read here may belong between broadcasts older than the last copy.
            listed = [item for item in listed if item.position >= positions[-1]]
            if len(listed) <= wanted.limit:
                return None
        return listed, positions

    async def _shown(
        self, tenant: str, inbox: str, view: LogView, page: Sequence[InboxItem]
    ) -> list[ListedNotification]:
        now = self.clock.now()
        visible = [
            item for item in page if not view.hides(item.notification_id, item.expires_at, now)
        ]
        ids = [item.notification_id for item in visible if item.broadcast is None]
        texts = await self.showing.copy_texts(tenant, inbox, ids)
        for item in visible:
            if item.broadcast is not None:
                shown = await self.showing.broadcast_text(item.broadcast)
                if shown is not None:
                    texts[item.notification_id] = shown
        return [
            ListedNotification(item, texts[item.notification_id])
            for item in visible
            if item.notification_id in texts
        ]

    def _start(self, purpose: str, user: UserKey, cursor: str | None) -> _Start | None:
        if cursor is None:
            return None
        try:
            return msgspec.json.decode(self.cursors.open(purpose, user, cursor), type=_Start)
        except msgspec.DecodeError:
            raise CursorInvalid from None


@dataclass(frozen=True, slots=True)
class MarkRead:
    """Mark listed notifications as read, or all notifications up to a time."""

    configs: InboxConfigs
    copies: Copies
    views: LogViews
    showing: NotificationReader
    bus: Bus
    clock: Clock
    count: CountUnread

    async def some(self, user: UserKey, inbox: str, notification_ids: Sequence[str]) -> UnreadCount:
        """Mark these notifications as read and ignore unknown ids; return the unread count."""
        if not 1 <= len(notification_ids) <= limits.READ_IDS_MAX:
            raise Invalid(f"ids must contain 1 to {limits.READ_IDS_MAX} ids", "/ids")
        await self.configs.get(tenant_of(user), inbox)
        now = self.clock.now()
        distinct = dict.fromkeys(notification_ids)
        ids = [each for each in distinct if NOTIFICATION.fullmatch(each)]
        if copy_ids := [each for each in ids if broadcast_sequence(each) is None]:
            await self.copies.mark_read(user, inbox, copy_ids, now)
        if len(copy_ids) < len(ids):
            view = await self._view_with(tenant_of(user), inbox, ids)
            broadcasts = await broadcasts_for(self.showing, user, view)
            sequences = [each.sequence for each in broadcasts if each.notification_id in ids]
            if sequences:
                await self.copies.read_broadcasts(user, inbox, sequences, now)
        return await self._unread(user, inbox)

    async def before(self, user: UserKey, inbox: str, time: int) -> UnreadCount:
        """Mark all notifications up to this time as read; return the unread count."""
        await self.configs.get(tenant_of(user), inbox)
        view = await self.views.get(tenant_of(user), inbox, age_ms=0)
        now = self.clock.now()
        # Broadcasts that were posted in a burst have times a little ahead of the clock.
        until = max(now, view.head_at) if time >= now else time
        announced = view.last_broadcast_until(until)
        await self.copies.read_before(user, inbox, min(time, now), announced)
        return await self._unread(user, inbox)

    async def posted_before(self, user: UserKey, inbox: str, time: int) -> UnreadCount:
        """Mark all notifications that were posted up to this time as read; return the unread count.

        Copies that reached the user after this time are marked one by one.
        """
        await self.configs.get(tenant_of(user), inbox)
        now = self.clock.now()
        state = await self.copies.read_state(user, inbox)
        copies = await self.copies.newest(user, inbox, before=None, limit=limits.USER_COPIES_MAX)
        late = [
            copy.notification_id
            for copy in copies
            if ulid_time(copy.notification_id) <= time < copy.received_at
            and copy_read_at(copy, state) is None
        ]
        for start in range(0, len(late), limits.READ_IDS_MAX):
            some = late[start : start + limits.READ_IDS_MAX]
            await self.copies.mark_read(user, inbox, some, now)
        return await self.before(user, inbox, time)

    async def _view_with(self, tenant: str, inbox: str, ids: Sequence[str]) -> LogView:
        """Return a view that includes these broadcasts.

        The log is read again if another process appended some of them since the last read.
        """
        view = await self.views.get(tenant, inbox)
        if max(broadcast_sequence(each) or 0 for each in ids) > view.head:
            view = await self.views.get(tenant, inbox, age_ms=0)
        return view

    async def _unread(self, user: UserKey, inbox: str) -> UnreadCount:
        self.bus.publish(InboxRead(user, inbox))
        return await self.count(user, inbox)


def _purpose(inbox: str, wanted: ListFilter) -> str:
    return f"notifications\0{inbox}\0{wanted.category}\0{wanted.unread}"
