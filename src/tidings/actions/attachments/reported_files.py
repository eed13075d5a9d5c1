# SPDX-License-Identifier: Apache-2.0
"""Read the files of reported messages as the tenant, which has to decide about them."""

import msgspec

from tidings.actions.attachments.downloading import Download, ReadAttachment
from tidings.actions.chat.reporting import ReadReports
from tidings.actions.identity.caller import Caller
from tidings.model.attachments import File, Upload
from tidings.model.file_refusals import AttachmentGone, AttachmentNotFound
from tidings.model.ids import tenant_itself


class ReadReportedFile(msgspec.Struct, frozen=True):
    """Reads a file of a reported message, even if the message was redacted since then."""

    read: ReadAttachment
    reports: ReadReports

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        report_id: str,
        attachment_id: str,
        first: int | None = None,
        last: int | None = None,
    ) -> Download:
        """Return the bytes from `first` to `last`, as `ReadAttachment` does.

        Raises:
            TenantNotFound: The tenant is not the caller's.
            ReportNotFound: The tenant has no such report.
            AttachmentNotFound: The reported message has no such file.
            AttachmentGone: The content of the sender was erased, or the bytes were deleted before
                the report.
            AttachmentLost: The bytes are missing or damaged.
        """

        async def find() -> tuple[File, Upload]:
            return await self._find(caller, tenant, report_id, attachment_id)

        return await self.read.download(tenant_itself(tenant), find, first, last)

    async def _find(
        self, caller: Caller, tenant: str, report_id: str, attachment_id: str
    ) -> tuple[File, Upload]:
        opened = await self.reports.one(caller, tenant, report_id)
        message = opened.message
        if message is None:
            raise AttachmentNotFound
        if message.gone is not None:
            raise AttachmentGone
        for file in message.attachments:
            if file.attachment_id == attachment_id:
                upload = await self.read.uploads.get(message.sender, attachment_id)
                if upload is None:
                    raise AttachmentGone
                return file, upload
        raise AttachmentNotFound
