# SPDX-License-Identifier: Apache-2.0
"""Export the bytes of files as they are stored, and import them.

Nothing is decrypted. The lines of a part are short enough to be read one by one, and a part is
stored when its last line is read.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from tidings.actions.attachments.sealing import sealed_size
from tidings.model.attachments import MIB, PART_NAME, BlobPart
from tidings.ports.attachments import Blobs
from tidings.ports.export_feature_facts import BytesFact, UploadFact

LINE_DATA_BYTES: Final = MIB
"""Bytes of a file in one line."""


def parts_of(upload: UploadFact) -> tuple[BlobPart, ...]:
    """Return the parts of an upload, with its thumbnail."""
    return (*upload.parts, *([upload.thumbnail] if upload.thumbnail else []))


async def bytes_of(blobs: Blobs, upload: UploadFact) -> AsyncIterator[BytesFact]:
    """Yield the stored bytes of an upload; those that are missing are left out.

    Raises:
        StoreUnavailable: The bytes cannot be read now.
    """
    for part in parts_of(upload):
        for start in range(0, sealed_size(part.size), LINE_DATA_BYTES):
            data = await blobs.read(upload.attachment_id, part.name, start, LINE_DATA_BYTES)
            if not data:
                break
            yield BytesFact(
                attachment_id=upload.attachment_id, name=part.name, start=start, data=data
            )


def has_good_names(upload: UploadFact) -> bool:
    """Return True if the server could have made the names of the parts."""
    return all(PART_NAME.fullmatch(part.name) for part in parts_of(upload))


class StoredPart(NamedTuple):
    """A part of a file, with all its bytes."""

    attachment_id: str
    name: str
    data: bytes


class PartReading:
    """Checks the order of the lines of files, and collects the bytes of the current part."""

    def __init__(self) -> None:
        self._attachment_id = ""
        self._left: dict[str, int] = {}
        """Stored size of the parts of the current upload whose bytes have not begun."""
        self._name = ""
        self._size = 0
        self._data = bytearray()
        self._whole: StoredPart | None = None

    @property
    def is_open(self) -> bool:
        """Whether a part has begun and is not complete."""
        return bool(self._data)

    def begin(self, upload: UploadFact) -> None:
        """Expect the bytes of an upload."""
        self._attachment_id = upload.attachment_id
        self._left = {part.name: sealed_size(part.size) for part in parts_of(upload)}

    def take(self, fact: BytesFact) -> bool:
        """Add the next bytes; return False if they may not follow the line before."""
        if not self._data:
            self._name, self._size = fact.name, self._left.pop(fact.name, 0)
        is_next = (fact.attachment_id, fact.name) == (self._attachment_id, self._name)
        self._data += fact.data
        if not is_next or fact.start + len(fact.data) != len(self._data) or not fact.data:
            return False
        if len(self._data) == self._size:
            self._whole = StoredPart(self._attachment_id, self._name, bytes(self._data))
            self._data.clear()
        return len(self._data) < self._size

    def pop(self) -> StoredPart | None:
        """Return the part that the last line completed, once."""
        whole, self._whole = self._whole, None
        return whole
