# SPDX-License-Identifier: Apache-2.0
"""Upload files: create an upload, receive its bytes in one or several requests, and its thumbnail.

The bytes of a request are encrypted as they arrive, and stored in parts. After each part the upload
advances, so a request that was cut off loses only the bytes after its last part. If two requests
send bytes at the same time, the upload takes those of one of them.
"""

from collections.abc import AsyncIterable

import msgspec
from msgspec.structs import replace

from tidings.actions.attachments.sealing import FILE_KEY_BYTES, FileCipher, open_file, seal_file
from tidings.actions.attachments.transfers import Transfers
from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.identity.quotas import TenantQuotas
from tidings.caches import LruCache
from tidings.model import attachments
from tidings.model.attachments import (
    ATTACHMENT,
    FILE_NAME_CHARS_MAX,
    FRAME_BYTES,
    OPAQUE,
    PART_BYTES,
    PIXELS_MAX,
    THUMBNAIL_BYTES_MAX,
    THUMBNAIL_TYPES,
    AttachmentRule,
    BlobPart,
    File,
    Upload,
    attachment_rule_in,
    is_file_name,
    plain_media_type,
)
from tidings.model.file_refusals import (
    AttachmentGone,
    AttachmentNotFound,
    AttachmentsOff,
    AttachmentTooLarge,
    AttachmentTypeRefused,
    AttachmentUsed,
    OffsetConflict,
)
from tidings.model.ids import UserKey, tenant_of, ulid, ulid_time
from tidings.model.refusals import Invalid
from tidings.ports.attachments import Blobs, Uploads
from tidings.ports.inboxes import InboxSettings
from tidings.ports.world import Chance, Clock


class Cut(Exception):
    """The client went away before the end of its bytes."""


class AttachmentRules:
    """Caches what tenants allow their users to upload. A change takes effect within 5 seconds."""

    def __init__(self, settings: InboxSettings, clock: Clock, bytes_max: int | None) -> None:
        self._settings = settings
        self._clock = clock
        self._bytes_max = bytes_max
        self._rules: LruCache[str, tuple[AttachmentRule, int]] = LruCache(
            attachments.CACHED_RULES_MAX, name="attachment rules"
        )

    async def check(self, tenant: str, content_type: str, size: int) -> None:
        """Refuse a file that the tenant or the deployment does not allow.

        Raises:
            AttachmentsOff: Nothing can be uploaded.
            AttachmentTooLarge: The file is too large.
            AttachmentTypeRefused: Files of this type are not allowed.
        """
        await self.check_size(tenant, size)
        if not (await self._rule(tenant)).allows(content_type):
            raise AttachmentTypeRefused

    async def check_size(self, tenant: str, size: int) -> None:
        """Refuse more bytes than the tenant or the deployment allows for a file.

        Raises:
            AttachmentsOff: Nothing can be uploaded.
            AttachmentTooLarge: These are too many.
        """
        if self._bytes_max is None:
            raise AttachmentsOff
        rule, most = await self._rule(tenant), self._bytes_max
        if rule.bytes_max is not None:
            most = min(most, rule.bytes_max)
        if size > most:
            raise AttachmentTooLarge(f"a file may have at most {most} bytes")

    async def _rule(self, tenant: str) -> AttachmentRule:
        known, now = self._rules.get(tenant), self._clock.now()
        if known is not None and 0 <= now - known[1] < attachments.RULE_AGE_MS_MAX:
            return known[0]
        try:
            rule = attachment_rule_in(await self._settings.settings(tenant) or {})
        except Invalid:
            rule = AttachmentRule()  # stored by a version that did not check `attachments`
        self._rules.put(tenant, (rule, now))
        return rule


class CreateUpload(msgspec.Struct, frozen=True):
    """Create an upload, which reserves its bytes in the tenant's quota."""

    uploads: Uploads
    vault: Vault
    rules: AttachmentRules
    quotas: TenantQuotas
    clock: Clock
    chance: Chance

    async def __call__(
        self,
        owner: UserKey,
        name: str,
        content_type: str,
        size: int,
        width: int | None = None,
        height: int | None = None,
    ) -> Upload:
        """Return the new upload, which has no bytes yet."""
        _check_fields(name, size, width, height)
        kind = _media_type(content_type)
        await self.rules.check(tenant_of(owner), kind, size)
        file = File(
            attachment_id=ulid(self.clock.now(), self.chance.token(10)),
            name=name,
            content_type=kind,
            size=size,
            key=self.chance.token(FILE_KEY_BYTES),
            width=width,
            height=height,
        )
        async with self.quotas.counted("attachment_bytes", tenant_of(owner), size):
            return await self._store(owner, file)

    async def _store(self, owner: UserKey, file: File) -> Upload:
        now = ulid_time(file.attachment_id)
        sealed = await seal_file(self.vault, owner, file)
        upload = Upload(
            owner=owner,
            attachment_id=file.attachment_id,
            size=file.size,
            box=sealed.box,
            box_key=sealed.box_key,
            created_at=now,
            expires_at=now + attachments.UPLOAD_MS,
        )
        await self.uploads.create(upload, upload.expires_at + attachments.LATE_BYTES_MS)
        return upload


