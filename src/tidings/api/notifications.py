# SPDX-License-Identifier: Apache-2.0
"""A tenant's operations on notifications: post, list, get the progress, retract."""

from typing import Annotated, Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.verbs import InboxVerbs
from tidings.api.fields import (
    ActionId,
    ActionLabel,
    Category,
    CollapseKey,
    HostSystemId,
    Label,
    Link,
    Message,
    SchemaVersion,
    Sender,
    Time,
    Uids,
    documented,
    time,
)
from tidings.api.operations import Answer, NotAudited, operation
from tidings.api.requests import Body
from tidings.api.tenants import ListQuery
from tidings.model import limits
from tidings.model.notifications import (
    ACTIONS_MAX,
    ESCALATE_MINUTES_MAX,
    NotificationAction,
    Posting,
    PostOptions,
)
from tidings.model.refusals import (
    ContentTooLarge,
    CursorInvalid,
    InboxBusy,
    InboxNotFound,
    NotificationNotFound,
    QueueUnavailable,
    Refusal,
    RequestConflict,
    SchemaVersionConflict,
    TenantNotFound,
)
from tidings.wire.inbox_records import (
    PostedNotificationRecord,
    PostedRecord,
    ProgressRecord,
    posted_record,
)

TAG: Final = "Notifications"
MISSING: Final = (TenantNotFound, InboxNotFound, NotificationNotFound)
POST_REFUSALS: Final[tuple[type[Refusal], ...]] = (
    TenantNotFound,
    InboxNotFound,
    ContentTooLarge,
    RequestConflict,
    SchemaVersionConflict,
    InboxBusy,
    QueueUnavailable,
)
POSTING: Final = NotAudited("The inbox keeps every notification with its time.")


class Users(Body, frozen=True, kw_only=True, tag_field="kind", tag="users"):
    """Listed users, who need not exist yet. Repeated ids are ignored."""

    uids: Uids
    label: Label | None = None


class Everyone(Body, frozen=True, kw_only=True, tag_field="kind", tag="everyone"):
    """All users of the tenant."""

    label: Label | None = None


class PostedList(msgspec.Struct):
    """A page of posted notifications; `next_cursor` is null on the last page."""

    data: list[PostedNotificationRecord]
    next_cursor: str | None


class NewAction(Body, frozen=True, kw_only=True):
    """A button of a notification, with the link that it opens, if any."""

    id: ActionId
    label: ActionLabel
    uri: Link | None = None


EscalationMinutes = Annotated[int, documented(minimum=1, maximum=ESCALATE_MINUTES_MAX)]
Actions = Annotated[list[NewAction], documented(maxItems=ACTIONS_MAX)]


class EscalateBody(Body, frozen=True, kw_only=True):
    """When users who have not read a notification get an e-mail, counted from its delivery."""

    email_after_minutes: EscalationMinutes


class NewNotification(Body, frozen=True, kw_only=True):
    """A notification to post. The inbox defines which fields the message has besides title, body
    and link."""

    audience: Users | Everyone
    message: Message
    category: Category | None = None
    sender: Sender | None = None
    host_system_id: HostSystemId | None = None
    schema_version: SchemaVersion | None = None
    actions: Actions | None = None
    collapse_key: CollapseKey | None = None
    expires_at: Time | None = None
    deliver_at: Time | None = None
    escalate: EscalateBody | None = None


def post_cost(new: NewNotification) -> int:
    """Return how many tokens of the rate limit a new notification costs."""
    return rate_limits.post_cost(
        len(new.audience.uids) if isinstance(new.audience, Users) else None
    )


@operation(
    "POST",
    "/v1/tenants/{tenant}/inboxes/{inbox}/notifications",
    tag=TAG,
    summary="Post a notification",
    key="tenant",
    statuses=(202,),
    headers=("Idempotency-Key",),
    body_bytes_max=limits.POST_BODY_BYTES_MAX,
    refusals=POST_REFUSALS,
    audit=POSTING,
    body_cost=post_cost,
)
async def post_notification(
    caller: Caller,
    tenant: str,
    inbox: str,
    data: NewNotification,
    inbox_verbs: InboxVerbs,
    request_key: str | None,
) -> Answer[PostedRecord]:
    """Post a notification. Delivery to listed users continues in the background; a broadcast is
    visible at once. With `deliver_at`, at most one year ahead, both happen at that time, and the
    status is `scheduled`. With `escalate`, listed users who have an e-mail address, and have not
    read the notification this many minutes after its delivery, get an e-mail. With an
    `Idempotency-Key`, a repeated request within a day gets the same answer, with
    `Idempotent-Replay: true`, and completes a post that was interrupted."""
    return await post(inbox_verbs, caller, tenant, inbox, data, request_key)


