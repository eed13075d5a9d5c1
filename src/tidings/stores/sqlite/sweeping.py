# SPDX-License-Identifier: Apache-2.0
"""Emptying what has expired, on SQLite.

Expired messages are found by a partial index. Idempotency keys have none by time: it would cost
every send a page. They are walked in the order of their table instead, some thousand rows at each
call and round and round, on a reading connection; only what is found has to go through the writer.
The place is kept in memory: after a restart the walk begins anew, which loses nothing.
"""

from typing import Final

import apsw

from tidings.model.ids import ChatId
from tidings.ports.sweeping import Sweeping
from tidings.stores.sqlite.readers import Readers
from tidings.stores.sqlite.writer import Writer

Place = tuple[str, str, str]

WALKED_PER_KEY: Final = 50
"""How many keys a call looks at for each it may remove: the walk must outrun the sends."""
_START: Final[Place] = ("", "", "")
_PLACE: Final = "chat_id, sender, client_message_id"


class SqliteSweeping:
    """Small steps, each short enough not to hold up a writer."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._walked_to = _START

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        # Looked up first: a server with nothing to sweep should not commit every second.
        if not await self._readers.read(lambda db: _expired(db, now, 1)):
            return []
        return await self._writer.write(lambda db: _empty_expired(db, now, limit), rows=limit)

    async def forget_keys(self, now: int, limit: int) -> int:
        after = self._walked_to
        (stale, self._walked_to), requests = await self._readers.read(
            lambda db: (_walk(db, after, now, limit), _has_stale_requests(db, now))
        )
        if not stale and not requests:
            return 0
        return await self._writer.write(lambda db: _forget(db, stale, now, limit), rows=limit)


def _expired(db: apsw.Connection, now: int, limit: int) -> list[tuple[ChatId, int]]:
    return list(
        db.execute(
            "SELECT chat_id, sequence FROM messages"
            " WHERE expires_at IS NOT NULL AND box IS NOT NULL AND expires_at <= ?"
            " ORDER BY expires_at LIMIT ?",
            (now, limit),
        )
    )


def _empty_expired(db: apsw.Connection, now: int, limit: int) -> list[tuple[ChatId, int]]:
    expired = _expired(db, now, limit)
    db.executemany(
        "UPDATE messages SET box = NULL, box_key = 0 WHERE chat_id = ? AND sequence = ?", expired
    )
    return expired


def _walk(db: apsw.Connection, after: Place, now: int, limit: int) -> tuple[list[Place], Place]:
    """The expired keys among the next ones, and where the walk goes on."""
    end: Place | None = db.execute(
        f"SELECT {_PLACE} FROM idempotency_keys WHERE ({_PLACE}) > (?, ?, ?)"
        f" ORDER BY {_PLACE} LIMIT 1 OFFSET ?",
        (*after, WALKED_PER_KEY * limit - 1),
    ).fetchone()
    until = f" AND ({_PLACE}) <= (?, ?, ?)" if end else ""
    stale: list[Place] = list(
        db.execute(
            f"SELECT {_PLACE} FROM idempotency_keys WHERE ({_PLACE}) > (?, ?, ?){until}"
            f" AND expires_at <= ? ORDER BY {_PLACE} LIMIT ?",
            (*after, *(end or ()), now, limit),
        )
    )
    if len(stale) == limit:
        return stale, stale[-1]
    return stale, end or _START


def _has_stale_requests(db: apsw.Connection, now: int) -> bool:
    return bool(db.execute("SELECT 1 FROM request_keys WHERE expires_at <= ? LIMIT 1", (now,)).get)


def _forget(db: apsw.Connection, stale: list[Place], now: int, limit: int) -> int:
    before = db.total_changes()
    # The walk saw an earlier moment: a key may have been claimed again since.
    db.executemany(
        f"DELETE FROM idempotency_keys WHERE ({_PLACE}) = (?, ?, ?) AND expires_at <= ?",
        [(*place, now) for place in stale],
    )
    db.execute(
        "DELETE FROM request_keys WHERE (user_id, key) IN"
        " (SELECT user_id, key FROM request_keys WHERE expires_at <= ? LIMIT ?)",
        (now, limit - len(stale)),
    )
    return db.total_changes() - before


_conforms: type[Sweeping] = SqliteSweeping
