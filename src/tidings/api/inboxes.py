# SPDX-License-Identifier: Apache-2.0
"""Inboxes, for the users who read them: the list, the unread count, marking as read."""

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
    """Which part of the inbox: from where on, of a category, unread or read."""

    cursor: str | None = None
    category: Category | None = None
    unread: Literal["true", "false"] | None = None


class NotificationsQuery(PartQuery, frozen=True, kw_only=True):
    """Likewise, and how much of it."""

    limit: Limit = limits.PAGE_DEFAULT


class NotificationList(msgspec.Struct):
    """Part of an inbox, newest first; only `next_cursor` null is the end, an empty page is not."""

    data: list[NotificationRecord]
    next_cursor: str | None


class ReadChange(Body, frozen=True):
    """What is read: these notifications, or all that came up to a time. One of the two."""

    ids: ReadIds | None = None
    before: Time | None = None


def mark_cost(change: ReadChange) -> int:
    """What marking costs, whichever path the request came by."""
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
    """Newest first. What was taken back or has expired is left out."""
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
    """Ids that the user does not have are passed over. Answers with what is left unread."""
    return await marked(inbox_verbs, user, inbox, data)


@operation(
    "GET",
    "/v1/inboxes/{inbox}/unread",
    tag=TAG,
    summary="Count my unread notifications",
    refusals=(InboxNotFound,),
)
async def count_unread(user: UserKey, inbox: str, inbox_verbs: InboxVerbs) -> UnreadRecord:
    """Those without a category count in the total only."""
    return unread_record(await inbox_verbs.unread(user, inbox))


async def listed(
    verbs: InboxVerbs, user: UserKey, inbox: str, asked: PartQuery, limit: int
) -> NotificationList:
    """The list, whichever path the request came by."""
    wanted = ListFilter(
        limit=limit,
        cursor=asked.cursor,
        category=asked.category,
        unread=None if asked.unread is None else asked.unread == "true",
    )
    page, cursor = await verbs.list(user, inbox, wanted)
    return NotificationList(
        [notification_record(one.received, one.shown.text) for one in page], cursor
    )


async def marked(verbs: InboxVerbs, user: UserKey, inbox: str, change: ReadChange) -> UnreadRecord:
    """Mark as read, whichever path the request came by."""
    if (change.ids is None) == (change.before is None):
        raise Invalid("either ids or before is needed", "")
    if change.ids is not None:
        return unread_record(await verbs.read.some(user, inbox, change.ids))
    assert change.before is not None
    try:
        time = from_rfc3339(change.before)
    except ValueError as error:
        raise Invalid(f"before: {error}", "/before") from None
    return unread_record(await verbs.read.before(user, inbox, time))


OPERATIONS: Final = (list_notifications, mark_notifications_read, count_unread)
