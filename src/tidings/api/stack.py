# SPDX-License-Identifier: Apache-2.0
"""Operations on inboxes under `/stack`, for clients of the stack API, with its field names.

A request names its users in `audiences`. A record has the times `received`, `delivered` and
`readat`, in seconds since 1970. Bodies with the field names of `/v1` are accepted too, but not a
mixture of both.
"""

from typing import Annotated, Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.verbs import InboxVerbs
from tidings.api.fields import (
    Category,
    HostSystemId,
    Message,
    NotificationId,
    ReadIds,
    SchemaVersion,
    Sender,
    Time,
    check_own_tenant,
)
from tidings.api.inboxes import PartQuery, ReadChange, list_page, marked
from tidings.api.notifications import (
    MISSING,
    POST_REFUSALS,
    POSTING,
    Everyone,
    NewNotification,
    Users,
    post,
    post_cost,
)
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Body
from tidings.model import limits
from tidings.model.ids import TIME_MS_MAX, UserKey
from tidings.model.refusals import (
    CursorInvalid,
    InboxBusy,
    InboxNotFound,
    Invalid,
    TenantNotFound,
)
from tidings.wire.inbox_records import (
    PostedRecord,
    StackMessageRecord,
    UnreadRecord,
    stack_message_record,
    unread_record,
)

TAG: Final = "Inbox under /stack"
SECONDS_MAX: Final = TIME_MS_MAX // limits.SECOND_MS - 1
Seconds = Annotated[int, msgspec.Meta(ge=0, le=SECONDS_MAX)]


class StackPost(Body, frozen=True, kw_only=True):
    """A notification to post. It names its users in `audiences`, or in `audience` as under
    `/v1`."""

    audiences: Users | Everyone | None = None
    audience: Users | Everyone | None = None
    message: Message
    category: Category | None = None
    sender: Sender | None = None
    host_system_id: HostSystemId | None = None
    schema_version: SchemaVersion | None = None


class StackReadChange(Body, frozen=True):
    """The notifications to mark as read: those with these ids, or all up to a time. A number is in
    seconds and refers to `received`; a text is a time as under `/v1`."""

    ids: ReadIds | None = None
    before: Seconds | Time | None = None


class StackMessageList(msgspec.Struct):
    """A page of an inbox, newest first. The last page has `next_cursor` null; a page may be empty
    without being the last."""

    data: list[StackMessageRecord]
    next_cursor: str | None


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
    body_cost=lambda body: post_cost(_notification(body)),
)
async def stack_post(
    caller: Caller,
    tenant: str,
    inbox: str,
    data: StackPost,
    inbox_verbs: InboxVerbs,
    request_key: str | None,
) -> Answer[PostedRecord]:
    """Post a notification, as `POST /v1/tenants/{tenant}/inboxes/{inbox}/notifications` does. The
    body has either `audiences` or `audience`."""
    new = _notification(data)
    try:
        return await post(inbox_verbs, caller, tenant, inbox, new, request_key)
    except Invalid as refusal:
        raise _in_words_of(data, refusal) from None


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
) -> StackMessageList:
    """Return the newest notifications, newest first. `received` is the time of the post, and
    `delivered` the time at which the notification reached the user. `audiences` names no other
    user."""
    check_own_tenant(tenant, user)
    page, cursor = await list_page(inbox_verbs, user, inbox, asked, limit_in_path)
    records = [stack_message_record(user, one.received, one.shown.text) for one in page]
    return StackMessageList(records, cursor)


@operation(
    "PUT",
    "/stack/users/v1/{tenant}/{inbox}/messages/read/",
    tag=TAG,
    summary="Mark notifications as read (under /stack)",
    refusals=(TenantNotFound, InboxNotFound),
    body_cost=lambda change: rate_limits.look_up_cost(len(change.ids or ())),
)
async def stack_mark_read(
    user: UserKey,
    tenant: str,
    inbox: str,
    data: StackReadChange,
    inbox_verbs: InboxVerbs,
) -> UnreadRecord:
    """Mark notifications as read. The final slash of the path is optional."""
    check_own_tenant(tenant, user)
    if not isinstance(data.before, int):
        return await marked(inbox_verbs, user, inbox, ReadChange(data.ids, data.before))
    if data.ids is not None:
        raise Invalid("either ids or before must be given", "")
    # Records show whole seconds, so the time includes all of its second.
    time = (data.before + 1) * limits.SECOND_MS - 1
    return unread_record(await inbox_verbs.read.posted_before(user, inbox, time))


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


def _notification(data: StackPost) -> NewNotification:
    """Return the notification with the field names that are used under `/v1`."""
    if (data.audiences is None) == (data.audience is None):
        raise Invalid("either audiences or audience must be given", "")
    audience = data.audience if data.audiences is None else data.audiences
    assert audience is not None
    return NewNotification(
        audience=audience,
        message=data.message,
        category=data.category,
        sender=data.sender,
        host_system_id=data.host_system_id,
        schema_version=data.schema_version,
    )


def _in_words_of(data: StackPost, refusal: Invalid) -> Invalid:
    """Return the refusal, with the field name that the client used: that of `/stack` or of
    `/v1`."""
    pointer = refusal.pointer or ""
    if data.audiences is None or not pointer.startswith("/audience/"):
        return refusal
    detail = refusal.detail.replace("audience/", "audiences/", 1)
    return type(refusal)(detail, pointer.replace("/audience/", "/audiences/", 1))


OPERATIONS: Final = (stack_post, stack_redact, stack_list, stack_mark_read, stack_count_unread)
