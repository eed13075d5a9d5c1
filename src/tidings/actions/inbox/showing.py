# SPDX-License-Identifier: Apache-2.0
"""The text of notifications: sealed with the tenant's own key, opened for whoever may see it."""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.inbox.log_views import LogViews
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.notifications import Broadcast, Notification
from tidings.model.postings import Text
from tidings.model.times import TIME_MS_MAX
from tidings.ports.inboxes import Notifications
from tidings.ports.people import UserStore
from tidings.ports.world import Clock


class OpenedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification with its text."""

    notification_id: str
    category: str | None
    posted_at: int
    expires_at: int
    text: Text


class NotificationTexts:
    """Seals and opens. A text opens only as that of its own notification."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def seal(self, tenant: str, inbox: str, name: str, text: Text) -> Sealed:
        """Seal the text; `name` is the id of one for listed users, the mark of one for everyone."""
        encoded = msgspec.json.encode(text).decode()
        return await self._vault.seal_text(_author(tenant), _bound_to(inbox, name), encoded)

    async def open(
        self, tenant: str, inbox: str, name: str, box: bytes | None, box_key: int
    ) -> Text | None:
        """The text; None if it is gone, or was not sealed as this one's."""
        if box is None:
            return None
        text = await self._vault.open_text(
            _author(tenant), _bound_to(inbox, name), Sealed(box, box_key)
        )
        return None if text is None else msgspec.json.decode(text, type=Text)


class NotificationReader:
    """What can be shown of an inbox to somebody: never what was taken back or has expired."""

    def __init__(
        self,
        notifications: Notifications,
        users: UserStore,
        views: LogViews,
        texts: NotificationTexts,
        clock: Clock,
    ) -> None:
        self._notifications = notifications
        self._users = users
        self._views = views
        self._texts = texts
        self._clock = clock
        self._joined: OrderedDict[UserKey, int] = OrderedDict()

    async def copy_text(
        self, tenant: str, inbox: str, notification_id: str
    ) -> OpenedNotification | None:
        """One for listed users, if it can be shown to those who have a copy."""
        view = await self._views.get(tenant, inbox)
        if view.is_retracted(notification_id):
            return None
        shown = await self.copy_texts(tenant, inbox, [notification_id])
        return shown.get(notification_id)

    async def copy_texts(
        self, tenant: str, inbox: str, notification_ids: Sequence[str]
    ) -> dict[str, OpenedNotification]:
        """Those for listed users that have their content; the caller knows what was taken back."""
        if not notification_ids:
            return {}
        found = await self._notifications.get(tenant, inbox, notification_ids)
        shown = [await self._shown(one, one.notification_id) for one in found]
        return {one.notification_id: one for one in shown if one is not None}

    async def broadcast_text(self, announcement: Broadcast) -> OpenedNotification | None:
        """One for everyone, if it has its content."""
        return await self._shown(announcement, announcement.mark)

    async def joined_at(self, user: UserKey) -> int:
        """Since when there is this user; for one who is not there, the end of time."""
        joined = self._joined.get(user)
        if joined is not None:
            self._joined.move_to_end(user)
            return joined
        found = await self._users.get(user)
        if found is None:
            return TIME_MS_MAX
        self._joined[user] = found.created_at
        while len(self._joined) > limits.CACHED_JOINS_MAX:
            self._joined.popitem(last=False)
        return found.created_at

    async def _shown(self, one: Notification | Broadcast, name: str) -> OpenedNotification | None:
        if one.expires_at <= self._clock.now():
            return None
        text = await self._texts.open(one.tenant, one.inbox, name, one.box, one.box_key)
        if text is None:
            return None
        return OpenedNotification(
            notification_id=one.notification_id,
            category=one.category,
            posted_at=one.posted_at,
            expires_at=one.expires_at,
            text=text,
        )


def _author(tenant: str) -> UserKey:
    # No user has this name, so nobody's erasure takes the key away.
    return UserKey(f"{tenant}:*")


def _bound_to(inbox: str, name: str) -> str:
    return f"notification\0{inbox}\0{name}"
