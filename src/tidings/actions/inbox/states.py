# SPDX-License-Identifier: Apache-2.0
"""Change the states of notifications, and take the action that a user chooses."""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.inbox.marking import FindListed, MoveMarks
from tidings.actions.inbox.settings import InboxConfigs
from tidings.actions.inbox.showing import NotificationReader
from tidings.actions.webhooks.events import TenantEvents
from tidings.model.ids import UserKey, rfc3339, tenant_of, user_id
from tidings.model.inbox_reading import UnreadCount, count_unread
from tidings.model.limits import SECOND_MS
from tidings.model.notification_states import (
    BROADCAST_STATES_MAX,
    SNOOZE_MS_MAX,
    Acted,
    StateChange,
)
from tidings.model.notifications import NOTIFICATION, Broadcast, ReadState
from tidings.model.refusals import Invalid, LimitReached, NotificationNotFound
from tidings.model.state_times import is_implied
from tidings.ports.bus import Bus, StatesChanged
from tidings.ports.inbox_states import InboxStates
from tidings.ports.inboxes import Copies
from tidings.ports.world import Clock

READ: Final = StateChange(read=True)
EVENT_REPEATED_MS: Final = 60 * SECOND_MS
"""How long after an action a repeated request raises its event again."""


class BroadcastRoom(msgspec.Struct, frozen=True):
    """Limits how many broadcasts of an inbox have states of their own for a user."""

    states: InboxStates
    clock: Clock

    async def make(
        self, user: UserKey, inbox: str, state: ReadState, broadcasts: Sequence[Broadcast]
    ) -> None:
        """Make room for the states of these broadcasts; remove states that the marks imply.

        Raises:
            LimitReached: There is no room.
        """
        now = self.clock.now()
        known = [own for own in state.broadcasts.values() if own.expires_at > now]
        more = sum(each.sequence not in state.broadcasts for each in broadcasts)
        if more == 0 or len(known) + more <= BROADCAST_STATES_MAX:
            return
        implied = [own for own in known if is_implied(own, state, now)]
        if len(known) - len(implied) + more > BROADCAST_STATES_MAX:
            raise LimitReached(
                f"states of {BROADCAST_STATES_MAX} notifications to everyone are stored: "
                "archive all up to a time with `before`"
            )
        await self.states.forget_broadcasts(user, inbox, implied)


class ChangeStates(msgspec.Struct, frozen=True):
    """Change the states of listed notifications, or of all notifications up to a time."""

    configs: InboxConfigs
    copies: Copies
    states: InboxStates
    find: FindListed
    move: MoveMarks
    room: BroadcastRoom
    bus: Bus
    clock: Clock

    async def some(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str], change: StateChange
    ) -> UnreadCount:
        """Change these notifications and ignore unknown ids; return the counts.

        Raises:
            InboxNotFound: There is no such inbox.
            Invalid: The change is empty, or snoozes for too long; there are too many ids, or none.
            LimitReached: Too many broadcasts of the inbox have states of their own.
        """
        now = self.clock.now()
        _check(change, now)
        await self.configs.get(tenant_of(user), inbox)
        copy_ids, broadcasts = await self.find(user, inbox, notification_ids)
        state = await self.copies.read_state(user, inbox)
        if broadcasts:
            await self._change_broadcasts(user, inbox, broadcasts, change, state, now)
        if copy_ids:
            await self.states.change_copies(user, inbox, copy_ids, change, state, now)
        ids = (*copy_ids, *(each.notification_id for each in broadcasts))
        self.bus.publish(StatesChanged(user, inbox, change, ids=ids))
        look = await self.move.look(user, inbox, copy_ids)
        if late := [name for name in copy_ids if look.view.broadcast(name)]:
            # They are no copies: another process has just delivered them to everyone.
            return await self.some(user, inbox, late, change)
        return count_unread(*look)

    async def _change_broadcasts(
        self,
        user: UserKey,
        inbox: str,
        broadcasts: Sequence[Broadcast],
        change: StateChange,
        state: ReadState,
        now: int,
    ) -> None:
        own = broadcasts
        if change == READ:
            # There is more room for plain read marks than for other states.
            own = [each for each in broadcasts if each.sequence in state.broadcasts]
            plain = [each.sequence for each in broadcasts if each.sequence not in state.broadcasts]
            await self.copies.read_broadcasts(user, inbox, plain, now)
        if own:
            await self.room.make(user, inbox, state, own)
            await self.states.change_broadcasts(user, inbox, own, change, state, now)

    async def before(
        self, user: UserKey, inbox: str, time: int, change: StateChange
    ) -> UnreadCount:
        """Change all notifications that were received up to a time; return the counts.

        Raises:
            InboxNotFound: There is no such inbox.
            Invalid: The change is empty, takes a state away, or snoozes.
        """
        _check(change, self.clock.now())
        if change != StateChange(**dict.fromkeys(change.kinds, True)):
            raise Invalid("with before, seen, read and archived can only be true", "/before")
        try:
            return await self.move(user, inbox, time, change.kinds)
        finally:
            until = min(time, self.clock.now())
            self.bus.publish(StatesChanged(user, inbox, change, before=until))


