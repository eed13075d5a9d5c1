# SPDX-License-Identifier: Apache-2.0
"""The bytes of attachments in a folder, one file for each part.

A part is written under another name, synced, and then moved to its place, and the folder is synced
too. A crash leaves at most a file in the folder `unfinished`, which is emptied at the next start.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path
from typing import Final, TypeVar

from tidings.blobs.names import checked_id, checked_name, is_place
from tidings.data_folder import sync_folder
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import StoreUnavailable
from tidings.ports.attachments import Blobs, PartReader, StoredParts
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.attachments")

UNFINISHED: Final = "unfinished"
UNFINISHED_SECONDS: Final = 3_600
"""Age from which an unfinished part is deleted, if other processes may use the folder too."""
_SHARD_CHARS: Final = 2
_T = TypeVar("_T")


class FolderBlobs:
    """Stores parts as files in `<folder>/<last characters of the id>/<id>/<name>`."""

    def __init__(self, folder: Path, clock: Clock, chance: Chance) -> None:
        self._folder = folder
        self._text = str(folder)
        self._clock = clock
        self._chance = chance

    async def open(self, *, is_alone: bool) -> None:
        """Create the folder, and delete parts that a crash left unfinished.

        Raises:
            StoreUnavailable: The folder cannot be used.
        """
        await _in_thread(lambda: self._clear(is_alone=is_alone))

    async def put(self, attachment_id: str, name: str, pieces: Sequence[bytes]) -> None:
        draft = self._folder / UNFINISHED / self._chance.token(16).hex()
        await _in_thread(
            lambda: _write(draft, self._place(attachment_id) / checked_name(name), pieces)
        )

    async def read(self, attachment_id: str, name: str, start: int, size: int) -> bytes | None:
        path = self._path(attachment_id, name)
        return await _in_thread(lambda: _read_at(path, start, lambda file: file.read(size)))

    def part(self, attachment_id: str, name: str, stop: int) -> AbstractContextManager[PartReader]:
        return contextlib.closing(_FolderPart(self._path(attachment_id, name)))

    async def names(self, attachment_id: str) -> list[str]:
        return await _in_thread(lambda: _parts(self._place(attachment_id)))

    async def delete(self, attachment_id: str, names: Sequence[str]) -> None:
        place = self._place(attachment_id)
        await _in_thread(lambda: _delete(place, [checked_name(name) for name in names]))

    async def all(self) -> AsyncIterator[StoredParts]:
        for shard in sorted(await _in_thread(lambda: _names(self._folder))):
            if len(shard) == _SHARD_CHARS:
                for stored in await _in_thread(lambda: _stored_in(self._folder / shard)):  # noqa: B023 - awaited at once
                    yield stored

    def _path(self, attachment_id: str, name: str) -> str:
        """Return the path of a part as a text, which costs a read far less than a `Path`."""
        return f"{self._text}/{_in_folder(attachment_id)}/{checked_name(name)}"

    def _place(self, attachment_id: str) -> Path:
        return self._folder / _in_folder(attachment_id)

    def _clear(self, *, is_alone: bool) -> None:
        drafts = self._folder / UNFINISHED
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        drafts.mkdir(exist_ok=True, mode=0o700)
        sync_folder(self._folder)
        sync_folder(self._folder.parent)
        oldest = self._clock.now() / SECOND_MS - UNFINISHED_SECONDS
        for draft in drafts.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if is_alone or draft.stat().st_mtime <= oldest:
                    draft.unlink()


class _FolderPart:
    """Reads a part that is a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _opened(path)

    async def read_into(self, start: int, buffer: bytearray | memoryview) -> int | None:
        if self._descriptor is not None:
            count = _read_from_memory(self._descriptor, start, buffer)
            if count is not None:
                return count
        # A thread goes on when its caller is cancelled, so it opens the file for itself.
        return await _in_thread(
            lambda: _read_at(self._path, start, lambda file: file.readinto(buffer))
        )

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


async def _in_thread(work: Callable[[], _T]) -> _T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        extra = {"action": "attachments_unavailable"}
        log.error("the folder of attachments cannot be used: %s", error, extra=extra)
        raise StoreUnavailable from error


def _in_folder(attachment_id: str) -> str:
    """Return where the parts of an attachment are in the folder of all."""
    return f"{checked_id(attachment_id)[-_SHARD_CHARS:]}/{attachment_id}"


def _write(draft: Path, path: Path, pieces: Sequence[bytes]) -> None:
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for piece in pieces:
                left = memoryview(piece)
                while left:
                    left = left[file.write(left) :]
            os.fsync(descriptor)
        _make_folder(path.parent)
        draft.rename(path)
        sync_folder(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _make_folder(folder: Path) -> None:
    """Create a folder in its shard, durably."""
    if folder.is_dir():
        return
    folder.parent.mkdir(exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    sync_folder(folder.parent)
    sync_folder(folder.parent.parent)


def _opened(path: str) -> int | None:
    """Open a file whose bytes may be in memory; return None if it is not there, or if the system
    cannot say what is in memory."""
    if not hasattr(os, "RWF_NOWAIT"):
        return None
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return None


def _read_from_memory(descriptor: int, start: int, buffer: bytearray | memoryview) -> int | None:
    """Fill a buffer with bytes of a file if the system has all of them in memory, so that nobody
    waits for a disk; return None otherwise. A thread would take longer than this read."""
    try:
        count = os.preadv(descriptor, [buffer], start, os.RWF_NOWAIT)
        is_all = count == len(buffer) or count == os.fstat(descriptor).st_size - start
    except OSError:  # not in memory, or a file system that cannot do this
        return None
    return count if is_all else None


def _read_at(path: str, start: int, read: Callable[[FileIO], _T | None]) -> _T | None:
    """Read from a position of a file; return None if there is no such file."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            return read(file)
    except FileNotFoundError:
        return None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _parts(place: Path) -> list[str]:
    """Return the names of the parts of an attachment; files that others have put there are left
    out."""
    return [name for name in _names(place) if is_place(place.name, name)]


def _stored_in(shard: Path) -> list[StoredParts]:
    """Return the stored parts in a shard; files that others have put there are left out."""
    found = []
    for attachment_id in sorted(_names(shard)):
        names = tuple(sorted(_parts(shard / attachment_id)))
        if names:
            found.append(StoredParts(attachment_id, names))
    return found


def _delete(place: Path, names: Sequence[str]) -> None:
    for name in names:
        (place / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        place.rmdir()  # only an empty folder can be removed
        sync_folder(place.parent)


_conforms: type[Blobs] = FolderBlobs