def _check_fields(name: str, size: int, width: int | None, height: int | None) -> None:
    if not is_file_name(name):
        allowed = f"1 to {FILE_NAME_CHARS_MAX} printable characters or spaces, without / and \\"
        raise Invalid(f"name: must be {allowed}", "/name")
    if size < 1:
        raise Invalid("size: must be at least 1", "/size")
    for field, pixels in (("width", width), ("height", height)):
        if pixels is not None and not 1 <= pixels <= PIXELS_MAX:
            raise Invalid(f"{field}: must be between 1 and {PIXELS_MAX}", f"/{field}")


def _media_type(content_type: str) -> str:
    kind = plain_media_type(content_type)
    if kind is None:
        raise Invalid("content_type: must be a media type such as image/png", "/content_type")
    return kind


class FindUpload(msgspec.Struct, frozen=True):
    """Find an unfinished or unsent upload of the caller."""

    uploads: Uploads
    vault: Vault
    clock: Clock

    async def __call__(self, owner: UserKey, attachment_id: str) -> tuple[Upload, File]:
        """Return the upload, and the description of its file.

        Raises:
            AttachmentNotFound: The user has no such upload.
            AttachmentGone: The upload has expired, or the content of the user was erased.
        """
        if ATTACHMENT.fullmatch(attachment_id) is None:
            raise AttachmentNotFound
        upload = await self.uploads.get(owner, attachment_id)
        if upload is None:
            raise AttachmentNotFound
        file = await open_file(self.vault, upload)
        is_needed = upload.chat_id is not None or upload.scheduled_id is not None
        if file is None or (not is_needed and upload.expires_at <= self.clock.now()):
            raise AttachmentGone
        return upload, file


class ReceiveBytes(msgspec.Struct, frozen=True):
    """Receive bytes of an upload."""

    find: FindUpload
    uploads: Uploads
    blobs: Blobs
    chance: Chance
    transfers: Transfers

    async def __call__(
        self,
        owner: UserKey,
        attachment_id: str,
        offset: int | None,
        data: AsyncIterable[bytes],
        announced: int | None,
    ) -> int:
        """Store bytes that begin at this offset; return where the upload ends now.

        Without an offset, the bytes are the whole file, and replace those of an unfinished upload.
        `announced` is the number of bytes, if the client sends it. `data` raises `Cut` if the
        client goes away.

        Raises:
            OffsetConflict: The upload ends elsewhere.
            AttachmentTooLarge: There are more bytes than the file has.
            Cut: The client went away. Its bytes are stored, except for the last few.
        """
        with self.transfers.upload(owner):
            upload, file = await self.find(owner, attachment_id)
            if offset is None and not upload.is_whole:
                upload = await self._from_the_start(upload)
            start = 0 if offset is None else offset
            if upload.is_whole and (offset is None or start == upload.size):
                return upload.size  # a repeat of the last request
            if start != upload.offset:
                raise OffsetConflict(upload.offset)
            if announced is not None and start + announced > upload.size:
                raise AttachmentTooLarge(f"the file was announced with {upload.size} bytes")
            writer = _PartWriter(self.uploads, self.blobs, self.chance, upload, file)
            return await writer.take(data)

    async def _from_the_start(self, upload: Upload) -> Upload:
        if not upload.parts:
            return upload
        if not await self.uploads.replace_parts(upload, ()):
            raise OffsetConflict(upload.offset)
        await self.blobs.delete(upload.attachment_id, [part.name for part in upload.parts])
        return replace(upload, parts=())


