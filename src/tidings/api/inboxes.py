# SPDX-License-Identifier: Apache-2.0
"""Operations on inboxes: their settings for tenants, and reading notifications for users."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.inbox.reading import ListedNotification, ListFilter
from tidings.actions.verbs import InboxVerbs, JobVerbs
from tidings.api import fields
from tidings.api.category_rules import CategoryRuleBody, category_rules
from tidings.api.fields import (
    Category,
    Description,
    KeepDays,
    Limit,
    Name,
    ReadIds,
    SchemaVersion,
    Time,
)
from tidings.api.jobs import JobRecord, job_record
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Body, Query
from tidings.api.tenants import ListQuery
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.notifications import InboxConfig
from tidings.model.refusals import (
    CursorInvalid,
    InboxDeleting,
    InboxNotFound,
    Invalid,
    TenantNotFound,
)
from tidings.wire.inbox_records import (
    InboxRecord,
    NotificationRecord,
    UnreadRecord,
    inbox_record,
    notification_record,
    unread_record,
)

SETTINGS_TAG: Final = "Inbox settings"

TAG: Final = "Inboxes"


class InboxChange(Body, frozen=True, kw_only=True):
    """All settings of an inbox. If `late_joiners` or `keep_days` is absent, the tenant's setting
    applies."""

    title: Name
    description: Description = ""
    schema_version: SchemaVersion = "1.0"
    categories: list[Category] | None = None
    late_joiners: bool | None = None
    keep_days: KeepDays | None = None
    message_schema: dict[str, Any] | None = None
    category_rules: dict[Category, CategoryRuleBody] | None = None


@operation(
    "GET",
    "/v1/tenants/{tenant}/settings",
    tag=SETTINGS_TAG,
    summary="Get the settings of a tenant",
    key="tenant",
    refusals=(TenantNotFound,),
)
async def get_settings(caller: Caller, tenant: str, inbox_verbs: InboxVerbs) -> dict[str, Any]:
    """Return the settings as they were stored; an empty object if there are none."""
    require_tenant(caller, tenant)
    return await inbox_verbs.settings.get(tenant)


@operation(
    "PUT",
    "/v1/tenants/{tenant}/settings",
    tag=SETTINGS_TAG,
    summary="Replace the settings of a tenant",
    key="tenant",
    refusals=(TenantNotFound,),
    audit=Audited(
        settings=(
            "login.phone",
            "login.register",
            "invites",
            "chats.keep_days",
            "before_send.on_failure",
        )
    ),
)
async def put_settings(
    caller: Caller, tenant: str, data: dict[str, Any], inbox_verbs: InboxVerbs
) -> dict[str, Any]:
    """Replace all settings with a JSON object of up to 16 KiB. The server uses five fields; it
    stores all others and ignores them. `inbox` (`keep_days`, `late_joiners`) has the defaults for
    inboxes that do not set these fields themselves. `login` (`phone`, `register`) sets whether
    users can log in by phone, and whether unknown numbers become users; both are false by default.
    `invites` is `"open"`, `"ask"` or `"contacts"`. With `"open"`, the default, a stranger can add a
    user to a group at once; with `"ask"`, the user is invited first; with `"contacts"`, only those
    can add a user to whom the user has written in a direct chat. `chats` (`keep_days`,
    `keep_days_by_chat`) sets after how many days the content of new messages is removed, for all
    chats or for single chats by id. By default it is null, and content is kept. `before_send`
    (`url`, `timeout_ms`, `on_failure`, `secret_version`) names a hook that is asked about each
    message before it is stored."""
    require_tenant(caller, tenant)
    await inbox_verbs.settings.put(tenant, data)
    return data


class InboxList(msgspec.Struct):
    """A page of a tenant's inboxes; `next_cursor` is null on the last page."""

    data: list[InboxRecord]
    next_cursor: str | None


