# SPDX-License-Identifier: Apache-2.0
"""Mark notifications as read: listed ones, or all up to a time."""

from collections.abc import Collection, Sequence

import msgspec

from tidings.actions.inbox.broadcast_log import LogViews
from tidings.actions.inbox.counting import CountUnread, InboxLook, broadcasts_for
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationReader
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of, ulid_time
from tidings.model.inbox_reading import LogView, UnreadCount, count_unread
from tidings.model.notification_states import Mark, StateChange, StateKind
from tidings.model.notifications import NOTIFICATION, Broadcast, broadcast_sequence
from tidings.model.refusals import Invalid
from tidings.model.state_times import BROADCAST_TIMES, COPY_TIMES, copy_read_at
from tidings.ports.bus import Bus, InboxRead
from tidings.ports.inbox_states import InboxStates
from tidings.ports.inboxes import Copies
from tidings.ports.world import Clock

_UNMOVED = Mark(0, 0)


class MoveMarks(msgspec.Struct, frozen=True):
    """Moves a user's marks, and makes sure that all notifications up to them have the states."""

    configs: InboxConfigs
    copies: Copies
    states: InboxStates
    views: LogViews
    clock: Clock
    count: CountUnread

    async def __call__(
        self, user: UserKey, inbox: str, time: int, kinds: Sequence[StateKind]
    ) -> UnreadCount:
        """Set states of all notifications that were received up to a time; return the counts.

        Raises:
            InboxNotFound: There is no such inbox.
        """
        await self.configs.get(tenant_of(user), inbox)
        mark = await self._mark(tenant_of(user), inbox, time)
        for kind in kinds:
            if kind == "read":
                await self.copies.read_before(user, inbox, *mark)
            else:
                await self.states.mark_before(user, inbox, kind, *mark)
        return await self.settle(user, inbox, kinds, mark)

    async def _mark(self, tenant: str, inbox: str, time: int) -> Mark:
        view = await self.views.get(tenant, inbox, age_ms=0)
        now = self.clock.now()
        # Broadcasts that were posted in a burst have times a little ahead of the clock.
        until = max(now, view.head_at) if time >= now else time
        return Mark(min(time, now), view.last_broadcast_until(until))

    async def settle(
        self,
        user: UserKey,
        inbox: str,
        kinds: Sequence[StateKind],
        mark: Mark = _UNMOVED,
        ids: Collection[str] = (),
    ) -> UnreadCount:
        """Set states one by one where a mark had no effect; return the counts.

        A mark that does not move forward has no effect on notifications that the user has set back,
        for example to unread. The same holds for the read marks of the broadcasts `ids`.
        """
        look = await self.look(user, inbox, ids)
        is_settled = True
        for kind in kinds:
            is_settled &= await self._settle(user, inbox, look, kind, mark, ids)
        if not is_settled:
            look = await self.count.look(user, inbox)
        return count_unread(*look)

    async def look(self, user: UserKey, inbox: str, ids: Collection[str]) -> InboxLook:
        """Read the data from which counts are computed, including the listed broadcasts.

        The id of a scheduled broadcast looks like that of a copy. An id that is unknown here may be
        one that another process has just delivered: the log is then read again.
        """
        look = await self.count.look(user, inbox)
        copies = {copy.notification_id for copy in look.copies}
        unknown = [name for name in ids if name not in copies and not look.view.broadcast(name)]
        if unknown:
            view = await self.views.get(tenant_of(user), inbox, age_ms=0)
            if any(view.broadcast(name) for name in unknown):
                look = await self.count.look(user, inbox)
        return look

    async def _settle(
        self,
        user: UserKey,
        inbox: str,
        look: InboxLook,
        kind: StateKind,
        mark: Mark,
        ids: Collection[str],
    ) -> bool:
        """Set a state where it is missing; return True if no notification lacked it."""
        change, state = StateChange(**{kind: True}), look.state
        copies = [
            copy.notification_id
            for copy in look.copies
            if copy.received_at <= mark.before and COPY_TIMES[kind](copy, state) is None
        ]
        broadcasts = [
            sent
            for sent in await broadcasts_for(self.count.showing, user, look.view)
            if (sent.sequence <= mark.announced or sent.notification_id in ids)
            and BROADCAST_TIMES[kind](sent, state) is None
        ]
        for start in range(0, len(copies), limits.READ_IDS_MAX):
            some = copies[start : start + limits.READ_IDS_MAX]
            await self.states.change_copies(user, inbox, some, change, state, look.now)
        if broadcasts:
            await self.states.change_broadcasts(user, inbox, broadcasts, change, state, look.now)
        return not copies and not broadcasts


class FindListed(msgspec.Struct, frozen=True):
    """Finds the notifications that a request lists by their ids."""

    views: LogViews
    showing: NotificationReader

    async def __call__(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str]
    ) -> tuple[list[str], list[Broadcast]]:
        """Return the ids that copies can have, and the broadcasts that the user may see.

        Raises:
            Invalid: There are too many ids, or none.
        """
        if not 1 <= len(notification_ids) <= limits.READ_IDS_MAX:
            raise Invalid(f"ids must contain 1 to {limits.READ_IDS_MAX} ids", "/ids")
        distinct = dict.fromkeys(notification_ids)
        ids = [each for each in distinct if NOTIFICATION.fullmatch(each)]
        if not ids:
            return [], []
        view = await self.view_with(tenant_of(user), inbox, ids)
        sent = {each.notification_id for each in view.broadcasts}
        copy_ids = [each for each in ids if broadcast_sequence(each) is None and each not in sent]
        if len(copy_ids) == len(ids):
            return copy_ids, []
        broadcasts = await broadcasts_for(self.showing, user, view)
        return copy_ids, [each for each in broadcasts if each.notification_id in ids]

    async def view_with(self, tenant: str, inbox: str, ids: Sequence[str]) -> LogView:
        """Return a view that includes these broadcasts.

        The log is read again if another process appended some of them since the last read.
        """
        view = await self.views.get(tenant, inbox)
        if max(broadcast_sequence(each) or 0 for each in ids) > view.head:
            view = await self.views.get(tenant, inbox, age_ms=0)
        return view


class MarkRead(msgspec.Struct, frozen=True):
    """Mark listed notifications as read, or all notifications up to a time."""

    configs: InboxConfigs
    copies: Copies
    find: FindListed
    move: MoveMarks
    bus: Bus
    clock: Clock

    async def some(self, user: UserKey, inbox: str, notification_ids: Sequence[str]) -> UnreadCount:
        """Mark these notifications as read and ignore unknown ids; return the unread count."""
        await self.configs.get(tenant_of(user), inbox)
        copy_ids, broadcasts = await self.find(user, inbox, notification_ids)
        now = self.clock.now()
        if copy_ids:
            await self.copies.mark_read(user, inbox, copy_ids, now)
        if broadcasts:
            sequences = [each.sequence for each in broadcasts]
            await self.copies.read_broadcasts(user, inbox, sequences, now)
        self.bus.publish(InboxRead(user, inbox))
        ids = {*copy_ids, *(each.notification_id for each in broadcasts)}
        return await self.move.settle(user, inbox, ("read",), ids=ids)

    async def before(self, user: UserKey, inbox: str, time: int) -> UnreadCount:
        """Mark all notifications up to this time as read; return the unread count."""
        try:
            return await self.move(user, inbox, time, ("read",))
        finally:
            self.bus.publish(InboxRead(user, inbox))

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
