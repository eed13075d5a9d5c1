# SPDX-License-Identifier: Apache-2.0
"""Uploads on SQLite: their rows, and the statements that give them to messages."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model.attachments import LATE_BYTES_MS, RESERVED_MS, BlobPart, Upload, attached_ids
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.scheduled import scheduled_id_of
from tidings.ports.attachments import Uploads, Visit
from tidings.ports.log import Declined
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns
from tidings.stores.sqlite.engine.write_jobs import UndoWrite
from tidings.stores.sqlite.engine.writer import Writer

_SELECT: Final = f"SELECT {columns(Upload)} FROM uploads"
_MARKS: Final = ", ".join("?" * len(Upload.__struct_fields__))
KEEP_UPLOAD: Final = (
    f"INSERT OR REPLACE INTO uploads ({columns(Upload)}, visit_at) VALUES ({_MARKS}, ?)"
)
_KEY: Final = "owner = ? AND attachment_id = ?"
_PARTS: Final = f"UPDATE uploads SET parts = ? WHERE {_KEY} AND parts = ? AND chat_id IS NULL"
_THUMBNAIL: Final = (
    f"UPDATE uploads SET thumbnail = ?, box = ? WHERE {_KEY} AND thumbnail IS ? AND chat_id IS NULL"
)
_OF_OWNER: Final = "SELECT attachment_id FROM uploads WHERE owner = ? LIMIT ?"
# A visit that is under way does not replace this one, even if it was due before.
_VISIT_ALL: Final = "UPDATE uploads SET visit_at = ? WHERE owner = ?"
_DUE: Final = """
SELECT owner, attachment_id, visit_at FROM uploads WHERE visit_at <= ? ORDER BY visit_at LIMIT ?
"""
_VISITED: Final = f"UPDATE uploads SET visit_at = ? WHERE {_KEY} AND visit_at = ?"
_VISIT: Final = f"UPDATE uploads SET visit_at = ? WHERE {_KEY}"
_MAY_TAKE: Final = """
chat_id IS NULL AND (scheduled_id = ? OR (scheduled_id IS NULL AND expires_at > ?))
"""
_TAKE: Final = f"""
UPDATE uploads SET chat_id = ?, sequence = ?, scheduled_id = NULL WHERE {_KEY} AND {_MAY_TAKE}
"""
_RESERVE: Final = f"""
UPDATE uploads SET scheduled_id = ?, visit_at = min(visit_at, ?) WHERE {_KEY} AND {_MAY_TAKE}
"""
_RELEASE: Final = f"""
UPDATE uploads SET scheduled_id = NULL, expires_at = ?, visit_at = ?
WHERE {_KEY} AND scheduled_id = ?
"""
_KEEP_BYTES: Final = f"UPDATE uploads SET kept_until = max(coalesce(kept_until, 0), ?) WHERE {_KEY}"

_encode = msgspec.json.Encoder().encode
_parts = msgspec.json.Decoder(tuple[BlobPart, ...])
_part = msgspec.json.Decoder(BlobPart)


class SqliteUploads:
    """Stores uploads. The time of the next visit is a column of the upload."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def create(self, upload: Upload, visit_at: int) -> None:
        row = upload_row(upload, visit_at)
        await self._writer.write(lambda db: _execute(db, KEEP_UPLOAD, row))

    async def get(self, owner: UserKey, attachment_id: str) -> Upload | None:
        found = await self.find(owner, [attachment_id])
        return found[0] if found else None

    async def find(self, owner: UserKey, attachment_ids: Sequence[str]) -> list[Upload]:
        return await self._readers.read(lambda db: find_uploads(db, owner, attachment_ids))

    async def replace_parts(self, upload: Upload, parts: Sequence[BlobPart]) -> bool:
        before, after = _text(upload.parts), _text(parts)
        row = (after, upload.owner, upload.attachment_id, before)
        return await self._writer.write(lambda db: _execute(db, _PARTS, row) > 0)

    async def replace_thumbnail(self, upload: Upload, thumbnail: BlobPart, box: bytes) -> bool:
        before = _text(upload.thumbnail) if upload.thumbnail else None
        row = (_text(thumbnail), box, upload.owner, upload.attachment_id, before)
        return await self._writer.write(lambda db: _execute(db, _THUMBNAIL, row) > 0)

    async def reserve(
        self, owner: UserKey, attachment_id: str, scheduled_id: str, now: int
    ) -> bool:
        row = (scheduled_id, now + RESERVED_MS, owner, attachment_id, scheduled_id, now)
        return await self._writer.write(lambda db: _execute(db, _RESERVE, row) > 0)

    async def release(
        self, owner: UserKey, attachment_id: str, scheduled_id: str, expires_at: int
    ) -> None:
        row = (expires_at, expires_at + LATE_BYTES_MS, owner, attachment_id, scheduled_id)
        await self._writer.write(lambda db: _execute(db, _RELEASE, row))

    async def keep_bytes(self, owner: UserKey, attachment_id: str, until: int) -> None:
        row = (until, owner, attachment_id)
        await self._writer.write(lambda db: _execute(db, _KEEP_BYTES, row))

    async def of_owner(self, owner: UserKey, limit: int) -> list[str]:
        return await self._readers.read(
            lambda db: [name for (name,) in db.execute(_OF_OWNER, (owner, limit))]
        )

    async def visit_all(self, owner: UserKey, at: int) -> None:
        await self._writer.write(lambda db: _execute(db, _VISIT_ALL, (at, owner)))

    async def due(self, now: int, limit: int) -> list[Visit]:
        return await self._readers.read(
            lambda db: [Visit(*row) for row in db.execute(_DUE, (now, limit))]
        )

    async def visited(self, visit: Visit, next_at: int | None) -> None:
        row = (next_at, visit.owner, visit.attachment_id, visit.at)
        await self._writer.write(lambda db: _execute(db, _VISITED, row))

    async def remove(self, owner: UserKey, attachment_id: str) -> None:
        statement = f"DELETE FROM uploads WHERE {_KEY}"
        await self._writer.write(lambda db: _execute(db, statement, (owner, attachment_id)))


