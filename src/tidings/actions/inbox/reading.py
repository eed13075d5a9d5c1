# SPDX-License-Identifier: Apache-2.0
"""List a user's notifications in an inbox."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.counting import broadcasts_for
from tidings.actions.inbox.preferences import chosen_broadcasts
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationReader, OpenedNotification
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.inbox_reading import (
    InboxItem,
    LogView,
    NotificationPosition,
    collapsed,
    first_copy_below,
    from_broadcast,
    from_copy,
    merged,
)
from tidings.model.notifications import (
    Broadcast,
    Copy,
    InboxConfig,
    ReadState,
    broadcast_sequence,
    check_category,
)
from tidings.model.refusals import CursorInvalid
from tidings.ports.inboxes import Copies
from tidings.ports.world import Clock


class ListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of an inbox."""

    limit: int
    cursor: str | None = None
    category: str | None = None
    unread: bool | None = None
    """True to list only unread notifications, False to list only read ones, None to list all."""
    archived: bool = False
    """True to list only archived notifications; they are in no other list."""
    snoozed: bool | None = None
    """True to list only snoozed notifications. Other lists leave them out, except that of archived
    ones."""

    @property
    def is_filtered(self) -> bool:
        """Return True if the list leaves out more than archived and snoozed notifications."""
        return bool(self.category or self.unread is not None or self.archived or self.snoozed)

    def takes(self, item: InboxItem, now: int) -> bool:
        """Return True if the list includes this notification."""
        if self.category is not None and item.category != self.category:
            return False
        if self.unread is not None and self.unread != (item.read_at is None):
            return False
        if self.archived != (item.archived_at is not None):
            return False
        if self.snoozed is None and self.archived:
            return True
        return bool(self.snoozed) == item.is_snoozed(now)


_Reach = Literal["page", "rest", "all"]
"""Which copies are read: those of the page, these and all older ones, or all copies."""


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


class _Part(msgspec.Struct, frozen=True):
    """The part of a user's inbox from which a page is made."""

    view: LogView
    state: ReadState
    wanted: ListFilter
    below: NotificationPosition | None
    """The page starts below this position; None for the first page."""
    reach: _Reach
    now: int

    def page(
        self, copies: Sequence[Copy], broadcasts: Sequence[Broadcast], *, is_cut: bool
    ) -> tuple[list[InboxItem], list[NotificationPosition]] | None:
        """Return the listed items from the start of the page on, and the positions of the copies.

        `is_cut` says that the user has further copies, which are not in `copies`. The result is
        None if the page cannot be made without them.
        """
        items = merged(copies, self._newest(broadcasts), self.state)
        visible = [item for item in items if not self._hides(item)]
        reads_all = self.reach == "all" or (self.reach == "rest" and self.below is None)
        if not reads_all and any(item.collapse is not None for item in visible):
            return None
        positions = [item.position for item in items if item.broadcast is None]
        positions = [position for position in positions if self._is_below(position)]
        listed = [
            item
            for item in collapsed(visible)
            if self._is_below(item.position) and self.wanted.takes(item, self.now)
        ]
        if is_cut:
            # Copies that were not read here may belong between broadcasts older than the last copy.
            listed = [item for item in listed if item.position >= positions[-1]]
            if len(listed) <= self.wanted.limit:
                return None
        return listed, positions

    def _newest(self, broadcasts: Sequence[Broadcast]) -> Iterator[InboxItem]:
        """Yield the broadcasts that can be on the page, newest first. For the reach `page`, yield
        only one more than fit on it."""
        items = (from_broadcast(broadcast, self.state) for broadcast in reversed(broadcasts))
        if self.reach == "all":
            return items
        older = (item for item in items if self._is_below(item.position))
        if self.reach == "rest":
            return older
        listed = (
            item for item in older if self.wanted.takes(item, self.now) and not self._hides(item)
        )
        return islice(listed, self.wanted.limit + 1)

    def _is_below(self, position: NotificationPosition) -> bool:
        return self.below is None or position < self.below

    def _hides(self, item: InboxItem) -> bool:
        return self.view.hides(item.notification_id, item.expires_at, self.now)


