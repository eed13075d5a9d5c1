# SPDX-License-Identifier: Apache-2.0
"""Notifications in the inboxes of the user, and the events about them."""

from datetime import datetime
from typing import Any

import msgspec


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A button of a notification."""

    id: str
    label: str
    uri: str | None = None
    """The link that the button opens: https, or a scheme of the app."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification in an inbox of the user.

    As an event, it comes once, and only if the user is connected when it is posted.
    `Inbox.notifications` yields all others, too.
    """

    inbox: str
    id: str
    category: str | None
    sender: str | None
    received_at: datetime
    message: dict[str, Any]
    """The message as the tenant posted it: title, body, optionally a link, and the tenant's own
    fields."""
    read_at: datetime | None = None
    host_system_id: str | None = None
    seen_at: datetime | None = None
    archived_at: datetime | None = None
    snoozed_until: datetime | None = None
    """End of the snooze, also if it has passed."""
    actions: list[Action] = []
    action: str | None = None
    """Id of the action that the user chose."""
    acted_at: datetime | None = None
    collapse_key: str | None = None
    """Of all notifications with this key, only the newest is shown."""
    collapsed: int = 0
    """Number of older unread notifications with the same key."""

    @property
    def title(self) -> str:
        """The title of the notification."""
        return str(self.message.get("title", ""))

    @property
    def body(self) -> str:
        """The text of the notification."""
        return str(self.message.get("body", ""))

    @property
    def cta_uri(self) -> str | None:
        """The link that a tap on the notification opens; None without a link."""
        link = self.message.get("cta_uri")
        return None if link is None else str(link)


class NotificationRetracted(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant retracted a notification, which must not be shown any more."""

    inbox: str
    id: str


class InboxUnreadChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The unread count of an inbox changed, but not because of a new notification."""

    inbox: str
    total: int
    categories: dict[str, int]
    exact: bool = True
    """False if only the newest notifications were counted, right after connecting."""
    unseen: int | None = None
    """How many of them the user has not seen; None if it is all of them."""


class InboxMissed(msgspec.Struct, frozen=True, kw_only=True):
    """The number of notifications in an inbox that this client has not received yet."""

    inbox: str
    count: int
    exact: bool


class InboxStateChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The user changed states of notifications, or chose an action, on this or another device.

    States that did not change are None.
    """

    inbox: str
    ids: tuple[str, ...] = ()
    """The notifications; empty if `before` is given."""
    before: datetime | None = None
    """All notifications that were received up to this time."""
    seen: bool | None = None
    read: bool | None = None
    archived: bool | None = None
    snooze_until: datetime | msgspec.UnsetType | None = msgspec.UNSET
    """End of the snooze; None if the user ended it, UNSET if it did not change."""
    action: str | None = None
    acted_at: datetime | None = None
