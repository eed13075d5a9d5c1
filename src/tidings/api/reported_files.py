# SPDX-License-Identifier: Apache-2.0
"""The operation with which a tenant reads the files of reported messages."""

from typing import Final

from tidings.actions.identity.caller import Caller
from tidings.actions.verbs import FileVerbs
from tidings.api.attachments import streamed
from tidings.api.operations import BINARY, Answer, Audited, Streamed, operation
from tidings.api.reports import MODERATION_TAG
from tidings.api.requests import RangeAsked
from tidings.model.file_refusals import (
    AttachmentGone,
    AttachmentLost,
    AttachmentNotFound,
    RangeRefused,
)
from tidings.model.refusals import ReportNotFound, TenantNotFound


@operation(
    "GET",
    "/v1/tenants/{tenant}/reports/{report_id}/attachments/{attachment_id}",
    tag=MODERATION_TAG,
    summary="Read a file of a reported message",
    key="tenant",
    statuses=(200, 206),
    headers=("Range", "If-Range"),
    media_type=BINARY,
    refusals=(
        TenantNotFound,
        ReportNotFound,
        AttachmentNotFound,
        AttachmentGone,
        AttachmentLost,
        RangeRefused,
    ),
    audit=Audited(),
)
async def read_reported_file(
    caller: Caller,
    tenant: str,
    report_id: str,
    attachment_id: str,
    range_asked: RangeAsked,
    files: FileVerbs,
) -> Answer[Streamed]:
    """Return the bytes of a file of a reported message, even if the message was redacted or has
    expired since the report. The audit trail records each request, before anything is read."""
    first, last = range_asked.within(attachment_id)
    found = await files.read_reported(caller, tenant, report_id, attachment_id, first, last)
    return streamed(attachment_id, found, is_part=first is not None or last is not None)


OPERATIONS: Final = (read_reported_file,)