class ListNotifications(msgspec.Struct, frozen=True):
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
        found = await self._listed(user, inbox, config, view, wanted, start, "page")
        found = found or await self._listed(user, inbox, config, view, wanted, start, "rest")
        found = found or await self._listed(user, inbox, config, view, wanted, start, "all")
        assert found is not None, "there is nothing above and below the whole list"
        listed, copies = found
        page = listed[: wanted.limit]
        cursor = None
        if len(listed) > len(page):
            last = page[-1].position
            above = sum(position >= last for position in copies)
            ending = _Start(*last, (start.passed if start else 0) + above)
            cursor = self.cursors.seal(purpose, user, msgspec.json.encode(ending))
        return await self._shown(tenant, inbox, view, page), cursor

    async def everything(
        self, user: UserKey, inbox: str, after: str | None
    ) -> tuple[list[ListedNotification], str | None]:
        """Return some notifications of a user with their states, and the place of the next ones;
        None at the end.

        In contrast to lists, archived, snoozed and collapsed notifications are included, and also
        those that preferences or the length of lists hide. Each is returned once: first the copies,
        then the broadcasts. A place that begins with `b` is a sequence of the inbox's log, every
        other one the id of a copy.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        tenant, most = tenant_of(user), limits.PAGE_MAX
        await self.configs.get(tenant, inbox)
        # Read the log first: notifications that are retracted by now must not be shown.
        view = await self.views.get(tenant, inbox)
        state = await self.copies.read_state(user, inbox)
        items, below = list[InboxItem](), None if after is None else broadcast_sequence(after)
        if below is None:
            copies = await self.copies.newest(user, inbox, before=after, limit=most)
            items += (from_copy(copy, state) for copy in copies)
            if len(copies) == most:
                return await self._shown(tenant, inbox, view, items), copies[-1].notification_id
            below = view.head + 1
        sent = await broadcasts_for(self.showing, user, view)
        older = [broadcast for broadcast in reversed(sent) if broadcast.sequence < below]
        items += (from_broadcast(broadcast, state) for broadcast in older[:most])
        end = f"b{older[most - 1].sequence}" if len(older) > most else None
        return await self._shown(tenant, inbox, view, items), end

    async def _listed(
        self,
        user: UserKey,
        inbox: str,
        config: InboxConfig,
        view: LogView,
        wanted: ListFilter,
        start: _Start | None,
        reach: _Reach,
    ) -> tuple[list[InboxItem], list[NotificationPosition]] | None:
        """Return the items of the page and the positions of the user's copies that were read.

        If another page follows, more items are returned than this page shows. The result is None if
        the copies that were read are not enough: too many of them are hidden, or the list has
        notifications with collapse keys, which hide others.
        """
        if reach == "page" and wanted.is_filtered:
            return None
        below: NotificationPosition | None = (start.time, start.notification_id) if start else None
        left = limits.USER_COPIES_MAX - (start.passed if start else 0)
        all_ = limits.USER_COPIES_MAX
        most = {"page": min(left, wanted.limit + 1), "rest": left, "all": all_}[reach]
        copies = []
        if most > 0:
            before = first_copy_below(below) if below and reach != "all" else None
            copies = await self.copies.newest(user, inbox, before=before, limit=most)
        state = await self.copies.read_state(user, inbox)
        shown = await broadcasts_for(self.showing, user, view)
        broadcasts = chosen_broadcasts(shown, config, state.preferences)
        part = _Part(view, state, wanted, below, reach, self.clock.now())
        return part.page(copies, broadcasts, is_cut=len(copies) == most < left)

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


def _purpose(inbox: str, wanted: ListFilter) -> str:
    more = f"\0{wanted.archived}\0{wanted.snoozed}" if wanted.archived or wanted.snoozed else ""
    return f"notifications\0{inbox}\0{wanted.category}\0{wanted.unread}{more}"