class UserInboxRecord(msgspec.Struct, kw_only=True):
    """An inbox, as users see it."""

    inbox: str
    title: str
    description: str
    schema_version: str
    categories: list[str] | None


class UserInboxList(msgspec.Struct):
    """A page of the inboxes; `next_cursor` is null on the last page."""

    data: list[UserInboxRecord]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/inboxes",
    tag=SETTINGS_TAG,
    summary="List the inboxes of a tenant",
    key="tenant",
    refusals=(TenantNotFound, CursorInvalid),
    cost=lambda asked: rate_limits.look_up_cost(asked.limit),
)
async def list_tenant_inboxes(
    caller: Caller, tenant: str, asked: ListQuery, inbox_verbs: InboxVerbs
) -> InboxList:
    """Return the inboxes of a tenant by name, with their settings."""
    page, cursor = await inbox_verbs.inboxes.of_tenant(caller, tenant, asked.cursor, asked.limit)
    return InboxList([inbox_record(inbox, config) for inbox, config in page], cursor)


@operation(
    "GET",
    "/v1/inboxes",
    tag=TAG,
    summary="List my inboxes",
    refusals=(CursorInvalid,),
    cost=lambda asked: rate_limits.look_up_cost(asked.limit),
)
async def list_inboxes(user: UserKey, asked: ListQuery, inbox_verbs: InboxVerbs) -> UserInboxList:
    """Return the inboxes of the caller's tenant, sorted by name. All users have the same ones."""
    page, cursor = await inbox_verbs.inboxes.of_user(user, asked.cursor, asked.limit)
    return UserInboxList([_user_record(inbox, config) for inbox, config in page], cursor)


def _user_record(inbox: str, config: InboxConfig) -> UserInboxRecord:
    return UserInboxRecord(
        inbox=inbox,
        title=config.title,
        description=config.description,
        schema_version=config.schema_version,
        categories=None if config.categories is None else list(config.categories),
    )


@operation(
    "GET",
    "/v1/tenants/{tenant}/inboxes/{inbox}",
    tag=SETTINGS_TAG,
    summary="Get an inbox",
    key="tenant",
    refusals=(TenantNotFound, InboxNotFound),
)
async def get_inbox(
    caller: Caller, tenant: str, inbox: str, inbox_verbs: InboxVerbs
) -> InboxRecord:
    """Return the inbox; the answer is at most a second old."""
    require_tenant(caller, tenant)
    return inbox_record(inbox, await inbox_verbs.configs.get(tenant, inbox))


@operation(
    "PUT",
    "/v1/tenants/{tenant}/inboxes/{inbox}",
    tag=SETTINGS_TAG,
    summary="Create or replace an inbox",
    key="tenant",
    statuses=(200, 201),
    refusals=(TenantNotFound, InboxDeleting),
)
async def put_inbox(
    caller: Caller,
    tenant: str,
    inbox: str,
    data: InboxChange,
    inbox_verbs: InboxVerbs,
) -> Answer[InboxRecord]:
    """Create or replace an inbox; the status is 201 if it is new. The new settings do not change
    notifications that were posted before."""
    require_tenant(caller, tenant)
    config = InboxConfig(
        title=data.title,
        description=data.description,
        schema_version=data.schema_version,
        categories=None if data.categories is None else tuple(data.categories),
        late_joiners=data.late_joiners,
        keep_days=data.keep_days,
        message_schema=data.message_schema,
        category_rules=category_rules(data.category_rules),
    )
    is_new = await inbox_verbs.configs.put(tenant, inbox, config)
    return Answer(inbox_record(inbox, config), status=201 if is_new else 200)


class PartQuery(Query, frozen=True, kw_only=True):
    """Which notifications to list, by cursor, category and states."""

    cursor: str | None = None
    category: Category | None = None
    unread: Literal["true", "false"] | None = None
    archived: Literal["true", "false"] = "false"
    snoozed: Literal["true", "false"] | None = None


