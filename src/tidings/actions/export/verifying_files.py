# SPDX-License-Identifier: Apache-2.0
"""Verify files: every part of every upload is stored and can be decrypted, and nothing else is.

Servers may be running. A part that is missing may have been deleted since its upload was read, and
is therefore looked up again. Bytes of a new upload may be stored before the upload has them.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.attachments.sealing import SEALED_FRAME_BYTES, frame_bound_to, sealed_size
from tidings.actions.content.wrapping import NONCE_BYTES
from tidings.actions.export.files import parts_of
from tidings.model.attachments import LATE_BYTES_MS, UPLOAD_MS, BlobPart, File
from tidings.model.ids import UserKey, ulid_time
from tidings.model.limits import DAY_MS
from tidings.ports.attachments import Blobs
from tidings.ports.export_engines import Inspection, Violation
from tidings.ports.export_feature_facts import UploadFact

STRAY_MS: Final = UPLOAD_MS + LATE_BYTES_MS + DAY_MS
"""Age from which an upload has only the parts that it lists: the sweeper has deleted all others."""
_FRAMES_AT_ONCE: Final = 16

_decode = msgspec.json.Decoder(File).decode


class BoxKeys(Protocol):
    """Decrypts boxes with the data keys of their authors."""

    def open_box(self, author: UserKey, generation: int, box: bytes, bound_to: str) -> bytes | None:
        """Return the content of a box; None if it was erased, or if there is no master key.

        Raises:
            ValueError: The box was changed.
        """
        ...


class FileChecks:
    """Compares uploads with the bytes that are stored."""

    def __init__(self, store: Inspection, blobs: Blobs, keys: BoxKeys, now: int) -> None:
        self._store = store
        self._blobs = blobs
        self._keys = keys
        self._now = now
        self._seen: set[str] = set()

    async def check(self, upload: UploadFact) -> AsyncIterator[Violation]:
        """Yield what is wrong with the bytes of an upload.

        Raises:
            StoreUnavailable: The bytes cannot be read now.
        """
        where = f"{upload.owner} {upload.attachment_id}"
        self._seen.add(upload.attachment_id)
        try:
            cipher = self._cipher(upload)
        except (ValueError, msgspec.DecodeError):
            yield Violation(where, "what describes the file was changed")
            cipher = None
        stored = set(await self._blobs.names(upload.attachment_id))
        for part in parts_of(upload):
            if part.name not in stored:
                if await self._is_missing(upload, part):
                    yield Violation(where, f"part {part.name} of the file is missing")
            elif not await self._is_sound(upload.attachment_id, part, cipher):
                yield Violation(where, f"part {part.name} of the file was changed")
        strays = stored - {part.name for part in parts_of(upload)}
        if upload.created_at < self._now - STRAY_MS:
            for name in sorted(strays):
                yield Violation(where, f"part {name} belongs to no upload")

    async def orphans(self) -> AsyncIterator[Violation]:
        """Yield the stored files that have no upload, after all uploads are checked.

        Raises:
            StoreUnavailable: The stored files cannot be listed now.
        """
        async for stored in self._blobs.all():
            name = stored.attachment_id
            if name in self._seen or ulid_time(name) >= self._now - DAY_MS:
                continue
            if await self._blobs.names(name):  # it may have been deleted since
                yield Violation(name, "a file belongs to no upload")

    def _cipher(self, upload: UploadFact) -> AESGCM | None:
        bound_to = f"{upload.owner}\0upload\0{upload.attachment_id}"
        text = self._keys.open_box(upload.owner, upload.box_key, upload.box, bound_to)
        return None if text is None else AESGCM(_decode(text).key)

    async def _is_missing(self, upload: UploadFact, part: BlobPart) -> bool:
        """Return True if the upload still has the part that is not stored."""
        found = await self._store.upload(upload.owner, upload.attachment_id)
        if found is None or part.name not in found.part_names:
            return False
        return part.name not in await self._blobs.names(upload.attachment_id)

    async def _is_sound(self, attachment_id: str, part: BlobPart, cipher: AESGCM | None) -> bool:
        size, step = sealed_size(part.size), _FRAMES_AT_ONCE * SEALED_FRAME_BYTES
        if cipher is None:  # only the size can be checked
            end = await self._blobs.read(attachment_id, part.name, size - 1, 2)
            return end is None or len(end) == 1
        for start in range(0, size + 1, step):
            data = await self._blobs.read(attachment_id, part.name, start, step)
            if data is None:
                return True  # deleted since
            if len(data) != min(step, size - start):
                return False
            first = start // SEALED_FRAME_BYTES
            if not _are_sound(cipher, attachment_id, part.name, first, data):
                return False
        return True


def _are_sound(cipher: AESGCM, attachment_id: str, part: str, first: int, data: bytes) -> bool:
    """Return True if frames of a part can be decrypted."""
    view = memoryview(data)
    for number, start in enumerate(range(0, len(data), SEALED_FRAME_BYTES), start=first):
        frame = view[start : start + SEALED_FRAME_BYTES]
        bound_to = frame_bound_to(attachment_id, part, number)
        try:
            cipher.decrypt(frame[:NONCE_BYTES], frame[NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError):
            return False
    return True
