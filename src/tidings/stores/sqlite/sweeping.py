# SPDX-License-Identifier: Apache-2.0
"""Removal of expired content and expired rows on SQLite.

Most tables have an index by time, in which the sweeper finds expired rows. There are too many
idempotency keys and copies of notifications for such an index, so the sweeper walks through all of
them, some at a time. A reader looks for expired rows first, so that the writer runs only if there
are any.
"""

from typing import Any, Final

import apsw

from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.model.limits import AUDIT_MS, DAY_MS
from tidings.model.webhooks import KEPT_MS
from tidings.ports.store import Sweeping
from tidings.stores.sqlite.chat.uploads import visit_files_of
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

SweepPosition = tuple[str, str, str]

START: Final[SweepPosition] = ("", "", "")
WALKED_PER_ROW: Final = 50
"""Number of rows that a call scans for each row that it may remove.

It must be high enough for the walk to scan rows faster than they are added."""

_PLACE: Final = "chat_id, sender, client_message_id"
_BY_TIME: Final = (
    ("request_keys", "user_id, key", "expires_at", 0),
    ("post_keys", "tenant, inbox, key", "expires_at", 0),
    ("broadcast_states", "user_id, inbox, sequence", "expires_at", 0),
    ("login_codes", "tenant, phone_number", "expires_at", 0),
    ("budgets", "name", "expires_at", 0),
    ("invites", "user_id, chat_id", "expires_at", 0),
    ("reports", "tenant, report_id", "expires_at", 0),
    ("export_parts", "tenant, job_id, started_at, number", "expires_at", 0),
    ("scheduled", "user_id, scheduled_id", "expires_at", 0),
    ("sessions", "session_id", "coalesce(revoked_at, expires_at)", DAY_MS),
    ("audit", "at, entry_id", "at", AUDIT_MS),
    ("webhook_aside", "place, stream, sequence", "at", KEPT_MS),
    ("tenant_events", "tenant, sequence", "at", KEPT_MS),
)
"""Tables with an index by time, each with its key, the expression of the time, and how many
milliseconds after that time a row is removed."""
_COPY: Final = "user_id, inbox, notification_id"
_HAS_EXPIRED: Final = """
SELECT EXISTS (SELECT 1 FROM notifications WHERE expires_at <= ?1)
    OR EXISTS (SELECT 1 FROM announcements WHERE box IS NOT NULL AND expires_at <= ?1)
"""
# Empties the entry but does not remove it, because its sequence must not be used again.
_EMPTY_ANNOUNCEMENTS: Final = """
UPDATE announcements SET box = NULL, box_key = 0 WHERE (tenant, inbox, sequence) IN (
    SELECT tenant, inbox, sequence FROM announcements
    WHERE box IS NOT NULL AND expires_at <= ? LIMIT ?)
"""
_DROP_FINISHED_JOBS: Final = """
DELETE FROM finished_jobs WHERE (tenant, inbox, notification_id, number) IN (
    SELECT tenant, inbox, notification_id, number
    FROM notifications JOIN finished_jobs USING (tenant, inbox, notification_id)
    WHERE expires_at <= ? LIMIT ?)
"""
# Notifications are removed last: the other rows that belong to them are found through them.
_DROP_NOTIFICATIONS: Final = """
DELETE FROM notifications WHERE (tenant, inbox, notification_id) IN (
    SELECT tenant, inbox, notification_id FROM notifications AS n
    WHERE expires_at <= ? AND NOT EXISTS (
        SELECT 1 FROM finished_jobs AS f WHERE f.tenant = n.tenant AND f.inbox = n.inbox
            AND f.notification_id = n.notification_id)
    LIMIT ?)
"""
_STEPS: Final = (_EMPTY_ANNOUNCEMENTS, _DROP_FINISHED_JOBS, _DROP_NOTIFICATIONS)


def walk(
    db: apsw.Connection, table: str, key: str, *, after: SweepPosition, now: int, limit: int
) -> tuple[list[SweepPosition], SweepPosition]:
    """Return the keys of expired rows among the next rows, and the position to continue from.

    At the end of the table the position is START.
    """
    end: SweepPosition | None = db.execute(
        f"SELECT {key} FROM {table} WHERE ({key}) > (?, ?, ?) ORDER BY {key} LIMIT 1 OFFSET ?",
        (*after, WALKED_PER_ROW * limit - 1),
    ).fetchone()
    until = f" AND ({key}) <= (?, ?, ?)" if end else ""
    expired: list[SweepPosition] = list(
        db.execute(
            f"SELECT {key} FROM {table} WHERE ({key}) > (?, ?, ?){until}"
            f" AND expires_at <= ? ORDER BY {key} LIMIT ?",
            (*after, *(end or ()), now, limit),
        )
    )
    if len(expired) == limit:
        return expired, expired[-1]
    return expired, end or START


