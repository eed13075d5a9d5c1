# SPDX-License-Identifier: Apache-2.0
"""For the suites about moving files: a message with files, an unsent upload, and their bytes."""

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tests.contract.builders import a_chat, append, message
from tests.contract.engines import Store
from tests.support.clock import NOW, ManualClock
from tests.support.users import ANN, BOB
from tidings.actions.attachments.sealing import sealed_size
from tidings.assembly.system import SystemChance
from tidings.blobs.folder import FolderBlobs
from tidings.model.attachments import (
    AttachedFiles,
    BlobPart,
    Upload,
    files_to_bytes,
)
from tidings.model.ids import UserKey, ulid
from tidings.model.limits import DAY_MS
from tidings.ports.attachments import Blobs
from tidings.ports.log import Kept

LARGE: Final = 2 * 1024 * 1024 + 5
"""Size of a part that needs several lines of an export."""


async def a_folder(folder: Path) -> FolderBlobs:
    """A folder for the bytes of files."""
    blobs = FolderBlobs(folder, ManualClock(), SystemChance())
    await blobs.open(is_alone=True)
    return blobs


async def bytes_in(blobs: Blobs) -> dict[tuple[str, str], bytes | None]:
    """Every stored part, with its bytes."""
    return {
        (stored.attachment_id, name): await blobs.read(stored.attachment_id, name, 0, 1 << 30)
        async for stored in blobs.all()
        for name in stored.names
    }


def an_upload(number: int, *sizes: int, owner: UserKey = ANN, thumbnail: int = 0) -> Upload:
    """An upload with parts of these sizes."""
    names = (f"{number:08x}{index:08x}" for index in range(100))
    return Upload(
        owner=owner,
        attachment_id=ulid(NOW, number.to_bytes(10, "big")),
        size=sum(sizes),
        box=b"box",
        box_key=1,
        created_at=NOW,
        expires_at=NOW + DAY_MS,
        parts=tuple(BlobPart(next(names), size) for size in sizes),
        thumbnail=BlobPart(next(names), thumbnail) if thumbnail else None,
    )


async def fill_files(store: Store, blobs: Blobs) -> list[Upload]:
    """A message with two files, and an upload that is not sent and not complete."""
    uploads = [
        an_upload(1, LARGE, 7, thumbnail=9),
        an_upload(2, 5),
        an_upload(3, 3, owner=BOB),
    ]
    uploads[2] = replace(uploads[2], size=4, scheduled_id="scheduled1")
    uploads[1] = replace(uploads[1], kept_until=NOW + 1)
    for number, upload in enumerate(uploads):
        await store.uploads.create(upload, upload.expires_at)
        for part in (*upload.parts, *filter(None, (upload.thumbnail,))):
            data = bytes([number + 1]) * sealed_size(part.size)
            await blobs.put(upload.attachment_id, part.name, [data])
    entry = message(ANN)
    ids = tuple(upload.attachment_id for upload in uploads[:2])
    entry.files = files_to_bytes(AttachedFiles(ids, 1, b"sealed"))
    state = await a_chat(store, ANN, BOB)
    assert await append(store, state, entry) == Kept()
    return uploads
