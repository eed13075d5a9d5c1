# SPDX-License-Identifier: Apache-2.0
"""Read the attachments of messages: whole or in part, by request or by a link for a browser.

Before each piece of a file is sent, two things must be known to have been true a moment ago: the
reader is a member, and the message has its content.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from tidings.actions.attachments.buffers import Buffers
from tidings.actions.attachments.sealing import SEALED_FRAME_BYTES, FileCipher, sealed_size
from tidings.actions.attachments.transfers import Transfers
from tidings.actions.chat.reading import ReadPage
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.model.attachments import (
    ATTACHMENT,
    FRAME_BYTES,
    LINK_MS,
    BlobPart,
    File,
    Upload,
)
from tidings.model.file_refusals import (
    AttachmentGone,
    AttachmentLost,
    AttachmentNotFound,
    RangeRefused,
)
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import CursorInvalid
from tidings.ports.attachments import Blobs, PartReader, Uploads
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.attachments")

FRAMES_AT_ONCE: Final = 4
"""Frames that are sent at once. With fewer frames other requests wait less, and with more of them a
download takes less CPU time."""
CHECKED_MS: Final = 100
"""Time for which a check is valid. A fast reader gets a hundred pieces and more in this
time."""
_LINK: Final = "attachment"
_ANYBODY: Final = UserKey("")
"""The user of all links. A cursor is bound to one user, but nobody is logged in when a link is
used. The content of the link names its user instead."""


Find = Callable[[], Awaitable[tuple[File, Upload]]]
"""Function that finds a file, or refuses it if the reader may not read it any more."""


class _Check:
    """Finds the file of a download again, unless that was a moment ago."""

    def __init__(self, find: Find, clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._checked_at = clock.now()

    async def __call__(self) -> None:
        if not 0 <= self._clock.now() - self._checked_at < CHECKED_MS:
            await self._find()
            self._checked_at = self._clock.now()


class _Source(NamedTuple):
    """What a download needs to read each of its parts."""

    attachment_id: str
    cipher: FileCipher
    check: _Check
    sealed: memoryview
    """Room for one encrypted frame. Frames are read one by one, because this memory and what is
    decrypted from it then stay in the cache of the processor."""


class FilePlace(msgspec.Struct, frozen=True, array_like=True):
    """Which attachment a user reads."""

    reader: UserKey
    chat: ChatId
    sequence: int
    attachment_id: str
    is_thumbnail: bool = False


class _Link(msgspec.Struct, frozen=True, array_like=True):
    place: FilePlace
    expires_at: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Link).decode


class Download(msgspec.Struct, frozen=True):
    """An attachment that is about to be read."""

    name: str
    content_type: str
    size: int
    start: int
    end: int
    """The position after the last byte to read."""
    data: AsyncIterator[memoryview]


class ReadAttachment(msgspec.Struct, frozen=True):
    """Read an attachment of a message, or its thumbnail."""

    read: ReadPage
    uploads: Uploads
    blobs: Blobs
    clock: Clock
    chance: Chance
    transfers: Transfers
    credential_status: CredentialStatus
    buffers: Buffers = msgspec.field(default_factory=lambda: Buffers(FRAMES_AT_ONCE * FRAME_BYTES))

    async def __call__(
        self, place: FilePlace, first: int | None = None, last: int | None = None
    ) -> Download:
        """Return the bytes from `first` to `last`, both included; by default all.

        Without `first`, these are the last `last` bytes. The caller must read or close the data.

        Raises:
            AttachmentNotFound: The message has no such attachment.
            AttachmentGone: The content of the message is gone.
            AttachmentLost: The bytes are missing or damaged.
            RangeRefused: The file ends before `first`.
            RateLimited: The user reads too many files at the same time.
        """

        async def find() -> tuple[File, Upload]:
            return await self._find(place)

        return await self.download(place.reader, find, first, last, place.is_thumbnail)

    async def download(
        self,
        reader: UserKey,
        find: Find,
        first: int | None,
        last: int | None,
        is_thumbnail: bool = False,
    ) -> Download:
        """Return the bytes of the file that `find` returns. `find` is called again before each
        piece, unless that was a moment ago."""
        file, upload = await find()
        kind, parts, size = file.content_type, upload.parts, file.size
        if is_thumbnail:
            if upload.thumbnail is None or file.thumbnail_type is None:
                raise AttachmentNotFound
            kind, parts = file.thumbnail_type, (upload.thumbnail,)
            size = upload.thumbnail.size
        start, end = _span(size, first, last)
        rest = self._read(reader, find, FileCipher(file, self.chance), upload, parts, start, end)
        # The first bytes show whether there is an answer at all.
        data = _with(await anext(rest), rest)
        return Download(file.name, kind, size, start, end, data)

    async def _find(self, place: FilePlace) -> tuple[File, Upload]:
        if ATTACHMENT.fullmatch(place.attachment_id) is None:
            raise AttachmentNotFound
        (entry,) = (await self.read.one(place.reader, place.chat, place.sequence)).entries
        if entry.gone is not None:
            raise AttachmentGone
        for file in entry.attachments:
            if file.attachment_id == place.attachment_id:
                upload = await self.uploads.get(entry.sender, file.attachment_id)
                if upload is not None:
                    return file, upload
        raise AttachmentNotFound

    async def _read(
        self,
        reader: UserKey,
        find: Find,
        cipher: FileCipher,
        upload: Upload,
        parts: tuple[BlobPart, ...],
        start: int,
        end: int,
    ) -> AsyncGenerator[memoryview, None]:
        with self.transfers.download(reader):
            sealed = memoryview(bytearray(_frame_bytes(parts)))
            source = _Source(upload.attachment_id, cipher, _Check(find, self.clock), sealed)
            offset = 0
            for part in parts:
                from_, to = max(start - offset, 0), min(end - offset, part.size)
                if from_ < to:
                    async for data in self._read_part(source, part, from_, to):
                        yield data
                offset += part.size

    async def _read_part(
        self, source: _Source, part: BlobPart, start: int, end: int
    ) -> AsyncIterator[memoryview]:
        """Yield the bytes of a part from `start` up to `end`."""
        first, last = start // FRAME_BYTES, -(-end // FRAME_BYTES)
        stop = min(last * SEALED_FRAME_BYTES, sealed_size(part.size))
        with self.blobs.part(source.attachment_id, part.name, stop) as stored:
            for frame in range(first, last, FRAMES_AT_ONCE):
                await source.check()
                at, frames = frame * FRAME_BYTES, range(frame, min(frame + FRAMES_AT_ONCE, last))
                room = self.buffers.take(min(len(frames) * FRAME_BYTES, part.size - at))
                await self._decrypt(source, part, stored, frames, room)
                yield room[max(start - at, 0) : end - at]

    async def _decrypt(
        self,
        source: _Source,
        part: BlobPart,
        stored: PartReader,
        frames: range,
        room: memoryview,
    ) -> None:
        """Fill the room with the content of these frames."""
        filled = 0
        for number in frames:
            count = await stored.read_into(number * SEALED_FRAME_BYTES, source.sealed)
            if not count:
                break
            if not filled:
                await self.transfers.turn()
            frame = source.sealed[:count]
            try:
                filled += source.cipher.open_into(part.name, number, frame, room[filled:])
            except ValueError as error:
                _report(source.attachment_id, str(error))
                raise AttachmentLost from error
        if filled < len(room):
            _report(source.attachment_id, f"part {part.name} is missing or too short")
            raise AttachmentLost

    # Links.

    async def link(self, cursors: Cursors, place: FilePlace) -> tuple[str, int]:
        """Return the secret part of a link to an attachment, and its expiry.

        Raises:
            Refusal: The user cannot read the attachment.
        """
        file, _ = await self._find(place)
        if place.is_thumbnail and not file.thumbnail_size:
            raise AttachmentNotFound
        expires_at = self.clock.now() + LINK_MS
        return cursors.seal(_LINK, _ANYBODY, _encode(_Link(place, expires_at))), expires_at

    async def follow(self, cursors: Cursors, secret: str) -> FilePlace:
        """Return where a link leads.

        Raises:
            AttachmentNotFound: The link was changed, it has expired, or its user was deactivated
                or logged out everywhere.
        """
        try:
            link = _decode(cursors.open(_LINK, _ANYBODY, secret))
        except (CursorInvalid, msgspec.DecodeError):
            raise AttachmentNotFound from None
        if link.expires_at <= self.clock.now():
            raise AttachmentNotFound
        made_at = link.expires_at - LINK_MS
        if not await self.credential_status.is_user_active(link.place.reader, made_at):
            raise AttachmentNotFound
        return link.place


async def _with(
    first: memoryview, rest: AsyncGenerator[memoryview, None]
) -> AsyncIterator[memoryview]:
    async with aclosing(rest):
        yield first
        del first  # so that its memory is used again
        async for data in rest:
            yield data


def _frame_bytes(parts: tuple[BlobPart, ...]) -> int:
    """Return the size of the largest encrypted frame. Most files are small, and memory that is not
    needed costs time too."""
    return min(SEALED_FRAME_BYTES, max(sealed_size(part.size) for part in parts))


def _span(size: int, first: int | None, last: int | None) -> tuple[int, int]:
    """Return the first byte to read, and the position after the last one."""
    if (first or 0) >= size or (first is None and last == 0):
        raise RangeRefused(size)
    if first is None:
        return (0 if last is None else max(size - last, 0)), size
    return first, size if last is None else min(last + 1, size)


def _report(attachment_id: str, reason: str) -> None:
    extra = {"action": "attachment_damaged", "attachment": attachment_id}
    log.critical("the bytes of an attachment cannot be used: %s", reason, extra=extra)
