# SPDX-License-Identifier: Apache-2.0
"""The audit log on SQLite."""

from typing import Any, Final

import apsw
import msgspec

from tidings.ports.audit import Act, AuditEntry, AuditLog, AuditPosition
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert_once
from tidings.stores.sqlite.engine.writer import Writer

KEEP: Final = insert_once("audit", AuditEntry)
ENTRIES: Final = f"SELECT {columns(AuditEntry)} FROM audit"
_COMPLETE: Final = """
UPDATE audit SET outcome = ?, code = ?, acts = ?
WHERE at = ? AND entry_id = ? AND outcome IS NULL
"""
_BELOW: Final = "at >= ? AND (at, entry_id) < (?, ?) ORDER BY at DESC, entry_id DESC LIMIT ?"

_acts = msgspec.json.Decoder(tuple[Act, ...])
_fields = msgspec.json.Decoder(tuple[str, ...])


class SqliteAuditLog:
    """Stores audit entries. Only the sweeper removes entries, when they are old."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def append(self, entry: AuditEntry) -> None:
        row = entry_to_row(entry)

        def write(db: apsw.Connection) -> None:
            db.execute(KEEP, row)

        await self._writer.write(write, rows=1)

    async def complete(self, entry: AuditEntry) -> None:
        row = (entry.outcome, entry.code, _json(entry.acts), *entry.position)

        def write(db: apsw.Connection) -> None:
            db.execute(_COMPLETE, row)

        await self._writer.write(write, rows=1)

    async def page(
        self, tenant: str | None, *, since: int, before: AuditPosition, limit: int
    ) -> list[AuditEntry]:
        of_tenant, values = ("", ()) if tenant is None else ("tenant = ? AND ", (tenant,))

        def read(db: apsw.Connection) -> list[AuditEntry]:
            statement = f"{ENTRIES} WHERE {of_tenant}{_BELOW}"
            rows = db.execute(statement, (*values, since, *before, limit))
            return [entry_from_row(row) for row in rows]

        return await self._readers.read(read)


def entry_to_row(entry: AuditEntry) -> tuple[Any, ...]:
    """Convert an audit entry to a row."""
    encoded = {"fields": _json(entry.fields), "acts": _json(entry.acts)}
    return tuple((msgspec.structs.asdict(entry) | encoded).values())


def entry_from_row(row: tuple[Any, ...]) -> AuditEntry:
    """Convert a row that has the columns of `AuditEntry` to an audit entry."""
    entry = from_row(AuditEntry, row)
    return msgspec.structs.replace(
        entry,
        fields=_fields.decode(entry.fields),  # type: ignore[arg-type]  # still text
        acts=_acts.decode(entry.acts),  # type: ignore[arg-type]
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_conforms: type[AuditLog] = SqliteAuditLog
