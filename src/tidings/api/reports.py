# SPDX-License-Identifier: Apache-2.0
"""Operations with which users report messages and users, and tenants handle the reports."""

from typing import Annotated, Final, Literal

import msgspec

from tidings.actions.chat.reporting import OpenedReport
from tidings.actions.identity.caller import Caller
from tidings.actions.identity.users import check_visible_text
from tidings.actions.verbs import ChatVerbs
from tidings.api.inspection import Reason
from tidings.api.operations import Audited, operation
from tidings.api.requests import Body
from tidings.api.safety import TAG, named
from tidings.api.tenants import ListQuery
from tidings.model.ids import ChatId, UserKey, rfc3339, user_id
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    CursorInvalid,
    DirectChatFixed,
    MessageNotFound,
    RateLimited,
    ReportNotFound,
    TenantNotFound,
    UserDeleted,
    UserNotFound,
)
from tidings.model.reports import (
    REPORT_TEXT_CHARS_MAX,
    ReportAction,
    ReportReason,
    ReportState,
)
from tidings.wire.file_records import AttachmentRecord, attachment_records

MODERATION_TAG: Final = "Moderation"

ReportText = Annotated[str, msgspec.Meta(max_length=REPORT_TEXT_CHARS_MAX)]


class NewReport(Body, frozen=True):
    """Why the caller reports a message or a user."""

    reason: ReportReason
    comment: ReportText | None = None


class ReportAnswer(msgspec.Struct):
    """The id of the report; a repeat gets the id of the first."""

    report_id: str


@operation(
    "POST",
    "/v1/chats/{chat_id}/messages/{sequence}/report",
    tag=TAG,
    summary="Report a message",
    statuses=(202,),
    refusals=(ChatNotFound, MessageNotFound, RateLimited),
)
async def report_message(
    user: UserKey, chat: ChatId, sequence_in_path: int, data: NewReport, verbs: ChatVerbs
) -> ReportAnswer:
    """Report a message of another user to the tenant, which then sees its content as it is now, for
    90 days, even if it is redacted meanwhile. The sender does not learn of the report."""
    made = verbs.report.of_message(user, chat, sequence_in_path, data.reason, data.comment)
    return ReportAnswer(await made)


@operation(
    "POST",
    "/v1/users/{user_id}/report",
    tag=TAG,
    summary="Report a user",
    statuses=(202,),
    refusals=(UserNotFound, UserDeleted, RateLimited),
)
async def report_user(
    user: UserKey, user_id: str, data: NewReport, verbs: ChatVerbs
) -> ReportAnswer:
    """Report another user to the tenant. The user does not learn of the report."""
    made = verbs.report.of_user(user, named(user, user_id), data.reason, data.comment)
    return ReportAnswer(await made)


class ReportsQuery(ListQuery, frozen=True):
    """Which reports to return: all, or those in one state. A sealed list has no content and no
    comments."""

    state: ReportState | None = None
    sealed: Literal["true", "false"] = "false"


class ReportRecord(msgspec.Struct, kw_only=True):
    """A report. `user_id` is the reported user, or the sender of the message. `content` is that of
    the message when it was reported; it is null if it was gone already, and `erased` is true if
    the content of its sender was erased since then. `attachments` are the files of the message.
    `sealed` is true if the report has a content, files or a comment that are not shown."""

    report_id: str
    state: ReportState
    reason: ReportReason
    comment: str | None
    reporter_id: str
    user_id: str
    chat_id: str | None
    sequence: int | None
    content: str | None
    content_type: str | None
    erased: bool
    sealed: bool
    attachments: list[AttachmentRecord]
    sent_at: str | None
    created_at: str
    expires_at: str
    note: str | None
    action: ReportAction | None
    updated_at: str | None


