# SPDX-License-Identifier: Apache-2.0
"""Inboxes, for the users who read them: listing, counting unread, marking as read."""

from typing import Final, Literal

import msgspec

from tidings.actions.inbox.reading import ListFilter
from tidings.actions.verbs import InboxVerbs
from tidings.api.fields import Category, Limit, ReadIds, Time
from tidings.api.operations import operation
from tidings.api.requests import Body, Query
from tidings.model import costs, limits
from tidings.model.ids import UserKey
from tidings.model.refusals import CursorInvalid, InboxNotFound, Invalid
from tidings.model.times import from_rfc3339
from tidings.wire.inbox_records import (
    NotificationRecord,
    UnreadRecord,
    notification_record,
    unread_record,
)

TAG: Final = "Inboxes"


class PartQuery(Query, frozen=True, kw_only=True):
    """Which part of the inbox to list: cursor, category, unread or read."""

    cursor: str | None = None
    category: Category | None = None
    unread: Literal["true", "false"] | None = None


class NotificationsQuery(PartQuery, frozen=True, kw_only=True):
    """Which part of the inbox to list, and how many notifications."""

    limit: Limit = limits.PAGE_DEFAULT


class NotificationList(msgspec.Struct):
    """A page of an inbox, newest first; the end is `next_cursor` null, not an empty page."""

    data: list[NotificationRecord]
    next_cursor: str | None


class ReadChange(Body, frozen=True):
    """The notifications to mark as read: either these ids, or all received up to a time."""

    ids: ReadIds | None = None
    before: Time | None = None


def mark_cost(change: ReadChange) -> int:
    """Return the cost of marking, for both paths of the operation."""
    return costs.look_up(len(change.ids or ()))


@operation(
    "GET",
    "/v1/inboxes/{inbox}/notifications",
    tag=TAG,
    summary="List my notifications",
    refusals=(InboxNotFound, CursorInvalid),
    cost=lambda asked: costs.page(asked.limit),
)
async def list_notifications(
    user: UserKey,
    inbox: str,
    asked: NotificationsQuery,
    inbox_verbs: InboxVerbs,
) -> NotificationList:
    """Return a page of the caller's notifications, newest first, without retracted and expired
    ones."""
    return await listed(inbox_verbs, user, inbox, asked, asked.limit)


@operation(
    "PUT",
    "/v1/inboxes/{inbox}/read",
    tag=TAG,
    summary="Mark notifications as read",
    refusals=(InboxNotFound,),
    body_cost=mark_cost,
)
async def mark_notifications_read(
    user: UserKey, inbox: str, data: ReadChange, inbox_verbs: InboxVerbs
) -> UnreadRecord:
    """Mark notifications as read and return the unread counts that remain. Ids of notifications
    that the user does not have are ignored."""
    return await marked(inbox_verbs, user, inbox, data)


@operation(
    "GET",
    "/v1/inboxes/{inbox}/unread",
    tag=TAG,
    summary="Count my unread notifications",
    refusals=(InboxNotFound,),
)
async def count_unread(user: UserKey, inbox: str, inbox_verbs: InboxVerbs) -> UnreadRecord:
    """Return the number of unread notifications in total and by category. Notifications without
    a category are in the total only."""
    return unread_record(await inbox_verbs.unread(user, inbox))


async def listed(
    verbs: InboxVerbs, user: UserKey, inbox: str, asked: PartQuery, limit: int
) -> NotificationList:
    """Return a page of notifications, for both paths of the operation."""
    wanted = ListFilter(
        limit=limit,
        cursor=asked.cursor,
        category=asked.category,
        unread=None if asked.unread is None else asked.unread == "true",
    )
    page, cursor = await verbs.list(user, inbox, wanted)
    return NotificationList(
        [
            notification_record(notification.received, notification.shown.text)
            for notification in page
        ],
        cursor,
    )


async def marked(verbs: InboxVerbs, user: UserKey, inbox: str, change: ReadChange) -> UnreadRecord:
    """Mark as read, for both paths of the operation."""
    if (change.ids is None) == (change.before is None):
        raise Invalid("either ids or before must be given", "")
    if change.ids is not None:
        return unread_record(await verbs.read.some(user, inbox, change.ids))
    assert change.before is not None
    try:
        time = from_rfc3339(change.before)
    except ValueError as error:
        raise Invalid(f"before: {error}", "/before") from None
    return unread_record(await verbs.read.before(user, inbox, time))


OPERATIONS: Final = (list_notifications, mark_notifications_read, count_unread)
