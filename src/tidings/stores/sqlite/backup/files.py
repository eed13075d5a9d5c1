# SPDX-License-Identifier: Apache-2.0
"""The files of attachments in a backup: their index, and copying them to a place and back.

Parts of files never change, so each is copied once, into the folder `attachments` of the place. The
index of a backup names the parts that it needs, with their digests. A part is copied back only if
its digest is right.
"""

import asyncio
import hashlib
import struct
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from tidings.model.attachments import ATTACHMENT_CHARS, PART_BYTES
from tidings.ports.attachments import Blobs
from tidings.stores.sqlite.backup.manifest import BackupDamaged

PARTS_AT_ONCE: Final = 4
"""Parts that are copied together. Each needs up to 13 MB of memory."""
_READ_BYTES: Final = 2 * PART_BYTES
"""More than any part has when it is encrypted."""
_RECORD: Final = struct.Struct("<26s16s32sI")

_A = TypeVar("_A")
_T = TypeVar("_T")


class FileRecord(NamedTuple):
    """A part of a file in a backup."""

    attachment_id: str
    name: str
    digest: bytes
    size: int

    @property
    def key(self) -> str:
        """The id and the name, by which the part is found."""
        return self.attachment_id + self.name


class FileIndex:
    """The parts of files that a backup needs, sorted by id and name."""

    def __init__(self, records: bytes = b"") -> None:
        self._records = records

    @classmethod
    def of(cls, records: Iterable[FileRecord]) -> "FileIndex":
        """Return the index with these records."""
        packed = (_RECORD.pack(r[0].encode(), r[1].encode(), r[2], r[3]) for r in sorted(records))
        return cls(b"".join(packed))

    def __len__(self) -> int:
        return len(self._records) // _RECORD.size

    def __bytes__(self) -> bytes:
        return self._records

    def __iter__(self) -> Iterator[FileRecord]:
        for attachment_id, name, digest, size in _RECORD.iter_unpack(self._records):
            yield FileRecord(attachment_id.decode(), name.decode(), digest, size)


class FileCopies(msgspec.Struct, frozen=True):
    """What a backup did with files."""

    index: FileIndex
    new_bytes: int
    missing: tuple[str, ...]
    """Keys of the parts that the deployment lacks."""


class FileBackup:
    """Copies the bytes of attachments between a deployment and a place for backups."""

    def __init__(self, live: Blobs, place: Blobs, runner: asyncio.Runner) -> None:
        self._live = live
        self._place = place
        self._run = runner.run

    def copy(self, wanted: Collection[str], base: FileIndex) -> FileCopies:
        """Copy the parts that the place lacks, and read back what was written.

        Raises:
            BackupDamaged: A part differs from what was written.
            StoreUnavailable: The deployment or the place cannot be used now.
        """
        return self._run(self._copy(wanted, base))

    def check(self, index: FileIndex) -> None:
        """Read all parts of a backup, and compare their digests.

        Raises:
            BackupDamaged: A part is missing or was changed.
            StoreUnavailable: The place cannot be used now.
        """
        damaged = self._run(_in_batches(self._damage, index))
        if found := next(filter(None, damaged), None):
            raise BackupDamaged(found)

    def restore(self, index: FileIndex, *, skips_damaged: bool) -> list[str]:
        """Copy the parts of a backup to the deployment; return what is missing or was changed.

        Raises:
            BackupDamaged: A part is missing or was changed, and such parts are not skipped.
            StoreUnavailable: The deployment or the place cannot be used now.
        """
        lost = list(filter(None, self._run(_in_batches(self._restore, index))))
        if lost and not skips_damaged:
            raise BackupDamaged(lost[0])
        return lost

    def retain(self, used: Collection[str]) -> None:
        """Remove the parts that no backup needs.

        Raises:
            StoreUnavailable: The place cannot be used now; some parts may be removed.
        """
        self._run(self._retain(used))

    async def _copy(self, wanted: Collection[str], base: FileIndex) -> FileCopies:
        present = {
            stored.attachment_id + name
            async for stored in self._place.all()
            for name in stored.names
        }
        kept = [record for record in base if record.key in wanted and record.key in present]
        known = {record.key for record in kept}
        lacking = [key for key in wanted if key not in known]
        found = await _in_batches(self._copy_one, lacking)
        copied = [record for record in found if record is not None]
        pairs = zip(lacking, found, strict=True)
        return FileCopies(
            FileIndex.of((*kept, *copied)),
            new_bytes=sum(record.size for record in copied),
            missing=tuple(key for key, record in pairs if record is None),
        )

    async def _copy_one(self, key: str) -> FileRecord | None:
        attachment_id, name = key[:ATTACHMENT_CHARS], key[ATTACHMENT_CHARS:]
        data = await self._live.read(attachment_id, name, 0, _READ_BYTES)
        if data is None:
            return None
        record = FileRecord(attachment_id, name, hashlib.sha256(data).digest(), len(data))
        await self._place.put(attachment_id, name, [data])
        if damage := await self._damage(record):
            raise BackupDamaged(damage)
        return record

    async def _damage(self, record: FileRecord) -> str:
        """Return what is wrong with a part in the place; empty if nothing is."""
        return (await self._read(record))[1]

    async def _read(self, record: FileRecord) -> tuple[bytes, str]:
        data = await self._place.read(record.attachment_id, record.name, 0, _READ_BYTES)
        if data is None:
            return b"", f"part {record.name} of attachment {record.attachment_id} is missing"
        if len(data) != record.size or hashlib.sha256(data).digest() != record.digest:
            return b"", f"part {record.name} of attachment {record.attachment_id} was changed"
        return data, ""

    async def _restore(self, record: FileRecord) -> str:
        data, damage = await self._read(record)
        if not damage:
            await self._live.put(record.attachment_id, record.name, [data])
        return damage

    async def _retain(self, used: Collection[str]) -> None:
        async for stored in self._place.all():
            unused = [name for name in stored.names if stored.attachment_id + name not in used]
            if unused:
                await self._place.delete(stored.attachment_id, unused)


async def _in_batches(do: Callable[[_A], Coroutine[Any, Any, _T]], items: Iterable[_A]) -> list[_T]:
    """Do the same with all items, a few at a time; return the results in order."""
    results: list[_T] = []
    left = iter(items)
    while some := tuple(islice(left, PARTS_AT_ONCE)):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(do(item)) for item in some]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        results += [task.result() for task in tasks]
    return results
