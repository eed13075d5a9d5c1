# SPDX-License-Identifier: Apache-2.0
"""Sessions on SQLite."""

from typing import Any, Final

import apsw
import msgspec

from tidings.model.ids import UserKey
from tidings.ports.sessions import Revocation, Session, Sessions, StoredCredentials
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import from_row
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.revocations import revoked
from tidings.stores.sqlite.identity.users import find_user

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


class SqliteSessions:
    """Table of sessions; the sweeper removes those that ended."""

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

    async def standing(self, user: UserKey, session_id: str | None) -> StoredCredentials:
        def read(db: apsw.Connection) -> StoredCredentials:
            found = find_user(db, user)
            session = _session(db, session_id) if session_id is not None else None
            if found is None:
                return StoredCredentials(is_known=False, session=session)
            return StoredCredentials(
                is_known=True,
                deactivated_at=found.deactivated_at,
                revoked_at=found.revoked_at,
                session=session,
            )

        return await self._readers.read(read)


def _session(db: apsw.Connection, session_id: str) -> Session | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE session_id = ?", (session_id,)
    ).fetchone()
    return from_row(Session, row) if row else None


def _execute(db: apsw.Connection, statement: str, values: tuple[Any, ...]) -> bool:
    """Execute the statement, and return whether it changed a row."""
    db.execute(statement, values)
    return db.changes() > 0


_conforms: type[Sessions] = SqliteSessions
