# SPDX-License-Identifier: Apache-2.0
"""Ports for attachments: the uploads of users in the store, and the bytes of files elsewhere.

An upload is stored before its first byte, and removed after its last one. Bytes without an upload
can therefore never be left behind. A sweeper visits uploads at times that the store keeps, and
deletes those that nobody can read any more.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from tidings.model.attachments import BlobPart, Upload
from tidings.model.ids import UserKey


class Visit(NamedTuple):
    """An upload that the sweeper has to visit, and the time since when."""

    owner: UserKey
    attachment_id: str
    at: int


class StoredParts(NamedTuple):
    """The names of the parts of an attachment that are stored."""

    attachment_id: str
    names: tuple[str, ...]


class Uploads(Protocol):
    """Stores uploads. Every write is durable when it returns.

    `Log.append` gives an upload to a message, in the transaction that writes the message.
    """

    async def create(self, upload: Upload, visit_at: int) -> None:
        """Store a new upload, which the sweeper visits at this time."""
        ...

    async def get(self, owner: UserKey, attachment_id: str) -> Upload | None:
        """Return an upload of this user, as it is now; None if there is none."""
        ...

    async def find(self, owner: UserKey, attachment_ids: Sequence[str]) -> list[Upload]:
        """Return those of these uploads that exist, at most `ATTACHMENTS_MAX`."""
        ...

    async def replace_parts(self, upload: Upload, parts: Sequence[BlobPart]) -> bool:
        """Replace the parts of an upload.

        Return False, and change nothing, if the stored parts are not those of `upload`, or if a
        message has the upload already.
        """
        ...

    async def replace_thumbnail(self, upload: Upload, thumbnail: BlobPart, box: bytes) -> bool:
        """Replace the thumbnail and the encrypted `File`, which describes it.

        Return False, and change nothing, if the stored thumbnail is not that of `upload`, or if a
        message has the upload already.
        """
        ...

    async def reserve(
        self, owner: UserKey, attachment_id: str, scheduled_id: str, now: int
    ) -> bool:
        """Reserve an upload for a scheduled message. Then only this message can take it, even
        after it has expired.

        Return False, and change nothing, if it has expired, if a message has it already, or if it
        is reserved for another one. A repeat returns True. The sweeper visits the upload after
        `RESERVED_MS`.
        """
        ...

    async def release(
        self, owner: UserKey, attachment_id: str, scheduled_id: str, expires_at: int
    ) -> None:
        """End the reservation of an upload for this scheduled message, if there is one. The upload
        expires at this time."""
        ...

    async def keep_bytes(self, owner: UserKey, attachment_id: str, until: int) -> None:
        """Keep the bytes of an upload until this time, or longer if they are already kept for
        longer; do nothing if there is no such upload."""
        ...

    async def of_owner(self, owner: UserKey, limit: int) -> list[str]:
        """Return the ids of some of a user's uploads."""
        ...

    async def visit_all(self, owner: UserKey, at: int) -> None:
        """Let the sweeper visit all uploads of a user at this time, even those that it is visiting
        now."""
        ...

    async def due(self, now: int, limit: int) -> list[Visit]:
        """Return some uploads whose visit is due."""
        ...

    async def visited(self, visit: Visit, next_at: int | None) -> None:
        """Remove a visit from the list, and add the next one, if there is one."""
        ...

    async def remove(self, owner: UserKey, attachment_id: str) -> None:
        """Remove an upload whose bytes are deleted."""
        ...


class ByteDeletions(Protocol):
    """Decides when bytes may be deleted: not while a backup copies them."""

    def deleting(self) -> AbstractContextManager[bool]:
        """Return a context whose value says whether bytes may be deleted; no backup begins before
        the context ends."""
        ...


class PartReader(Protocol):
    """Reads one part piece by piece: it is looked up once, and no piece needs new memory."""

    async def read_into(self, start: int, buffer: bytearray | memoryview) -> int | None:
        """Fill a buffer with the bytes of the part from `start` on; return their number, or None if
        there is no such part. The number is smaller than the buffer only at the end of the part,
        or at the place up to which it was opened.

        Raises:
            StoreUnavailable: The part cannot be read now.
        """
        ...


class Blobs(Protocol):
    """Stores the parts of files, each under the id of its attachment and a name of its own.

    Nobody sees a part before it is complete. Parts never change.
    """

    async def put(self, attachment_id: str, name: str, pieces: Sequence[bytes]) -> None:
        """Store a part, which consists of these pieces. It is durable when this returns.

        Raises:
            StoreUnavailable: The part cannot be stored now.
        """
        ...

    async def read(self, attachment_id: str, name: str, start: int, size: int) -> bytes | None:
        """Return at most `size` bytes of a part, from `start` on; None if there is no such part.

        Raises:
            StoreUnavailable: The part cannot be read now.
        """
        ...

    def part(self, attachment_id: str, name: str, stop: int) -> AbstractContextManager[PartReader]:
        """Open a part that is read piece by piece, at most up to `stop`."""
        ...

    async def names(self, attachment_id: str) -> list[str]:
        """Return the names of all parts of an attachment. What others have put there is left out.

        Raises:
            StoreUnavailable: The parts cannot be listed now.
        """
        ...

    async def delete(self, attachment_id: str, names: Sequence[str]) -> None:
        """Delete parts; those that do not exist are skipped.

        Raises:
            StoreUnavailable: Not all parts can be deleted now; some may be deleted.
        """
        ...

    def all(self) -> AsyncIterator[StoredParts]:
        """Iterate over all parts, by attachment, for backups and checks.

        Raises:
            StoreUnavailable: They cannot be listed now.
        """
        ...
