# SPDX-License-Identifier: Apache-2.0
"""Delete the bytes of files that nobody can read any more.

The sweeper visits an upload when the time for sending it is over, and when the content of its
message is removed or expires. The log decides: the bytes are deleted only if no message with
content has the upload, or if the data key of its owner is destroyed. A key that this process cannot
unwrap is not destroyed. If the message was reported, its files are kept until the report expires.
The bytes are deleted first, and then the upload, so a later visit finds everything that a crash
leaves behind.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.model.attachments import LATE_BYTES_MS, SCHEDULED_FILES_MS, Upload
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable, Unavailable
from tidings.ports.attachments import Blobs, ByteDeletions, Uploads, Visit
from tidings.ports.due import ScheduledMessages
from tidings.ports.log import Log
from tidings.ports.world import Clock

log = logging.getLogger("tidings.sweeping")

SWEEP_SECONDS: Final = 10.0
VISITS_AT_ONCE: Final = 100
VISITED_AGAIN_MS: Final = 3_600_000
"""Time until an upload is visited again if the visit fails unexpectedly, or if this process cannot
unwrap its owner's data key. Another process may, or this one after its next start."""


class SweepAttachments(msgspec.Struct, frozen=True):
    """Visits uploads whose time has come."""

    uploads: Uploads
    blobs: Blobs
    log: Log
    scheduled: ScheduledMessages
    vault: Vault
    clock: Clock
    deletions: ByteDeletions

    async def sweep_when_due(self) -> None:
        """Sweep, then wait. If the store is unavailable, the next call tries again."""
        try:
            await self.sweep()
        except StoreUnavailable as refusal:
            log.warning("cannot sweep now: %s", refusal, extra={"action": "sweep_waits"})
        await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """Make all visits that are due; return the number of deleted uploads. While a backup is
        made, the visits wait."""
        deleted = 0
        while visits := await self.uploads.due(self.clock.now(), VISITS_AT_ONCE):
            with self.deletions.deleting() as may_delete:
                if not may_delete:
                    break
                for visit in visits:
                    deleted += await self._visit_or_postpone(visit)
        return deleted

    async def delete(self, owner: UserKey, attachment_ids: Sequence[str]) -> bool:
        """Delete uploads with their bytes; return False if a backup is being made."""
        with self.deletions.deleting() as may_delete:
            if may_delete:
                for attachment_id in attachment_ids:
                    await self._delete(owner, attachment_id)
        return may_delete

    async def _delete(self, owner: UserKey, attachment_id: str) -> None:
        await self.blobs.delete(attachment_id, await self.blobs.names(attachment_id))
        await self.uploads.remove(owner, attachment_id)

    async def _visit_or_postpone(self, visit: Visit) -> bool:
        """Visit an upload; postpone the visit if it fails unexpectedly, so that it holds up no
        others."""
        try:
            return await self._visit(visit)
        except Unavailable:
            raise
        except Exception:
            extra = {"action": "file_sweep_failed", "attachment": visit.attachment_id}
            log.exception("an upload cannot be swept", extra=extra)
            await self.uploads.visited(visit, self.clock.now() + VISITED_AGAIN_MS)
            return False

    async def _visit(self, visit: Visit) -> bool:
        upload = await self.uploads.get(visit.owner, visit.attachment_id)
        next_at = None
        is_over = upload is None
        if upload is not None and upload.chat_id is None:
            next_at = await self._waits_until(upload)
            is_over = next_at is None
        elif upload is not None:
            message = await self._message_of(upload)
            is_over = message is None or await self._is_unreadable(upload, message)
            if is_over and (kept_until := await self._kept_until(upload)) is not None:
                is_over, next_at = False, kept_until
            elif message is not None and message.expires_at is not None:
                next_at = message.expires_at
        if is_over:
            await self._delete(visit.owner, visit.attachment_id)
            next_at = None
        elif upload is not None:
            await self._delete_strays(upload)
            if next_at is None and await self._erased(upload) is None:
                next_at = self.clock.now() + VISITED_AGAIN_MS
        await self.uploads.visited(visit, next_at)
        return is_over

    async def _waits_until(self, upload: Upload) -> int | None:
        """Return when to look again at an upload that no message has; None if it can be deleted
        now."""
        if await self._is_erased(upload):
            return None
        if upload.scheduled_id is not None:
            message = await self.scheduled.get(upload.owner, upload.scheduled_id)
            if message is not None and message.is_open:
                return max(message.send_at, self.clock.now()) + SCHEDULED_FILES_MS
            # A process died before it stored the message, or before it ended the reservation.
            name, reserved = upload.attachment_id, upload.scheduled_id
            await self.uploads.release(upload.owner, name, reserved, upload.expires_at)
        end = upload.expires_at + LATE_BYTES_MS
        return end if end > self.clock.now() else None

    async def _message_of(self, upload: Upload) -> Entry | None:
        """Return the message that has the upload; None if there is none and will be none."""
        if upload.chat_id is None:
            return None
        return await self.log.entry(upload.chat_id, upload.sequence)

    async def _is_unreadable(self, upload: Upload, message: Entry) -> bool:
        if message.redacted or message.files is None or message.expired(self.clock.now()):
            return True
        return await self._is_erased(upload)

    async def _kept_until(self, upload: Upload) -> int | None:
        """Return until when the tenant may read the file, because its message was reported; None
        if it may not."""
        # The message may have been reported after the upload was read, and before it was redacted.
        found = await self.uploads.get(upload.owner, upload.attachment_id)
        kept_until = 0 if found is None else found.kept_until or 0
        is_kept = kept_until > self.clock.now() and not await self._is_erased(upload)
        return kept_until if is_kept else None

    async def _is_erased(self, upload: Upload) -> bool:
        return await self._erased(upload) is True

    async def _erased(self, upload: Upload) -> bool | None:
        """Return whether the data key of the owner is destroyed; None if this process cannot
        unwrap it."""
        key = (upload.owner, upload.box_key)
        return (await self.vault.erased([key], loads_max=1)).get(key)

    async def _delete_strays(self, upload: Upload) -> None:
        """Delete parts that were stored before a crash, and that their upload does not list."""
        stored = await self.blobs.names(upload.attachment_id)
        strays = [name for name in stored if name not in upload.part_names]
        if strays:
            await self.blobs.delete(upload.attachment_id, strays)