class _PartWriter:
    """Encrypts the bytes of one request, and stores them in parts."""

    def __init__(
        self, uploads: Uploads, blobs: Blobs, chance: Chance, upload: Upload, file: File
    ) -> None:
        self._uploads = uploads
        self._blobs = blobs
        self._chance = chance
        self._upload = upload
        self._cipher = FileCipher(file, chance)
        self._short_parts = sum(part.size < PART_BYTES for part in upload.parts)
        self._begin_part()

    def _begin_part(self) -> None:
        self._name = self._chance.token(8).hex()
        self._frames: list[bytes] = []
        self._plain = bytearray()
        self._size = 0
        """Bytes of the part, before encryption."""

    async def take(self, data: AsyncIterable[bytes]) -> int:
        try:
            async for piece in data:
                await self._add(memoryview(piece))
        except Cut:
            if (
                self._size >= attachments.SHORT_PART_BYTES_MIN
                and self._short_parts < attachments.SHORT_PARTS_MAX
            ):
                await self._end_part()
            raise
        if self._size:
            self._check_short_parts()
            await self._end_part()
        return self._upload.offset

    def _check_short_parts(self) -> None:
        """Refuse another short part, unless it is the last: each part makes the upload's record
        larger."""
        is_last = self._upload.offset + self._size == self._upload.size
        if self._short_parts >= attachments.SHORT_PARTS_MAX and not is_last:
            raise Invalid(f"too many small requests: send {PART_BYTES} bytes or the whole rest")

    async def _add(self, piece: memoryview) -> None:
        if self._upload.offset + self._size + len(piece) > self._upload.size:
            raise AttachmentTooLarge(f"the file was announced with {self._upload.size} bytes")
        while piece:
            fitting = piece[: FRAME_BYTES - len(self._plain)]
            piece = piece[len(fitting) :]
            self._plain += fitting
            self._size += len(fitting)
            if len(self._plain) == FRAME_BYTES:
                self._end_frame()
            if self._size == PART_BYTES:
                await self._end_part()

    def _end_frame(self) -> None:
        self._frames.append(self._cipher.seal(self._name, len(self._frames), bytes(self._plain)))
        self._plain.clear()

    async def _end_part(self) -> None:
        """Store the part, then advance the upload."""
        if self._plain:
            self._end_frame()
        upload, part = self._upload, BlobPart(self._name, self._size)
        await self._blobs.put(upload.attachment_id, part.name, self._frames)
        parts = (*upload.parts, part)
        if not await self._uploads.replace_parts(upload, parts):
            await self._blobs.delete(upload.attachment_id, [part.name])
            now = await self._uploads.get(upload.owner, upload.attachment_id)
            raise OffsetConflict(0 if now is None else now.offset)
        self._short_parts += part.size < PART_BYTES
        self._upload = replace(upload, parts=parts)
        self._begin_part()


class PutThumbnail(msgspec.Struct, frozen=True):
    """Store the thumbnail of an upload, which its owner has made.

    Its bytes count in the tenant's quota, because the server does not look at what they are.
    """

    find: FindUpload
    uploads: Uploads
    blobs: Blobs
    vault: Vault
    rules: AttachmentRules
    quotas: TenantQuotas
    chance: Chance

    async def __call__(
        self, owner: UserKey, attachment_id: str, content_type: str, data: bytes
    ) -> None:
        """Store the thumbnail, or replace the one before. An empty type stands for unknown bytes.

        Raises:
            AttachmentUsed: A message has the upload already.
            QuotaReached: The tenant has used up its quota of bytes.
        """
        upload, file = await self.find(owner, attachment_id)
        kind = content_type or OPAQUE
        _check_thumbnail(kind, data)
        if upload.chat_id is not None:
            raise AttachmentUsed
        await self.rules.check_size(tenant_of(owner), len(data))
        more = len(data) - (0 if upload.thumbnail is None else upload.thumbnail.size)
        async with self.quotas.counted("attachment_bytes", tenant_of(owner), more):
            await self._store(upload, file, kind, data)

    async def _store(self, upload: Upload, file: File, kind: str, data: bytes) -> None:
        attachment_id = upload.attachment_id
        part = BlobPart(self.chance.token(8).hex(), len(data))
        frame = FileCipher(file, self.chance).seal(part.name, 0, data)
        await self.blobs.put(attachment_id, part.name, [frame])
        described = replace(file, thumbnail_type=kind, thumbnail_size=len(data))
        sealed = await self._sealed(upload, described)
        if not await self.uploads.replace_thumbnail(upload, part, sealed.box):
            await self.blobs.delete(attachment_id, [part.name])
            raise AttachmentUsed
        if upload.thumbnail is not None:
            await self.blobs.delete(attachment_id, [upload.thumbnail.name])

    async def _sealed(self, upload: Upload, file: File) -> Sealed:
        sealed = await seal_file(self.vault, upload.owner, file)
        if sealed.box_key != upload.box_key:
            raise AttachmentGone  # the content of the owner was erased meanwhile
        return sealed


def _check_thumbnail(content_type: str, data: bytes) -> None:
    if content_type not in THUMBNAIL_TYPES:
        raise AttachmentTypeRefused(f"a thumbnail must be {', '.join(THUMBNAIL_TYPES)}")
    if not data:
        raise Invalid("the body is missing", "")
    if len(data) > THUMBNAIL_BYTES_MAX:
        raise AttachmentTooLarge(f"a thumbnail may have at most {THUMBNAIL_BYTES_MAX} bytes")