def _execute(db: apsw.Connection, statement: str, row: tuple[Any, ...]) -> int:
    db.execute(statement, row)
    return db.changes()


def find_uploads(
    db: apsw.Connection, owner: UserKey, attachment_ids: Iterable[str]
) -> list[Upload]:
    """Return those of a user's uploads that exist."""
    one = f"{_SELECT} WHERE {_KEY}"
    rows = [db.execute(one, (owner, name)).fetchone() for name in attachment_ids]
    return [_to_upload(row) for row in rows if row is not None]


def all_uploads(db: apsw.Connection) -> Iterator[Upload]:
    """Yield all uploads, in the order of an export."""
    return map(_to_upload, db.execute(f"{_SELECT} ORDER BY owner, attachment_id"))


def take_uploads(db: apsw.Connection, index: int, message: Entry) -> None:
    """Give uploads to the message that names them, or decline it if one is not free."""
    for name in attached_ids(message.files):
        row = (
            message.chat_id,
            message.sequence,
            message.sender,
            name,
            scheduled_id_of(message.client_message_id or ""),
            message.created_at,
        )
        if _execute(db, _TAKE, row) == 0:
            raise UndoWrite(Declined(index, "attachment_used"))


def visit_files_of(db: apsw.Connection, where: str, values: tuple[Any, ...], at: int) -> None:
    """Let the sweeper visit the files of messages whose content is about to be removed."""
    found: list[tuple[Any, ...]] = db.execute(
        f"SELECT sender, files FROM messages WHERE files IS NOT NULL AND {where}", values
    ).fetchall()
    for sender, files in found:
        db.executemany(_VISIT, [(at, sender, name) for name in attached_ids(files)])


def upload_row(upload: Upload, visit_at: int | None) -> tuple[Any, ...]:
    """Convert an upload to a row for `KEEP_UPLOAD`."""
    fields = msgspec.structs.asdict(upload)
    fields["parts"] = _text(upload.parts)
    fields["thumbnail"] = _text(upload.thumbnail) if upload.thumbnail else None
    return (*fields.values(), visit_at)


def _to_upload(row: tuple[Any, ...]) -> Upload:
    fields = dict(zip(Upload.__struct_fields__, row, strict=True))
    fields["parts"] = _parts.decode(fields["parts"])
    fields["thumbnail"] = _part.decode(fields["thumbnail"]) if fields["thumbnail"] else None
    return Upload(**fields)


def _text(value: object) -> str:
    return _encode(value).decode()


_conforms: type[Uploads] = SqliteUploads
