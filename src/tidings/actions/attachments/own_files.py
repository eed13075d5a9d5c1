# SPDX-License-Identifier: Apache-2.0
"""Read the files of a user as the tenant, which has to give people their own data."""

import msgspec

from tidings.actions.attachments.downloading import Download, ReadAttachment
from tidings.actions.attachments.sealing import open_file
from tidings.actions.content.vault import Vault
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.model.attachments import ATTACHMENT, File, Upload
from tidings.model.file_refusals import AttachmentGone, AttachmentNotFound
from tidings.model.ids import USER, UserKey, user_key
from tidings.ports.log import Log
from tidings.ports.world import Clock


class ReadOwnFile(msgspec.Struct, frozen=True):
    """Reads a file that a user has sent with a message, whatever chat it is in."""

    read: ReadAttachment
    log: Log
    vault: Vault
    clock: Clock

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        user: str,
        attachment_id: str,
        first: int | None = None,
        last: int | None = None,
    ) -> Download:
        """Return the bytes from `first` to `last`, as `ReadAttachment` does.

        Raises:
            TenantNotFound: The tenant is not the caller's.
            AttachmentNotFound: The user has sent no such file.
            AttachmentGone: The content of its message is gone.
            AttachmentLost: The bytes are missing or damaged.
        """
        require_tenant(caller, tenant)
        if USER.fullmatch(user) is None or ATTACHMENT.fullmatch(attachment_id) is None:
            raise AttachmentNotFound
        owner = user_key(tenant, user)

        async def find() -> tuple[File, Upload]:
            return await self._find(owner, attachment_id)

        return await self.read.download(owner, find, first, last)

    async def _find(self, owner: UserKey, attachment_id: str) -> tuple[File, Upload]:
        upload = await self.read.uploads.get(owner, attachment_id)
        if upload is None or upload.chat_id is None:
            raise AttachmentNotFound
        message = await self.log.entry(upload.chat_id, upload.sequence)
        if message is None or message.redacted or message.files is None:
            raise AttachmentGone
        file = await open_file(self.vault, upload)
        if file is None or message.expired(self.clock.now()):
            raise AttachmentGone
        return file, upload
