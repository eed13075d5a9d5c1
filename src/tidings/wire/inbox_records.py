# SPDX-License-Identifier: Apache-2.0
"""Public records of inboxes, notifications and unread counts, as clients see them."""

from typing import Any, Literal

import msgspec

from tidings.model.ids import UserKey, rfc3339, user_id
from tidings.model.inbox_reading import InboxItem, UnreadCount
from tidings.model.limits import SECOND_MS
from tidings.model.notifications import (
    Broadcast,
    InboxConfig,
    Notification,
    NotificationAction,
    Text,
)
from tidings.model.preferences import CategoryRule


class InboxRecord(msgspec.Struct, kw_only=True):
    """An inbox. If `late_joiners` or `keep_days` is null, the tenant's setting applies."""

    inbox: str
    title: str
    description: str
    schema_version: str
    categories: list[str] | None
    late_joiners: bool | None
    keep_days: int | None
    message_schema: dict[str, Any] | None
    category_rules: dict[str, CategoryRule] | None


class PostedRecord(msgspec.Struct):
    """An accepted notification, with the number of users it is for."""

    id: str
    recipients: int
    estimated: bool
    status: Literal["queued", "done", "scheduled"]


class ProgressRecord(msgspec.Struct):
    """Progress of a notification: how many of its users have received it."""

    id: str
    status: Literal["scheduled", "queued", "running", "done", "redacted", "restored", "failed"]
    recipients: int
    delivered: int
    label: str | None


class PostedNotificationRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A notification as the tenant that posted it sees it; after a retraction it has no text.

    A notification that is `scheduled` has the time of its delivery in `posted_at`.
    """

    id: str
    audience: Literal["users", "everyone"]
    recipients: int
    label: str | None
    category: str | None
    sender: str | None
    host_system_id: str | None
    posted_at: str
    expires_at: str
    scheduled: bool
    redacted: bool
    message: dict[str, Any] | None
    actions: list[NotificationAction] = []
    collapse_key: str | None = None


class NotificationRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A notification as a user sees it. Fields about states, actions and collapse keys are left out
    if there is nothing to say."""

    id: str
    host_system_id: str | None
    category: str | None
    sender: str | None
    received_at: str
    read_at: str | None
    message: dict[str, Any]
    seen_at: str | None = None
    archived_at: str | None = None
    snoozed_until: str | None = None
    """End of the snooze, also if it has passed."""
    actions: list[NotificationAction] = []
    action: str | None = None
    """Id of the action that the user chose."""
    acted_at: str | None = None
    collapse_key: str | None = None
    collapsed: int = 0
    """Number of older unread notifications with the same key, which lists leave out."""


class StackAudience(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The users whom a notification is for, as one of them sees it: no other user is named."""

    kind: Literal["users", "everyone"]
    label: str | None = None
    uids: list[str] | None = None


class StackMessageRecord(msgspec.Struct, kw_only=True):
    """A notification as a user sees it under `/stack`. Times are in seconds since 1970."""

    id: str
    host_system_id: str | None
    category: str | None
    sender: str | None
    audiences: StackAudience
    received: int
    delivered: int
    readat: int | None
    message: dict[str, Any]


class UnreadRecord(msgspec.Struct):
    """Unread notifications, in total and by category; categories with none are left out."""

    total: int
    categories: dict[str, int]
    unseen: int | msgspec.UnsetType = msgspec.UNSET
    """How many of them the user has not seen; absent if it is all of them."""


class StateCountRecord(msgspec.Struct):
    """Notifications that are unseen and unread, the unread ones also by category; categories with
    none are left out."""

    unseen: int
    unread: int
    categories: dict[str, int]


class ActedRecord(msgspec.Struct):
    """The action of a notification that the user chose first."""

    id: str
    action: str
    acted_at: str


def inbox_record(inbox: str, config: InboxConfig) -> InboxRecord:
    """Return the record of an inbox."""
    return InboxRecord(
        inbox=inbox,
        title=config.title,
        description=config.description,
        schema_version=config.schema_version,
        categories=None if config.categories is None else list(config.categories),
        late_joiners=config.late_joiners,
        keep_days=config.keep_days,
        message_schema=config.message_schema,
        category_rules=config.category_rules,
    )


def posted_record(
    posted: Notification | Broadcast, text: Text | None, *, is_scheduled: bool
) -> PostedNotificationRecord:
    """Return the record of a posted notification; without a text it was retracted."""
    is_listed = isinstance(posted, Notification) and not posted.everyone
    return PostedNotificationRecord(
        id=posted.notification_id,
        audience="users" if is_listed else "everyone",
        recipients=posted.recipients,
        label=text.label if text else None,
        category=posted.category,
        sender=text.sender if text else None,
        host_system_id=text.host_system_id if text else None,
        posted_at=rfc3339(posted.posted_at),
        expires_at=rfc3339(posted.expires_at),
        scheduled=is_scheduled,
        redacted=text is None,
        message=text.message if text else None,
        actions=list(text.actions) if text else [],
        collapse_key=text.collapse_key if text else None,
    )


def notification_record(received: InboxItem, text: Text) -> NotificationRecord:
    """Return the record of a notification with its text."""
    return NotificationRecord(
        id=received.notification_id,
        host_system_id=text.host_system_id,
        category=received.category,
        sender=text.sender,
        received_at=rfc3339(received.received_at),
        read_at=_time(received.read_at),
        message=text.message,
        seen_at=_time(received.seen_at),
        archived_at=_time(received.archived_at),
        snoozed_until=_time(received.snoozed_until),
        actions=list(text.actions),
        action=received.acted,
        acted_at=_time(received.acted_at),
        collapse_key=text.collapse_key,
        collapsed=received.collapsed,
    )


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else rfc3339(time_ms)


def stack_message_record(reader: UserKey, received: InboxItem, text: Text) -> StackMessageRecord:
    """Return the record of a notification with the field names of the stack API."""
    posted_at, _ = received.position
    audience = StackAudience(kind="everyone", label=text.label)
    if received.broadcast is None:
        audience = StackAudience(kind="users", label=text.label, uids=[user_id(reader)])
    return StackMessageRecord(
        id=received.notification_id,
        host_system_id=text.host_system_id,
        category=received.category,
        sender=text.sender,
        audiences=audience,
        received=_seconds(posted_at),
        # The clock of this process may be behind the clock that set the time of the post.
        delivered=_seconds(max(posted_at, received.received_at)),
        readat=None if received.read_at is None else _seconds(received.read_at),
        message=text.message,
    )


def _seconds(time_ms: int) -> int:
    return time_ms // SECOND_MS


def unread_record(count: UnreadCount) -> UnreadRecord:
    """Return the record of unread counts."""
    unseen = msgspec.UNSET if count.unseen == count.total else count.unseen
    return UnreadRecord(count.total, count.categories, unseen)