def _check(change: StateChange, now: int) -> None:
    if change.is_empty:
        raise Invalid("at least one of seen, read, archived and snooze_until must be given", "")
    until = change.snoozed_until
    if isinstance(until, int) and until > now + SNOOZE_MS_MAX:
        raise Invalid("snooze_until: must be within a year", "/snooze_until")


class ActOnNotification(msgspec.Struct, frozen=True):
    """Take the action of a notification that a user chose. Only the first action is taken."""

    configs: InboxConfigs
    copies: Copies
    states: InboxStates
    find: FindListed
    showing: NotificationReader
    room: BroadcastRoom
    events: TenantEvents
    bus: Bus
    clock: Clock

    async def __call__(self, user: UserKey, inbox: str, notification_id: str, action: str) -> Acted:
        """Store the action, and mark the notification as read; return the action that was taken.

        If the user already chose an action, perhaps another one, that action is returned.

        Raises:
            InboxNotFound: There is no such inbox.
            NotificationNotFound: The user has no such notification, or it has expired.
            ActionNotFound: The notification has no such action.
            LimitReached: Too many broadcasts of the inbox have states of their own.
        """
        await self.configs.get(tenant_of(user), inbox)
        if NOTIFICATION.fullmatch(notification_id) is None:
            raise NotificationNotFound
        if await self._has_copy(user, inbox, notification_id):
            acted = await self._on_copy(user, inbox, notification_id, action)
        else:
            acted = await self._on_broadcast(user, inbox, notification_id, action)
        change = StatesChanged(user, inbox, READ, ids=(notification_id,), acted=acted)
        self.bus.publish(change)
        # A repeat raises the event again, because the first request may have failed to do so.
        if acted.action == action and self.clock.now() - acted.at <= EVENT_REPEATED_MS:
            await self._raise_event(user, inbox, notification_id, acted)
        return acted

    async def _raise_event(
        self, user: UserKey, inbox: str, notification_id: str, acted: Acted
    ) -> None:
        data = {
            "inbox": inbox,
            "notification_id": notification_id,
            "user_id": user_id(user),
            "action": acted.action,
            "acted_at": rfc3339(acted.at),
        }
        await self.events(tenant_of(user), "notification.acted", data)

    async def _has_copy(self, user: UserKey, inbox: str, notification_id: str) -> bool:
        copy_ids, _ = await self.find(user, inbox, [notification_id])
        if not copy_ids:
            return False
        if await self.copies.holders([user], inbox, notification_id):
            return True
        # It may be a broadcast that another process has just delivered.
        await self.find.views.get(tenant_of(user), inbox, age_ms=0)
        return False

    async def _on_copy(self, user: UserKey, inbox: str, notification_id: str, action: str) -> Acted:
        shown = await self.showing.copy_text(tenant_of(user), inbox, notification_id)
        if shown is None:
            raise NotificationNotFound
        shown.text.check_action(action)
        acted = await self.states.act_on_copy(
            user, inbox, notification_id, action, self.clock.now()
        )
        if acted is None:
            raise NotificationNotFound
        return acted

    async def _on_broadcast(
        self, user: UserKey, inbox: str, notification_id: str, action: str
    ) -> Acted:
        _, broadcasts = await self.find(user, inbox, [notification_id])
        shown = await self.showing.broadcast_text(broadcasts[0]) if broadcasts else None
        if shown is None:
            raise NotificationNotFound
        shown.text.check_action(action)
        state = await self.copies.read_state(user, inbox)
        await self.room.make(user, inbox, state, broadcasts)
        return await self.states.act_on_broadcast(
            user, inbox, broadcasts[0], action, self.clock.now()
        )
