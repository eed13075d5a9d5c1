# SPDX-License-Identifier: Apache-2.0
"""Facts about uploads and attachments in an export.

They are part of the file format that `export_facts` describes. The bytes of a file follow its
upload, encrypted as they are stored. A part that is not stored has no bytes in the export either.
"""

from tidings.model.attachments import BlobPart
from tidings.model.ids import ChatId, UserKey
from tidings.ports.export_inbox_facts import FactBase


class UploadFact(FactBase, frozen=True, kw_only=True, tag="upload"):
    """An upload, or the attachment of a message. The bytes of its parts follow."""

    owner: UserKey
    attachment_id: str
    size: int
    box: bytes
    box_key: int
    created_at: int
    expires_at: int
    parts: tuple[BlobPart, ...] = ()
    thumbnail: BlobPart | None = None
    chat_id: ChatId | None = None
    sequence: int = 0
    scheduled_id: str | None = None


class BytesFact(FactBase, frozen=True, kw_only=True, tag="bytes"):
    """Stored bytes of a part of the upload before it, from `start` on."""

    attachment_id: str
    name: str
    start: int = 0
    data: bytes


FileFacts = UploadFact | BytesFact
