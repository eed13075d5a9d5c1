# SPDX-License-Identifier: Apache-2.0
"""Removal of expired messages and rows on SQLite.

Expired messages are found by a partial index. The idempotency keys of messages, which are many,
have no index by time, so the sweeper walks through them; all other tables have one. Only rows that
were found go through the writer.
"""

from typing import Final

import apsw

from tidings.model.ids import ChatId
from tidings.model.limits import AUDIT_MS, DAY_MS
from tidings.ports.store import Sweeping
from tidings.stores.sqlite.engine.readers import Readers
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.inbox.sweeping import START, InboxSweeping, Place, walk

_PLACE: Final = "chat_id, sender, client_message_id"
_BY_TIME: Final = (
    ("request_keys", "user_id, key", "expires_at", 0),
    ("post_keys", "tenant, inbox, key", "expires_at", 0),
    ("login_codes", "tenant, phone_number", "expires_at", 0),
    ("budgets", "name", "expires_at", 0),
    ("invites", "user_id, chat_id", "expires_at", 0),
    ("sessions", "session_id", "coalesce(revoked_at, expires_at)", DAY_MS),
    ("audit", "at, entry_id", "at", AUDIT_MS),
)
"""Tables with an index by time: name, key, time, and how long after that time a row is removed."""


class SqliteSweeping:
    """Removal of expired data in steps short enough not to delay a writer."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._walked_to = START
        self._inbox = InboxSweeping(writer, readers)

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        # Read first, so that a server with nothing to sweep does not commit every second.
        if not await self._readers.read(lambda db: _expired(db, now, 1)):
            return []
        return await self._writer.write(lambda db: _empty_expired(db, now, limit), rows=limit)

    async def forget_keys(self, now: int, limit: int) -> int:
        after = self._walked_to
        (stale, self._walked_to), is_more_stale = await self._readers.read(
            lambda db: (
                walk(db, "idempotency_keys", _PLACE, after=after, now=now, limit=limit),
                _has_stale(db, now),
            )
        )
        if not stale and not is_more_stale:
            return 0
        return await self._writer.write(lambda db: _forget(db, stale, now, limit), rows=limit)

    async def forget_notifications(self, now: int, limit: int) -> int:
        return await self._inbox.forget(now, limit)


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


def _has_stale(db: apsw.Connection, now: int) -> bool:
    return any(
        db.execute(f"SELECT 1 FROM {table} WHERE {time} <= ? LIMIT 1", (now - grace,)).get
        for table, _, time, grace in _BY_TIME
    )


def _forget(db: apsw.Connection, stale: list[Place], now: int, limit: int) -> int:
    before = db.total_changes()
    # The walk read an earlier snapshot: a key may have been claimed again since.
    db.executemany(
        f"DELETE FROM idempotency_keys WHERE ({_PLACE}) = (?, ?, ?) AND expires_at <= ?",
        [(*place, now) for place in stale],
    )
    for table, key, time, grace in _BY_TIME:
        left = limit - (db.total_changes() - before)
        db.execute(
            f"DELETE FROM {table} WHERE ({key}) IN"
            f" (SELECT {key} FROM {table} WHERE {time} <= ? LIMIT ?)",
            (now - grace, left),
        )
    return db.total_changes() - before


_conforms: type[Sweeping] = SqliteSweeping
