# SPDX-License-Identifier: Apache-2.0
"""Count a user's notifications in an inbox: the unread ones, and those after a known one."""

from typing import NamedTuple

import msgspec

from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.preferences import chosen_broadcasts
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationReader
from tidings.model import limits
from tidings.model.chats import Unread
from tidings.model.ids import UserKey, tenant_of
from tidings.model.inbox_reading import (
    LogView,
    UnreadCount,
    copy_position,
    count_above,
    count_unread,
    is_for,
    position_of,
)
from tidings.model.notifications import Broadcast, Copy, ReadState
from tidings.ports.inboxes import Copies
from tidings.ports.world import Clock


class InboxNews(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of an inbox that a device gets when it connects."""

    unread: UnreadCount
    is_exact: bool
    """Whether `unread` covers all notifications, not only the newest."""
    missed: Unread
    """The number of notifications that are newer than the last one on the device."""


class InboxLook(NamedTuple):
    """The data from which a count is computed: the arguments of `count_unread`, in order."""

    view: LogView
    copies: list[Copy]
    broadcasts: list[Broadcast]
    state: ReadState
    now: int


class CountUnread(msgspec.Struct, frozen=True):
    """Count the unread notifications of a user in an inbox."""

    configs: InboxConfigs
    copies: Copies
    views: LogViews
    showing: NotificationReader
    clock: Clock

    async def __call__(self, user: UserKey, inbox: str) -> UnreadCount:
        """Return the unread count, which is computed again on every call.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        return count_unread(*await self.look(user, inbox))

    async def up_to(self, user: UserKey, inbox: str, most: int) -> Unread:
        """Return the unread count, but at most `most`; no more than `most` copies are read.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        found = await self.look(user, inbox, most)
        total = count_unread(*found).total
        return Unread(min(total, most), exact=len(found.copies) < most and total < most)

    async def news(self, user: UserKey, inbox: str, last: str | None) -> InboxNews:
        """Return the unread count, and the number of notifications that are newer than `last`.

        Only the newest copies are read, so both counts have a limit. `last` is None for a device
        without notifications of the inbox. If `last` is a broadcast that no longer exists, all
        notifications are counted.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        most = limits.INBOX_NEWS_MAX
        found = await self.look(user, inbox, most)
        unread = count_unread(*found)
        has_all = len(found.copies) < most
        known = (0, "") if last is None else position_of(found.view, last)
        position = known or (0, "")
        has_missed = has_all or copy_position(found.copies[-1]) <= position
        missed = count_above(position, found.view, found.copies, found.broadcasts, found.now)
        is_exact = known is not None and has_missed and missed < most
        return InboxNews(
            unread=UnreadCount(
                min(unread.total, most), unread.categories, min(unread.unseen, most)
            ),
            is_exact=has_all and unread.total < most,
            missed=Unread(min(missed, most), exact=is_exact),
        )

    async def look(self, user: UserKey, inbox: str, most: int | None = None) -> InboxLook:
        """Read the data from which counts are computed, with only the newest `most` copies; by
        default all.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        tenant = tenant_of(user)
        config = await self.configs.get(tenant, inbox)
        view = await self.views.get(tenant, inbox)
        state = await self.copies.read_state(user, inbox)
        shown = await broadcasts_for(self.showing, user, view)
        broadcasts = chosen_broadcasts(shown, config, state.preferences)
        copies = await self.copies.newest(
            user, inbox, before=None, limit=limits.USER_COPIES_MAX if most is None else most
        )
        return InboxLook(view, copies, broadcasts, state, self.clock.now())


async def broadcasts_for(
    showing: NotificationReader, user: UserKey, view: LogView
) -> list[Broadcast]:
    """Return the broadcasts that this user may see."""
    if all(broadcast.late_joiners for broadcast in view.broadcasts):
        return list(view.broadcasts)
    joined_at = await showing.joined_at(user)
    return [broadcast for broadcast in view.broadcasts if is_for(broadcast, joined_at)]
