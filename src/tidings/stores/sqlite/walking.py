# SPDX-License-Identifier: Apache-2.0
"""Finding what has expired in tables that have no index by time.

It would cost every write a page. They are walked in the order of their keys instead, some thousand
rows at each call and round and round, on a reading connection. The place is kept in memory: after
a restart the walk begins anew, which loses nothing.
"""

from typing import Final

import apsw

Place = tuple[str, str, str]

START: Final[Place] = ("", "", "")
WALKED_PER_ROW: Final = 50
"""How many rows a call looks at for each that may go: the walk must outrun those who write."""


def walk(
    db: apsw.Connection, table: str, key: str, *, after: Place, now: int, limit: int
) -> tuple[list[Place], Place]:
    """The expired rows among the next ones, and where the walk goes on; at START: all over."""
    end: Place | None = db.execute(
        f"SELECT {key} FROM {table} WHERE ({key}) > (?, ?, ?) ORDER BY {key} LIMIT 1 OFFSET ?",
        (*after, WALKED_PER_ROW * limit - 1),
    ).fetchone()
    until = f" AND ({key}) <= (?, ?, ?)" if end else ""
    expired: list[Place] = list(
        db.execute(
            f"SELECT {key} FROM {table} WHERE ({key}) > (?, ?, ?){until}"
            f" AND expires_at <= ? ORDER BY {key} LIMIT ?",
            (*after, *(end or ()), now, limit),
        )
    )
    if len(expired) == limit:
        return expired, expired[-1]
    return expired, end or START