@operation(
    "GET",
    "/v1/tenants/{tenant}/inboxes/{inbox}/notifications",
    tag=TAG,
    summary="List the posted notifications",
    key="tenant",
    refusals=(TenantNotFound, InboxNotFound, CursorInvalid),
    cost=lambda asked: rate_limits.look_up_cost(asked.limit),
)
async def list_posted(
    caller: Caller, tenant: str, inbox: str, asked: ListQuery, inbox_verbs: InboxVerbs
) -> PostedList:
    """Return the notifications that the tenant posted to the inbox and that have not expired,
    newest first. Only `next_cursor` shows whether more follows: a page may be shorter than
    `limit`."""
    require_tenant(caller, tenant)
    page, cursor = await inbox_verbs.posted(tenant, inbox, asked.cursor, asked.limit)
    records = [posted_record(one.posted, one.text, is_scheduled=one.is_scheduled) for one in page]
    return PostedList(records, cursor)


@operation(
    "GET",
    "/v1/tenants/{tenant}/inboxes/{inbox}/notifications/{notification_id}",
    tag=TAG,
    summary="Get the progress of a notification",
    key="tenant",
    refusals=MISSING,
)
async def get_notification(
    caller: Caller,
    tenant: str,
    inbox: str,
    notification_id: str,
    inbox_verbs: InboxVerbs,
) -> ProgressRecord:
    """Return how many users have received the notification. The numbers are exact for listed users,
    and estimates for a broadcast."""
    require_tenant(caller, tenant)
    progress = await inbox_verbs.progress(tenant, inbox, notification_id)
    return ProgressRecord(
        progress.notification_id,
        progress.status,
        progress.recipients,
        progress.delivered,
        progress.label,
    )


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/inboxes/{inbox}/notifications/{notification_id}",
    tag=TAG,
    summary="Retract a notification",
    key="tenant",
    statuses=(204,),
    refusals=(*MISSING, InboxBusy),
)
async def redact_notification(
    caller: Caller,
    tenant: str,
    inbox: str,
    notification_id: str,
    inbox_verbs: InboxVerbs,
) -> None:
    """Retract a notification. Nobody sees it after the answer, even while it is still being
    delivered."""
    require_tenant(caller, tenant)
    await inbox_verbs.redact(tenant, inbox, notification_id)


async def post(
    verbs: InboxVerbs,
    caller: Caller,
    tenant: str,
    inbox: str,
    data: NewNotification,
    request_key: str | None,
) -> Answer[PostedRecord]:
    """Post a notification; the path under `/stack` uses this too."""
    require_tenant(caller, tenant)
    posting = Posting(
        users=data.audience.uids if isinstance(data.audience, Users) else None,
        message=data.message,
        label=data.audience.label,
        category=data.category,
        sender=data.sender,
        host_system_id=data.host_system_id,
        schema_version=data.schema_version,
        options=_options(data),
    )
    posted = await verbs.post(tenant, inbox, posting, request_key)
    return Answer(
        PostedRecord(posted.notification_id, posted.recipients, posted.estimated, posted.status),
        status=202,
        headers={"Idempotent-Replay": "true"} if posted.is_replay else {},
    )


def _options(data: NewNotification) -> PostOptions:
    actions = (
        NotificationAction(id=each.id, label=each.label, uri=each.uri)
        for each in data.actions or ()
    )
    return PostOptions(
        actions=tuple(actions),
        collapse_key=data.collapse_key,
        expires_at=None if data.expires_at is None else time(data.expires_at, "expires_at"),
        deliver_at=None if data.deliver_at is None else time(data.deliver_at, "deliver_at"),
        email_after_minutes=None if data.escalate is None else data.escalate.email_after_minutes,
    )


OPERATIONS: Final = (post_notification, list_posted, get_notification, redact_notification)
