# SPDX-License-Identifier: Apache-2.0
"""Public records of inboxes, notifications and unread counts, as clients see them."""

from typing import Any, Literal

import msgspec

from tidings.model.ids import rfc3339
from tidings.model.inbox_reading import InboxItem, UnreadCount
from tidings.model.notifications import InboxConfig, Text


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


class PostedRecord(msgspec.Struct):
    """An accepted notification, with the number of users it is for."""

    id: str
    recipients: int
    estimated: bool
    status: Literal["queued", "done"]


class ProgressRecord(msgspec.Struct):
    """Progress of a notification: how many of its users have received it."""

    id: str
    status: Literal["queued", "running", "done", "redacted"]
    recipients: int
    delivered: int
    label: str | None


class NotificationRecord(msgspec.Struct, kw_only=True):
    """A notification as a user sees it."""

    id: str
    host_system_id: str | None
    category: str | None
    sender: str | None
    received_at: str
    read_at: str | None
    message: dict[str, Any]


class UnreadRecord(msgspec.Struct):
    """Unread notifications, in total and by category; categories with none are left out."""

    total: int
    categories: dict[str, int]


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
    )


def notification_record(received: InboxItem, text: Text) -> NotificationRecord:
    """Return the record of a notification with its text."""
    return NotificationRecord(
        id=received.notification_id,
        host_system_id=text.host_system_id,
        category=received.category,
        sender=text.sender,
        received_at=rfc3339(received.received_at),
        read_at=None if received.read_at is None else rfc3339(received.read_at),
        message=text.message,
    )


def unread_record(count: UnreadCount) -> UnreadRecord:
    """Return the record of unread counts."""
    return UnreadRecord(count.total, count.categories)