class InboxSweeping:
    """Removes expired notifications and copies, in small steps."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._walked_to = START

    async def forget(self, now: int, limit: int) -> int:
        """Remove some expired notifications, and some expired or surplus copies; return how many.

        Copies are surplus if a user has more than the maximum number in an inbox.
        """
        return await self._forget_bodies(now, limit) + await self._forget_copies(now, limit)

    async def _forget_bodies(self, now: int, limit: int) -> int:
        if not await self._readers.read(lambda db: db.execute(_HAS_EXPIRED, (now,)).get):
            return 0
        return await self._writer.write(lambda db: _forget_bodies(db, now, limit), rows=limit)

    async def _forget_copies(self, now: int, limit: int) -> int:
        after = self._walked_to

        def read(db: apsw.Connection) -> tuple[list[SweepPosition], SweepPosition]:
            expired, walked_to = walk(db, "copies", _COPY, after=after, now=now, limit=limit)
            surplus = _surplus_copies(db, after, walked_to, limit - len(expired))
            return list({*expired, *surplus}), walked_to

        gone, self._walked_to = await self._readers.read(read)
        if not gone:
            return 0
        return await self._writer.write(lambda db: _drop_copies(db, gone), rows=limit)


def _forget_bodies(db: apsw.Connection, now: int, limit: int) -> int:
    left = limit
    for step in _STEPS:
        db.execute(step, (now, left))
        left -= db.changes()
    return limit - left


def _surplus_copies(
    db: apsw.Connection, after: SweepPosition, to: SweepPosition, limit: int
) -> list[SweepPosition]:
    """Return the keys of surplus copies of the users between these two positions."""
    values: tuple[Any, ...] = after[:2] if to == START else after[:2] + to[:2]
    until = "" if to == START else " AND (user_id, inbox) <= (?, ?)"
    crowded = db.execute(
        f"SELECT user_id, inbox FROM copies WHERE (user_id, inbox) > (?, ?){until}"
        " GROUP BY user_id, inbox HAVING count(*) > ?",
        (*values, limits.USER_COPIES_MAX),
    ).fetchall()
    surplus: list[SweepPosition] = []
    for user, inbox in crowded:
        surplus += db.execute(
            f"SELECT {_COPY} FROM copies WHERE user_id = ? AND inbox = ?"
            " ORDER BY notification_id DESC LIMIT ? OFFSET ?",
            (user, inbox, limit - len(surplus), limits.USER_COPIES_MAX),
        )
    return surplus


def _drop_copies(db: apsw.Connection, positions: list[SweepPosition]) -> int:
    before = db.total_changes()
    db.executemany(f"DELETE FROM copies WHERE ({_COPY}) = (?, ?, ?)", positions)
    return db.total_changes() - before


class SqliteSweeping:
    """Removes expired data, in steps so short that they do not delay other writes."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._walked_to = START
        self._inbox = InboxSweeping(writer, readers)

    async def empty_expired(self, now: int, limit: int) -> list[tuple[ChatId, int]]:
        # A read comes first, so that a server with nothing to sweep does not commit every second.
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
    for place in expired:
        visit_files_of(db, "chat_id = ? AND sequence = ?", place, now)
    db.executemany(
        "UPDATE messages SET box = NULL, box_key = 0, files = NULL"
        " WHERE chat_id = ? AND sequence = ?",
        expired,
    )
    return expired


def _has_stale(db: apsw.Connection, now: int) -> bool:
    return any(
        db.execute(f"SELECT 1 FROM {table} WHERE {time} <= ? LIMIT 1", (now - grace,)).get
        for table, _, time, grace in _BY_TIME
    )


def _forget(db: apsw.Connection, stale: list[SweepPosition], now: int, limit: int) -> int:
    before = db.total_changes()
    # The walk has read an earlier snapshot, and a key may have been claimed again since then.
    db.executemany(
        f"DELETE FROM idempotency_keys WHERE ({_PLACE}) = (?, ?, ?) AND expires_at <= ?",
        [(*position, now) for position in stale],
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
