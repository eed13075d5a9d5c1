# SPDX-License-Identifier: Apache-2.0
"""The bytes of attachments in a bucket, on S3 or a compatible service: one object for each part.

A part has at most 4 MiB, so it is one request, and needs no multipart upload that could be left
unfinished. The service shows an object only when it is complete.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Final

from tidings.aws.objects import ObjectBucket, open_bucket
from tidings.aws.transport import RequestError
from tidings.blobs.names import checked_id, checked_name, is_place
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.attachments import Blobs, PartReader, StoredParts
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.attachments")

SCHEME: Final = "s3://"
PIECES_AT_ONCE: Final = 4
"""Pieces of a part that one request gets. Each request has its price, and the service takes longer
to answer it than to send a piece."""


class BucketBlobs:
    """Stores parts as objects `<prefix><id>/<name>`."""

    def __init__(self, bucket: ObjectBucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    async def put(self, attachment_id: str, name: str, pieces: Sequence[bytes]) -> None:
        with _translated():
            await self._bucket.put(self._key(attachment_id, name), pieces)

    async def read(self, attachment_id: str, name: str, start: int, size: int) -> bytes | None:
        with _translated():
            return await self._bucket.get(self._key(attachment_id, name), start, size)

    def part(self, attachment_id: str, name: str, stop: int) -> AbstractContextManager[PartReader]:
        return nullcontext(_BucketPart(self, attachment_id, name, stop))

    async def names(self, attachment_id: str) -> list[str]:
        place = f"{self._prefix}{checked_id(attachment_id)}/"
        with _translated():
            names = [key.removeprefix(place) async for key in self._bucket.keys(place)]
        # Others may have put objects there, for example one that stands for the folder.
        return [name for name in names if is_place(attachment_id, name)]

    async def delete(self, attachment_id: str, names: Sequence[str]) -> None:
        with _translated():
            for name in names:
                await self._bucket.delete(self._key(attachment_id, name))

    async def all(self) -> AsyncIterator[StoredParts]:
        last = StoredParts("", ())
        with _translated():
            async for key in self._bucket.keys(self._prefix):
                attachment_id, _, name = key.removeprefix(self._prefix).partition("/")
                if not is_place(attachment_id, name):
                    continue  # somebody else's object
                if attachment_id == last.attachment_id:
                    last = last._replace(names=(*last.names, name))
                    continue
                if last.names:
                    yield last
                last = StoredParts(attachment_id, (name,))
        if last.names:
            yield last

    def _key(self, attachment_id: str, name: str) -> str:
        return f"{self._prefix}{checked_id(attachment_id)}/{checked_name(name)}"


class _BucketPart:
    """Reads a part that is an object, and keeps the pieces that come next."""

    def __init__(self, blobs: BucketBlobs, attachment_id: str, name: str, stop: int) -> None:
        self._blobs = blobs
        self._attachment_id = attachment_id
        self._name = name
        self._stop = stop
        self._got = memoryview(b"")
        self._got_at = 0

    async def read_into(self, start: int, buffer: bytearray | memoryview) -> int | None:
        end = min(start + len(buffer), self._stop)
        if not self._got_at <= start <= end <= self._got_at + len(self._got):
            size = min(PIECES_AT_ONCE * len(buffer), self._stop - start)
            data = await self._blobs.read(self._attachment_id, self._name, start, size)
            if data is None:
                return None
            self._got, self._got_at = memoryview(data), start
        piece = self._got[start - self._got_at :][: len(buffer)]
        buffer[: len(piece)] = piece
        return len(piece)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        extra = {"action": "attachments_unavailable"}
        log.error("the bucket of attachments cannot be used: %s", error, extra=extra)
        raise StoreUnavailable from error


@asynccontextmanager
async def open_bucket_blobs(
    url: str, *, clock: Clock, chance: Chance
) -> AsyncIterator[BucketBlobs]:
    """Open a place such as `s3://bucket/prefix`, with the settings that AWS tools use.

    Raises:
        SetupError: The name of the bucket is missing, or no credentials are found for AWS.
    """
    name, prefix = split_url(url)
    async with open_bucket(name, clock=clock, chance=chance) as bucket:
        yield BucketBlobs(bucket, prefix)


def split_url(url: str) -> tuple[str, str]:
    """Return the bucket and the prefix in `s3://bucket/prefix`.

    Raises:
        SetupError: The name of the bucket is missing.
    """
    name, _, prefix = url.removeprefix(SCHEME).partition("/")
    if not url.startswith(SCHEME) or not name:
        raise SetupError(f"{url} names no bucket: write {SCHEME}bucket/prefix")
    return name, f"{prefix.strip('/')}/" if prefix.strip("/") else ""


_conforms: type[Blobs] = BucketBlobs