class NotificationsQuery(PartQuery, frozen=True, kw_only=True):
    """Which notifications to list, and how many."""

    limit: Limit = limits.PAGE_DEFAULT


class NotificationList(msgspec.Struct):
    """A page of an inbox, newest first. The last page has `next_cursor` null; a page may be empty
    without being the last."""

    data: list[NotificationRecord]
    next_cursor: str | None


class ReadChange(Body, frozen=True):
    """The notifications to mark as read: those with these ids, or all received up to a time."""

    ids: ReadIds | None = None
    before: Time | None = None


def listed_cost(ids: Sequence[str] | None) -> int:
    """Return the cost of a change of the notifications with these ids.

    More ids than allowed cost no more: the request is refused, and must not wait for its tokens.
    """
    return rate_limits.look_up_cost(min(len(ids or ()), limits.READ_IDS_MAX))


def mark_cost(change: ReadChange) -> int:
    """Return the cost of marking notifications as read."""
    return listed_cost(change.ids)


@operation(
    "GET",
    "/v1/inboxes/{inbox}/notifications",
    tag=TAG,
    summary="List my notifications",
    refusals=(InboxNotFound, CursorInvalid),
    cost=lambda asked: rate_limits.page_cost(asked.limit),
)
async def list_notifications(
    user: UserKey,
    inbox: str,
    asked: NotificationsQuery,
    inbox_verbs: InboxVerbs,
) -> NotificationList:
    """Return a page of the caller's notifications, newest first. Retracted and expired
    notifications are left out, and so are archived and snoozed ones: `archived=true` lists the
    archived ones, `snoozed=true` those that are snoozed now. Of several notifications with the same
    collapse key, only the newest is listed."""
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


async def list_page(
    verbs: InboxVerbs, user: UserKey, inbox: str, asked: PartQuery, limit: int
) -> tuple[list[ListedNotification], str | None]:
    """Return a page of notifications, and the cursor of the next page; also for the path under
    `/stack`."""
    wanted = ListFilter(
        limit=limit,
        cursor=asked.cursor,
        category=asked.category,
        unread=None if asked.unread is None else asked.unread == "true",
        archived=asked.archived == "true",
        snoozed=None if asked.snoozed is None else asked.snoozed == "true",
    )
    return await verbs.list(user, inbox, wanted)


async def listed(
    verbs: InboxVerbs, user: UserKey, inbox: str, asked: PartQuery, limit: int
) -> NotificationList:
    """Return a page of notifications as records."""
    page, cursor = await list_page(verbs, user, inbox, asked, limit)
    return NotificationList(
        [
            notification_record(notification.received, notification.shown.text)
            for notification in page
        ],
        cursor,
    )


async def marked(verbs: InboxVerbs, user: UserKey, inbox: str, change: ReadChange) -> UnreadRecord:
    """Mark notifications as read; the path under `/stack` uses this too."""
    if (change.ids is None) == (change.before is None):
        raise Invalid("either ids or before must be given", "")
    if change.ids is not None:
        return unread_record(await verbs.read.some(user, inbox, change.ids))
    assert change.before is not None
    time = fields.time(change.before, "before")
    return unread_record(await verbs.read.before(user, inbox, time))


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/inboxes/{inbox}",
    tag=SETTINGS_TAG,
    summary="Delete an inbox",
    key="tenant",
    statuses=(202,),
    refusals=(TenantNotFound, InboxNotFound),
)
async def delete_inbox(caller: Caller, tenant: str, inbox: str, job_verbs: JobVerbs) -> JobRecord:
    """Delete an inbox. A second after the answer it does not exist any more, and a job removes its
    notifications. A repeated request returns the job with its progress."""
    return job_record(await job_verbs.delete_inbox(caller, tenant, inbox))


OPERATIONS: Final = (
    delete_inbox,
    list_notifications,
    mark_notifications_read,
    count_unread,
    list_inboxes,
    get_settings,
    put_settings,
    list_tenant_inboxes,
    get_inbox,
    put_inbox,
)
