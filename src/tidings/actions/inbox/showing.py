# SPDX-License-Identifier: Apache-2.0
"""Encrypt the texts of notifications with the tenant's key, and decrypt them for readers."""

from collections.abc import Sequence

import msgspec

from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.inbox.broadcast_log import LogViews
from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.ids import TIME_MS_MAX, UserKey
from tidings.model.notifications import Broadcast, Notification, Text
from tidings.ports.inboxes import Notifications
from tidings.ports.people import UserStore
from tidings.ports.world import Clock


class OpenedNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification with its decrypted text."""

    notification_id: str
    category: str | None
    posted_at: int
    expires_at: int
    text: Text


class NotificationTexts:
    """Encrypts and decrypts texts of notifications, each bound to its notification."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def seal(self, tenant: str, inbox: str, name: str, text: Text) -> Sealed:
        """Encrypt a text; `name` is the id of a notification, or the writer's mark of a
        broadcast."""
        encoded = msgspec.json.encode(text).decode()
        return await self._vault.seal_text(author_of(tenant), _bound_to(inbox, name), encoded)

    async def open(
        self, tenant: str, inbox: str, name: str, box: bytes | None, box_key: int
    ) -> Text | None:
        """Decrypt a text; return None if it was removed, or belongs to another notification."""
        if box is None:
            return None
        text = await self._vault.open_text(
            author_of(tenant), _bound_to(inbox, name), Sealed(box, box_key)
        )
        return None if text is None else msgspec.json.decode(text, type=Text)


class NotificationReader:
    """Reads notifications, and returns only those that may be shown.

    Retracted and expired notifications are not shown.
    """

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
        self._joined: LruCache[UserKey, int] = LruCache(limits.CACHED_JOINS_MAX, name="joins")

    async def copy_text(
        self, tenant: str, inbox: str, notification_id: str
    ) -> OpenedNotification | None:
        """Return a notification that was posted to listed users, if it may be shown."""
        view = await self._views.get(tenant, inbox)
        if view.is_retracted(notification_id):
            return None
        shown = await self.copy_texts(tenant, inbox, [notification_id])
        return shown.get(notification_id)

    async def copy_texts(
        self, tenant: str, inbox: str, notification_ids: Sequence[str]
    ) -> dict[str, OpenedNotification]:
        """Return notifications by id; leave out those that have expired or have no content.

        The caller must leave out retracted notifications.
        """
        if not notification_ids:
            return {}
        found = await self._notifications.get(tenant, inbox, notification_ids)
        opened = [await self._shown(each, each.notification_id) for each in found]
        return {each.notification_id: each for each in opened if each is not None}

    async def broadcast_text(self, broadcast: Broadcast) -> OpenedNotification | None:
        """Return a broadcast with its text; None if it has expired or has no content."""
        return await self._shown(broadcast, broadcast.mark)

    async def joined_at(self, user: UserKey) -> int:
        """Return when the user was created; the maximum time if the user is unknown."""
        joined = self._joined.get(user)
        if joined is not None:
            return joined
        found = await self._users.get(user)
        if found is None:
            return TIME_MS_MAX
        self._joined.put(user, found.created_at)
        return found.created_at

    async def _shown(
        self, posted: Notification | Broadcast, name: str
    ) -> OpenedNotification | None:
        if posted.expires_at <= self._clock.now():
            return None
        text = await self._texts.open(posted.tenant, posted.inbox, name, posted.box, posted.box_key)
        if text is None:
            return None
        return OpenedNotification(
            notification_id=posted.notification_id,
            category=posted.category,
            posted_at=posted.posted_at,
            expires_at=posted.expires_at,
            text=text,
        )


def author_of(tenant: str) -> UserKey:
    """Return the author whose data key encrypts the notifications of a tenant."""
    # No user has this name, so erasing a user never destroys this key.
    return UserKey(f"{tenant}:*")


def _bound_to(inbox: str, name: str) -> str:
    return f"notification\0{inbox}\0{name}"
