# SPDX-License-Identifier: Apache-2.0
"""Reserve uploads for scheduled messages.

A reserved upload does not expire while its message waits, and no other message can take it. If the
message is cancelled or fails, the upload lives for one more day, and the sweeper then deletes it.
"""

from collections.abc import Sequence

import msgspec

from tidings.model.attachments import UPLOAD_MS, Upload
from tidings.model.file_refusals import AttachmentUnknown, AttachmentUsed
from tidings.model.ids import UserKey
from tidings.ports.attachments import Uploads
from tidings.ports.world import Clock


class ReserveUploads(msgspec.Struct, frozen=True):
    """Reserves finished uploads of a user."""

    uploads: Uploads
    clock: Clock

    async def reserve(self, owner: UserKey, ids: Sequence[str], scheduled_id: str) -> None:
        """Reserve uploads for a message; a repeat changes nothing.

        Raises:
            AttachmentUnknown: An upload does not exist, is not finished or has expired.
            AttachmentUsed: An upload belongs to another message.
        """
        if not ids:
            return
        found = {each.attachment_id: each for each in await self.uploads.find(owner, ids)}
        for name in ids:
            self._check(found.get(name), scheduled_id)
        reserved: list[str] = []
        for name in ids:
            if not await self.uploads.reserve(owner, name, scheduled_id, self.clock.now()):
                await self.release(owner, reserved, scheduled_id)
                raise AttachmentUsed
            if found[name].scheduled_id is None:
                reserved.append(name)

    async def release(self, owner: UserKey, ids: Sequence[str], scheduled_id: str) -> None:
        """End the reservations of a message that will not be sent. Its author has another day to
        send the files."""
        for name in ids:
            expires_at = self.clock.now() + UPLOAD_MS
            await self.uploads.release(owner, name, scheduled_id, expires_at)

    def _check(self, upload: Upload | None, scheduled_id: str) -> None:
        if upload is None or not upload.is_whole:
            raise AttachmentUnknown
        if upload.chat_id is not None or upload.scheduled_id not in (None, scheduled_id):
            raise AttachmentUsed
        if upload.scheduled_id is None and upload.expires_at <= self.clock.now():
            raise AttachmentUnknown
