# SPDX-License-Identifier: Apache-2.0
"""Login codes and SMS budgets on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model import limits
from tidings.ports.sessions import (
    Allowance,
    Budgets,
    KeptCode,
    LoginCode,
    LoginCodes,
)
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

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
_SPENT: Final = "SELECT name, spent FROM budgets WHERE name IN (SELECT value FROM json_each(?))"


class SqliteLoginCodes:
    """Stores login codes, one row for each phone number of a tenant."""

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
    """Stores budgets, with the amount spent from each."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

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

    async def spent(self, names: Sequence[str]) -> Mapping[str, int]:
        asked = (msgspec.json.encode(names).decode(),)
        return await self._readers.read(lambda db: dict(db.execute(_SPENT, asked)))


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
