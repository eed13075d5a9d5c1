# SPDX-License-Identifier: Apache-2.0
"""Codes that were sent, and budgets, on SQLite."""

from collections.abc import Sequence
from typing import Final

import apsw

from tidings.model import limits
from tidings.ports.logins import Allowance, Budgets, LoginCode, LoginCodes
from tidings.stores.sqlite.writer import Writer

_PUT: Final = """
INSERT OR REPLACE INTO login_codes (tenant, phone_number, digest, attempts, expires_at)
VALUES (?, ?, ?, 0, ?)
"""
_ATTEMPT: Final = """
UPDATE login_codes SET attempts = attempts + 1
WHERE tenant = ? AND phone_number = ? AND expires_at > ? AND attempts < ?
RETURNING digest, expires_at
"""
_USE: Final = "DELETE FROM login_codes WHERE tenant = ? AND phone_number = ? AND digest = ?"
_ADD: Final = """
INSERT INTO budgets (name, spent, expires_at) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET spent = spent + excluded.spent
RETURNING spent
"""


class SqliteLoginCodes:
    """One row for each number."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def put(self, code: LoginCode) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_PUT, (code.tenant, code.phone_number, code.digest, code.expires_at))

        await self._writer.write(write)

    async def attempt(self, tenant: str, phone_number: str, now: int) -> LoginCode | None:
        values = (tenant, phone_number, now, limits.CODE_ATTEMPTS_MAX)

        def write(db: apsw.Connection) -> LoginCode | None:
            row = db.execute(_ATTEMPT, values).fetchone()
            if row is None:
                return None
            digest, expires_at = row
            return LoginCode(
                tenant=tenant, phone_number=phone_number, digest=digest, expires_at=expires_at
            )

        return await self._writer.write(write)

    async def use(self, code: LoginCode) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_USE, (code.tenant, code.phone_number, code.digest))
            return db.changes() > 0

        return await self._writer.write(write)


class SqliteBudgets:
    """One row for each count."""

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


def _spent(db: apsw.Connection, allowance: Allowance) -> int:
    return db.execute("SELECT spent FROM budgets WHERE name = ?", (allowance.name,)).get or 0


def _add(db: apsw.Connection, allowance: Allowance, count: int) -> int:
    """The sum now."""
    spent: int = db.execute(_ADD, (allowance.name, count, allowance.expires_at)).get
    return spent


_conforms_codes: type[LoginCodes] = SqliteLoginCodes
_conforms_budgets: type[Budgets] = SqliteBudgets
