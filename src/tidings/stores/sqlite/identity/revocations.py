# SPDX-License-Identifier: Apache-2.0
"""The revocation feed on SQLite."""

from typing import Final

import apsw

from tidings.ports.sessions import Revocation, Revocations
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

READ_MAX: Final = 1_000


class SqliteRevocations:
    """Table of revocations. Rows are never removed."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def append(self, revocation: Revocation) -> None:
        await self._writer.write(lambda db: revoked(db, revocation))

    async def head(self) -> int:
        def read(db: apsw.Connection) -> int:
            place: int = db.execute("SELECT coalesce(max(place), 0) FROM revocations").get
            return place

        return await self._readers.read(read)

    async def after(self, place: int) -> list[Revocation]:
        def read(db: apsw.Connection) -> list[Revocation]:
            rows = db.execute(
                "SELECT kind, subject, at FROM revocations WHERE place > ? ORDER BY place LIMIT ?",
                (place, READ_MAX),
            )
            return [Revocation(kind=kind, subject=subject, at=at) for kind, subject, at in rows]

        return await self._readers.read(read)


def revoked(db: apsw.Connection, revocation: Revocation) -> None:
    """Append a revocation to the feed, within an open transaction."""
    db.execute(
        "INSERT INTO revocations (kind, subject, at) VALUES (?, ?, ?)",
        (revocation.kind, revocation.subject, revocation.at),
    )


_conforms: type[Revocations] = SqliteRevocations
