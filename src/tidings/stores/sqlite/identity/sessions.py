# SPDX-License-Identifier: Apache-2.0
"""Login codes, budgets and sessions, on SQLite."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.ports.sessions import (
    Allowance,
    Budgets,
    KeptCode,
    LoginCode,
    LoginCodes,
    Revocation,
    Session,
    Sessions,
    StoredCredentials,
)
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import from_row
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.audit import revoked
from tidings.stores.sqlite.identity.users import find_user

_PUT: Final = """
INSERT OR REPLACE INTO login_codes
    (tenant, phone_number, digest, attempts, expires_at, asked_by, attempts_elsewhere)
VALUES (?, ?, ?, 0, ?, ?, 0)
"""
_ATTEMPT: Final = """
UPDATE login_codes SET
    attempts = attempts + 1,
    attempts_elsewhere = attempts_elsewhere + (asked_by IS NOT NULL AND asked_by IS NOT :tried_by)
WHERE tenant = :tenant AND phone_number = :phone_number AND expires_at > :now AND attempts < :most
    AND (asked_by IS NULL OR asked_by IS :tried_by OR attempts_elsewhere < :most_elsewhere)
RETURNING digest, expires_at, asked_by
"""
_FIND: Final = """
SELECT digest, expires_at, asked_by, attempts, attempts_elsewhere FROM login_codes
WHERE tenant = ? AND phone_number = ?
"""
_RESTORE: Final = """
UPDATE login_codes
SET digest = ?, expires_at = ?, asked_by = ?, attempts = ?, attempts_elsewhere = ?
WHERE tenant = ? AND phone_number = ? AND digest = ?
"""
_USE: Final = "DELETE FROM login_codes WHERE tenant = ? AND phone_number = ? AND digest = ?"
_ADD: Final = """
INSERT INTO budgets (name, spent, expires_at) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET spent = spent + excluded.spent
RETURNING spent
"""

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


class SqliteLoginCodes:
    """Table of login codes, one row for each phone number of a tenant."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, code: LoginCode) -> None:
        def write(db: apsw.Connection) -> None:
            number = (code.tenant, code.phone_number)
            db.execute(_PUT, (*number, code.digest, code.expires_at, code.asked_by))

        await self._writer.write(write)

    async def find(self, tenant: str, phone_number: str) -> KeptCode | None:
        def read(db: apsw.Connection) -> KeptCode | None:
            row = db.execute(_FIND, (tenant, phone_number)).fetchone()
            if row is None:
                return None
            code = _code(tenant, phone_number, row[:3])
            return KeptCode(code=code, attempts=row[3], attempts_elsewhere=row[4])

        return await self._readers.read(read)

    async def restore(self, code: LoginCode, before: KeptCode) -> None:
        former = before.code
        row = (former.digest, former.expires_at, former.asked_by)
        counts = (before.attempts, before.attempts_elsewhere)
        where = (code.tenant, code.phone_number, code.digest)

        def write(db: apsw.Connection) -> None:
            db.execute(_RESTORE, (*row, *counts, *where))

        await self._writer.write(write)

    async def attempt(
        self, tenant: str, phone_number: str, now: int, tried_by: str | None = None
    ) -> LoginCode | None:
        values = {
            "tenant": tenant,
            "phone_number": phone_number,
            "now": now,
            "tried_by": tried_by,
            "most": limits.CODE_ATTEMPTS_MAX,
            "most_elsewhere": limits.CODE_ATTEMPTS_ELSEWHERE_MAX,
        }

        def write(db: apsw.Connection) -> LoginCode | None:
            row = db.execute(_ATTEMPT, values).fetchone()
            return _code(tenant, phone_number, row) if row is not None else None

        return await self._writer.write(write)

    async def use(self, code: LoginCode) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_USE, (code.tenant, code.phone_number, code.digest))
            return db.changes() > 0

        return await self._writer.write(write)


class SqliteBudgets:
    """Table of budgets, with the amount spent of each."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def spend(self, allowances: Sequence[Allowance]) -> str | None:
        def write(db: apsw.Connection) -> str | None:
            for allowance in allowances:
                if _spent(db, allowance) >= allowance.most:
                    return allowance.name
            for allowance in allowances:
                _add(db, allowance, 1)
            return None

        return await self._writer.write(write, rows=1 + len(allowances))

    async def give_back(self, allowances: Sequence[Allowance]) -> None:
        rows = [(allowance.name,) for allowance in allowances]

        def write(db: apsw.Connection) -> None:
            db.executemany(
                "UPDATE budgets SET spent = spent - 1 WHERE name = ? AND spent > 0", rows
            )

        await self._writer.write(write, rows=1 + len(allowances))

    async def add(self, allowance: Allowance, count: int) -> int:
        return await self._writer.write(lambda db: _add(db, allowance, count))


def _code(tenant: str, phone_number: str, row: Sequence[Any]) -> LoginCode:
    digest, expires_at, asked_by = row
    return LoginCode(
        tenant=tenant,
        phone_number=phone_number,
        digest=digest,
        expires_at=expires_at,
        asked_by=asked_by,
    )


def _spent(db: apsw.Connection, allowance: Allowance) -> int:
    return db.execute("SELECT spent FROM budgets WHERE name = ?", (allowance.name,)).get or 0


def _add(db: apsw.Connection, allowance: Allowance, count: int) -> int:
    """Add to the amount spent, and return the sum."""
    spent: int = db.execute(_ADD, (allowance.name, count, allowance.expires_at)).get
    return spent


_conforms_codes: type[LoginCodes] = SqliteLoginCodes
_conforms_budgets: type[Budgets] = SqliteBudgets


class SqliteSessions:
    """Table of sessions. The sweeper removes sessions a day after they ended."""

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
