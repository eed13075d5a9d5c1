# SPDX-License-Identifier: Apache-2.0
"""Operations on inboxes at older paths under `/stack`, for clients that already use these paths."""

from typing import Final

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.verbs import InboxVerbs
from tidings.api.fields import NotificationId, check_own_tenant
from tidings.api.inboxes import (
    NotificationList,
    PartQuery,
    ReadChange,
    listed,
    mark_cost,
    marked,
)
from tidings.api.notifications import (
    MISSING,
    POST_REFUSALS,
    POSTING,
    NewNotification,
    post,
    post_cost,
)
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Body
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.refusals import CursorInvalid, InboxBusy, InboxNotFound, TenantNotFound
from tidings.wire.inbox_records import PostedRecord, UnreadRecord, unread_record

TAG: Final = "Inbox under /stack"


class Redaction(Body, frozen=True):
    """The notification to retract."""

    id: NotificationId


@operation(
    "POST",
    "/stack/admin/v1/{tenant}/{inbox}/messages/post",
    tag=TAG,
    summary="Post a notification (under /stack)",
    key="tenant",
    statuses=(202,),
    headers=("Idempotency-Key",),
    body_bytes_max=limits.POST_BODY_BYTES_MAX,
    refusals=POST_REFUSALS,
    audit=POSTING,
    body_cost=post_cost,
)
async def stack_post(
    caller: Caller,
    tenant: str,
    inbox: str,
    data: NewNotification,
    inbox_verbs: InboxVerbs,
    request_key: str | None,
) -> Answer[PostedRecord]:
    """Post a notification, as `POST /v1/tenants/{tenant}/inboxes/{inbox}/notifications` does."""
    return await post(inbox_verbs, caller, tenant, inbox, data, request_key)


@operation(
    "DELETE",
    "/stack/admin/v1/{tenant}/{inbox}/messages/redact",
    tag=TAG,
    summary="Retract a notification (under /stack)",
    key="tenant",
    statuses=(204,),
    refusals=(*MISSING, InboxBusy),
    audit=Audited(target="id"),
)
async def stack_redact(
    caller: Caller,
    tenant: str,
    inbox: str,
    data: Redaction,
    inbox_verbs: InboxVerbs,
) -> None:
    """Retract the notification whose id is in the body."""
    require_tenant(caller, tenant)
    await inbox_verbs.redact(tenant, inbox, data.id)


@operation(
    "GET",
    "/stack/users/v1/{tenant}/{inbox}/messages/last/{limit}",
    tag=TAG,
    summary="List my notifications (under /stack)",
    refusals=(TenantNotFound, InboxNotFound, CursorInvalid),
    cost=rate_limits.page_cost(limits.PAGE_MAX),
)
async def stack_list(
    user: UserKey,
    tenant: str,
    inbox: str,
    limit_in_path: int,
    asked: PartQuery,
    inbox_verbs: InboxVerbs,
) -> NotificationList:
    """Return the newest notifications, newest first."""
    check_own_tenant(tenant, user)
    return await listed(inbox_verbs, user, inbox, asked, limit_in_path)


@operation(
    "PUT",
    "/stack/users/v1/{tenant}/{inbox}/messages/read/",
    tag=TAG,
    summary="Mark notifications as read (under /stack)",
    refusals=(TenantNotFound, InboxNotFound),
    body_cost=mark_cost,
)
async def stack_mark_read(
    user: UserKey,
    tenant: str,
    inbox: str,
    data: ReadChange,
    inbox_verbs: InboxVerbs,
) -> UnreadRecord:
    """Mark notifications as read. The final slash of the path is optional."""
    check_own_tenant(tenant, user)
    return await marked(inbox_verbs, user, inbox, data)


@operation(
    "GET",
    "/stack/users/v1/{tenant}/{inbox}/messages/unread",
    tag=TAG,
    summary="Count my unread notifications (under /stack)",
    refusals=(TenantNotFound, InboxNotFound),
)
async def stack_count_unread(
    user: UserKey, tenant: str, inbox: str, inbox_verbs: InboxVerbs
) -> UnreadRecord:
    """Return the number of unread notifications in total and by category."""
    check_own_tenant(tenant, user)
    return unread_record(await inbox_verbs.unread(user, inbox))


OPERATIONS: Final = (stack_post, stack_redact, stack_list, stack_mark_read, stack_count_unread)
