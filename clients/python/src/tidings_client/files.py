# SPDX-License-Identifier: Apache-2.0
"""Upload files, and download the attachments of messages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from tidings_client.errors import Refused, Unavailable
from tidings_client.events import Attachment, Thumbnail
from tidings_client.rest import Rest, path_of

ATTEMPTS_MAX: Final = 5
"""Attempts to upload a part of a file; each part has as many."""
OFFSET: Final = "Upload-Offset"

Progress = Callable[[int, int], None]
"""Called with the number of bytes that were uploaded, and with the size of the file."""


class _Upload(msgspec.Struct):
    attachment_id: str
    upload_url: str
    chunk_bytes: int


class Link(msgspec.Struct, frozen=True):
    """A link to a file that works without a token, for five minutes."""

    url: str
    """The path of the link, on the same server."""
    expires_at: datetime


class Files:
    """The requests for uploads and attachments."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def upload(
        self,
        file: Path | bytes,
        content_type: str,
        *,
        name: str | None = None,
        width: int | None = None,
        height: int | None = None,
        thumbnail: tuple[str, bytes] | None = None,
        progress: Progress | None = None,
    ) -> Attachment:
        """Upload a file, and return what `Client.send` takes as an attachment.

        The file is uploaded in parts. A part that is lost is uploaded again. `thumbnail` is the
        media type and the bytes of a small image. `name` is needed for bytes; a path has one.

        Raises:
            Refused: The server declines the file.
            Unavailable: A part cannot be uploaded.
        """
        size = await asyncio.to_thread(_size, file)
        name = name or (file.name if isinstance(file, Path) else "file")
        wish = {"name": name, "content_type": content_type, "size": size}
        wish |= {} if width is None else {"width": width}
        wish |= {} if height is None else {"height": height}
        made = await self._rest.ask(_Upload, "POST", "/v1/attachments", wish)
        offset = 0
        while offset < size:
            offset = await self._send_part(made, file, offset)
            if progress is not None:
                progress(offset, size)
        shown = None
        if thumbnail is not None:
            kind, data = thumbnail
            path = f"{made.upload_url}/thumbnail"
            await self._rest.send_bytes("PUT", path, data, {"Content-Type": kind})
            shown = Thumbnail(_media_type(kind), len(data))
        kind = _media_type(content_type)
        return Attachment(made.attachment_id, name, kind, size, width, height, shown)

    async def _send_part(self, made: _Upload, file: Path | bytes, offset: int) -> int:
        """Upload the part of a file at this offset; return where the next part begins."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            data = await asyncio.to_thread(_part, file, offset, made.chunk_bytes)
            headers = {OFFSET: str(offset), "Content-Type": "application/octet-stream"}
            try:
                answer = await self._rest.send_bytes("PATCH", made.upload_url, data, headers)
            except (Refused, Unavailable) as error:
                if attempt == ATTEMPTS_MAX or (
                    isinstance(error, Refused) and error.code != "attachment.offset"
                ):
                    raise
                # A part of the bytes may have arrived.
                offset = int((await self._rest.request("HEAD", made.upload_url)).headers[OFFSET])
                continue
            return int(answer.headers[OFFSET])
        raise AssertionError("the last attempt ends the loop")

    async def download(
        self, chat: str, sequence: int, attachment_id: str, *, start: int = 0
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of an attachment, from `start` on.

        Raises:
            Refused: The server declines, or the file is gone.
            Unavailable: The connection was lost; go on with the number of bytes as `start`.
        """
        headers = {"Range": f"bytes={start}-"} if start else {}
        path = _path(chat, sequence, attachment_id)
        async for data in self._rest.stream(path, headers):
            yield data

    async def thumbnail(self, chat: str, sequence: int, attachment_id: str) -> bytes:
        """Return the thumbnail of an attachment."""
        path = _path(chat, sequence, attachment_id, "thumbnail")
        return (await self._rest.request("GET", path)).content

    async def link(
        self, chat: str, sequence: int, attachment_id: str, *, thumbnail: bool = False
    ) -> Link:
        """Return a link to an attachment, or to its thumbnail."""
        path = _path(chat, sequence, attachment_id, "link")
        return await self._rest.ask(Link, "POST", path, {"thumbnail": thumbnail}, is_safe=True)


def _path(chat: str, sequence: int, *rest: str) -> str:
    return path_of("chats", chat, "messages", str(sequence), "attachments", *rest)


def _media_type(text: str) -> str:
    """Return a media type as the server shows it: in lower case, without parameters."""
    return text.partition(";")[0].strip().lower()


def _size(file: Path | bytes) -> int:
    return len(file) if isinstance(file, bytes) else file.stat().st_size


def _part(file: Path | bytes, offset: int, size: int) -> bytes:
    if isinstance(file, bytes):
        return file[offset : offset + size]
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read(size)