class ReportList(msgspec.Struct):
    """A page of reports, newest first; `next_cursor` is null on the last page."""

    data: list[ReportRecord]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/reports",
    tag=MODERATION_TAG,
    summary="List the reports of users",
    key="tenant",
    refusals=(TenantNotFound, CursorInvalid),
    audit=Audited(),
)
async def list_reports(
    caller: Caller, tenant: str, asked: ReportsQuery, verbs: ChatVerbs
) -> ReportList:
    """Return the reports of the last 90 days, newest first, with the content of the reported
    messages unless the list is sealed. The audit trail records each request, before anything is
    read."""
    found, cursor = await verbs.reports(caller, tenant, asked.state, asked.cursor, asked.limit)
    record = sealed_record if asked.sealed == "true" else report_record
    return ReportList([record(opened) for opened in found], cursor)


class ReportUnsealing(Body, frozen=True):
    """Why the tenant reads what others wrote."""

    reason: Reason


@operation(
    "POST",
    "/v1/tenants/{tenant}/reports/{report_id}/unseal",
    tag=MODERATION_TAG,
    summary="Read a report with content",
    key="tenant",
    refusals=(TenantNotFound, ReportNotFound),
    audit=Audited(quoted=("reason",)),
)
async def unseal_report(
    caller: Caller, tenant: str, report_id: str, data: ReportUnsealing, verbs: ChatVerbs
) -> ReportRecord:
    """Return a report with the content of the message and the comment. The audit trail records the
    reason before anything is read."""
    check_visible_text("reason", data.reason)
    return report_record(await verbs.reports.one(caller, tenant, report_id))


class ReportChange(Body, frozen=True):
    """What to change in a report, and what to do to the reported message or its sender. Absent
    fields do not change."""

    state: ReportState | None = None
    note: ReportText | None = None
    action: ReportAction | None = None


@operation(
    "PATCH",
    "/v1/tenants/{tenant}/reports/{report_id}",
    tag=MODERATION_TAG,
    summary="Handle a report",
    key="tenant",
    refusals=(
        TenantNotFound,
        ReportNotFound,
        ChatNotFound,
        MessageNotFound,
        UserNotFound,
        DirectChatFixed,
        ChatBusy,
    ),
    audit=Audited(quoted=("state", "action")),
)
async def change_report(
    caller: Caller, tenant: str, report_id: str, data: ReportChange, verbs: ChatVerbs
) -> ReportRecord:
    """Change the state and the note of a report. With an action, the reported message is redacted,
    or its sender is removed from the chat or banned, before the report changes."""
    changed = await verbs.change_report(
        caller, tenant, report_id, state=data.state, note=data.note, action=data.action
    )
    return report_record(changed)


def report_record(opened: OpenedReport) -> ReportRecord:
    """Return the record of a report."""
    report, message = opened.report, opened.message
    is_of_message = report.chat_id is not None
    return ReportRecord(
        report_id=report.report_id,
        state=report.state,
        reason=report.reason,
        comment=opened.comment,
        reporter_id=user_id(report.reporter),
        user_id=user_id(report.reported),
        chat_id=report.chat_id,
        sequence=report.sequence if is_of_message else None,
        content=None if message is None else message.content,
        content_type=(report.content_type or "text/plain") if is_of_message else None,
        erased=message is not None and message.gone == "erased",
        sealed=False,
        attachments=[] if message is None else attachment_records(message),
        sent_at=rfc3339(report.sent_at) if is_of_message else None,
        created_at=rfc3339(report.created_at),
        expires_at=rfc3339(report.expires_at),
        note=opened.note,
        action=report.action,
        updated_at=None if report.updated_at is None else rfc3339(report.updated_at),
    )


def sealed_record(opened: OpenedReport) -> ReportRecord:
    """Return the record of a report, without what users wrote."""
    record = report_record(opened)
    is_sealed = record.content is not None or record.comment is not None
    return msgspec.structs.replace(
        record, content=None, comment=None, attachments=[], sealed=is_sealed
    )


OPERATIONS: Final = (report_message, report_user, list_reports, unseal_report, change_report)
