# SPDX-License-Identifier: Apache-2.0
"""Sessions and the revocation feed, on SQLite."""

from typing import Any, Final

import apsw
import msgspec

from tidings.model.ids import UserKey
from tidings.ports.sessions import (
    Erasure,
    Revocation,
    Revocations,
    Session,
    Sessions,
    StoredCredentials,
)
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import from_row
from tidings.stores.sqlite.engine.writer import Writer

READ_MAX: Final = 1_000

# In the order of the fields of `Session`.
_COLUMNS: Final = (
    "session_id, user_id, device, refresh_digest, previous_digest, sealed_refresh, created_at,"
    " rotated_at, expires_at, revoked_at"
)
_OPEN: Final = f"INSERT INTO sessions ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ROTATE: Final = """
UPDATE sessions SET refresh_digest = ?, previous_digest = ?, sealed_refresh = ?, rotated_at = ?,
    expires_at = ?
WHERE session_id = ? AND refresh_digest = ? AND revoked_at IS NULL
"""
_REVOKE: Final = """
UPDATE sessions SET revoked_at = ? WHERE session_id = ? AND user_id = ? AND revoked_at IS NULL
"""
_CHECK_USER: Final = (
    "SELECT deactivated_at, revoked_at, deleted_at, banned_until FROM users WHERE user_id = ?"
)


class SqliteRevocations:
    """Stores the revocation feed, one row for each revocation. Rows are never removed."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def append(self, revocation: Revocation) -> None:
        await self._writer.write(lambda db: revoked(db, revocation))

    async def head(self) -> int:
        def read(db: apsw.Connection) -> int:
            position: int = db.execute("SELECT coalesce(max(place), 0) FROM revocations").get
            return position

        return await self._readers.read(read)

    async def after(self, position: int) -> list[Revocation]:
        def read(db: apsw.Connection) -> list[Revocation]:
            rows = db.execute(
                "SELECT kind, subject, at FROM revocations WHERE place > ? ORDER BY place LIMIT ?",
                (position, READ_MAX),
            )
            return [Revocation(kind=kind, subject=subject, at=at) for kind, subject, at in rows]

        return await self._readers.read(read)

    async def erasures(self, tenant: str, after: int, limit: int) -> list[Erasure]:
        def read(db: apsw.Connection) -> list[Erasure]:
            # The condition and the order are those of an index, with the same expression.
            rows = db.execute(
                "SELECT place, subject, at FROM revocations WHERE kind = 'author'"
                " AND substr(subject, 1, instr(subject, ':') - 1) = ? AND place > ?"
                " ORDER BY place DESC LIMIT ?",
                (tenant, after, limit),
            )
            return [Erasure(place, UserKey(subject), at) for place, subject, at in rows][::-1]

        return await self._readers.read(read)


def revoked(db: apsw.Connection, revocation: Revocation) -> None:
    """Append a revocation to the revocation feed, within an open transaction."""
    db.execute(
        "INSERT INTO revocations (kind, subject, at) VALUES (?, ?, ?)",
        (revocation.kind, revocation.subject, revocation.at),
    )


_revocations_conform: type[Revocations] = SqliteRevocations


class SqliteSessions:
    """Stores sessions; the sweeper removes them a day after revocation or expiry."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def open(self, session: Session) -> None:
        row = msgspec.structs.astuple(session)
        await self._writer.write(lambda db: _execute(db, _OPEN, row))

    async def get(self, session_id: str) -> Session | None:
        return await self._readers.read(lambda db: _session(db, session_id))

    async def rotate(self, before: Session, after: Session) -> bool:
        values = (
            after.refresh_digest,
            after.previous_digest,
            after.sealed_refresh,
            after.rotated_at,
            after.expires_at,
            before.session_id,
            before.refresh_digest,
        )
        return await self._writer.write(lambda db: _execute(db, _ROTATE, values))

    async def of(self, user: UserKey) -> list[Session]:
        def read(db: apsw.Connection) -> list[Session]:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM sessions WHERE user_id = ? AND revoked_at IS NULL"
                " ORDER BY created_at DESC, session_id DESC",
                (user,),
            )
            return [from_row(Session, row) for row in rows]

        return await self._readers.read(read)

    async def revoke(self, user: UserKey, session_id: str, now: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            if not _execute(db, _REVOKE, (now, session_id, user)):
                return False
            revoked(db, Revocation(kind="session", subject=session_id, at=now))
            return True

        return await self._writer.write(write)

    async def stored_credentials(self, user: UserKey, session_id: str | None) -> StoredCredentials:
        def read(db: apsw.Connection) -> StoredCredentials:
            found = db.execute(_CHECK_USER, (user,)).fetchone()
            session = _session(db, session_id) if session_id is not None else None
            if found is None:
                return StoredCredentials(is_known=False, session=session)
            deactivated_at, revoked_at, deleted_at, banned_until = found
            return StoredCredentials(
                is_known=True,
                deactivated_at=deactivated_at,
                revoked_at=revoked_at,
                deleted_at=deleted_at,
                banned_until=banned_until,
                session=session,
            )

        return await self._readers.read(read)


def _session(db: apsw.Connection, session_id: str) -> Session | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone()
    return from_row(Session, row) if row else None


def _execute(db: apsw.Connection, statement: str, values: tuple[Any, ...]) -> bool:
    """Execute the statement; return True if it changed a row."""
    db.execute(statement, values)
    return db.changes() > 0


_conforms: type[Sessions] = SqliteSessions
