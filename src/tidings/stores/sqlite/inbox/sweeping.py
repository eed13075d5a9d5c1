# SPDX-License-Identifier: Apache-2.0
"""Removal of expired notifications, and of copies beyond a user's limit, on SQLite."""

from typing import Any, Final

import apsw

from tidings.model import limits
from tidings.stores.sqlite.engine.readers import Readers
from tidings.stores.sqlite.engine.writer import Writer

Place = tuple[str, str, str]

START: Final[Place] = ("", "", "")
WALKED_PER_ROW: Final = 50
"""Rows that a call scans for each row it may remove: the walk must be faster than the writers."""


def walk(
    db: apsw.Connection, table: str, key: str, *, after: Place, now: int, limit: int
) -> tuple[list[Place], Place]:
    """Return the expired rows among the next rows, and where to continue; START to begin again."""
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


_COPY: Final = "user_id, inbox, notification_id"
_HAS_EXPIRED: Final = """
SELECT EXISTS (SELECT 1 FROM notifications WHERE expires_at <= ?1)
    OR EXISTS (SELECT 1 FROM announcements WHERE box IS NOT NULL AND expires_at <= ?1)
"""
# The entry remains, because its sequence must not be used again.
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
# Notifications come last, so that they are found as long as other rows belong to them.
_DROP_NOTIFICATIONS: Final = """
DELETE FROM notifications WHERE (tenant, inbox, notification_id) IN (
    SELECT tenant, inbox, notification_id FROM notifications AS n
    WHERE expires_at <= ? AND NOT EXISTS (
        SELECT 1 FROM finished_jobs AS f WHERE f.tenant = n.tenant AND f.inbox = n.inbox
            AND f.notification_id = n.notification_id)
    LIMIT ?)
"""
_STEPS: Final = (_EMPTY_ANNOUNCEMENTS, _DROP_FINISHED_JOBS, _DROP_NOTIFICATIONS)


class InboxSweeping:
    """Removal of expired rows of inboxes, in small steps."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._walked_to = START

    async def forget(self, now: int, limit: int) -> int:
        """Remove some expired notifications and some expired or surplus copies; return how many."""
        return await self._forget_bodies(now, limit) + await self._forget_copies(now, limit)

    async def _forget_bodies(self, now: int, limit: int) -> int:
        if not await self._readers.read(lambda db: db.execute(_HAS_EXPIRED, (now,)).get):
            return 0
        return await self._writer.write(lambda db: _forget_bodies(db, now, limit), rows=limit)

    async def _forget_copies(self, now: int, limit: int) -> int:
        after = self._walked_to

        def read(db: apsw.Connection) -> tuple[list[Place], Place]:
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


def _surplus_copies(db: apsw.Connection, after: Place, to: Place, limit: int) -> list[Place]:
    """Return copies beyond the limit, of the users that the walk has passed."""
    values: tuple[Any, ...] = after[:2] if to == START else after[:2] + to[:2]
    until = "" if to == START else " AND (user_id, inbox) <= (?, ?)"
    crowded = db.execute(
        f"SELECT user_id, inbox FROM copies WHERE (user_id, inbox) > (?, ?){until}"
        " GROUP BY user_id, inbox HAVING count(*) > ?",
        (*values, limits.USER_COPIES_MAX),
    ).fetchall()
    surplus: list[Place] = []
    for user, inbox in crowded:
        surplus += db.execute(
            f"SELECT {_COPY} FROM copies WHERE user_id = ? AND inbox = ?"
            " ORDER BY notification_id DESC LIMIT ? OFFSET ?",
            (user, inbox, limit - len(surplus), limits.USER_COPIES_MAX),
        )
    return surplus


def _drop_copies(db: apsw.Connection, places: list[Place]) -> int:
    before = db.total_changes()
    db.executemany(f"DELETE FROM copies WHERE ({_COPY}) = (?, ?, ?)", places)
    return db.total_changes() - before
