# SPDX-License-Identifier: Apache-2.0
"""Public records of attachments, as clients see them."""

import msgspec

from tidings.model.attachments import File
from tidings.model.entries import Entry


class ThumbnailRecord(msgspec.Struct):
    """The small image that stands for a file."""

    content_type: str
    size: int


class AttachmentRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A file of a message. Name, type, width and height are as its sender says."""

    attachment_id: str
    name: str
    content_type: str
    size: int
    width: int | None = None
    height: int | None = None
    thumbnail: ThumbnailRecord | None = None


def attachment_records(entry: Entry) -> list[AttachmentRecord]:
    """Return the records of a message's attachments; empty if its content is gone."""
    return [_attachment(file) for file in entry.attachments] if entry.gone is None else []


def _attachment(file: File) -> AttachmentRecord:
    kind = file.thumbnail_type
    return AttachmentRecord(
        attachment_id=file.attachment_id,
        name=file.name,
        content_type=file.content_type,
        size=file.size,
        width=file.width,
        height=file.height,
        thumbnail=None if kind is None else ThumbnailRecord(kind, file.thumbnail_size),
    )
