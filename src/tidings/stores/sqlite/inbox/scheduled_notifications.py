# SPDX-License-Identifier: Apache-2.0
"""Notifications that wait for their time of delivery, on SQLite."""

from collections.abc import Sequence
from typing import Final

import apsw

from tidings.ports.bus import Job
from tidings.ports.scheduled_notifications import ScheduledNotifications
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, insert_once
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.inbox.jobs import job_from_row, job_to_row

HOLD_JOB: Final = insert_once("held_jobs", Job)
HELD_JOBS: Final = f"SELECT {columns(Job)} FROM held_jobs"
_ONE: Final = "tenant = ? AND inbox = ? AND notification_id = ?"
_RELEASE: Final = f"DELETE FROM held_jobs WHERE {_ONE} AND number = ?"
_BEGIN: Final = f"UPDATE notifications SET log_head = coalesce(log_head, ?) WHERE {_ONE}"
_FINISH: Final = f"""
UPDATE notifications SET sequence = ?, box = NULL, box_key = 0 WHERE {_ONE}
"""
_OVERDUE: Final = """
SELECT tenant, subject, item_id FROM due WHERE kind = 'inbox' AND at <= ?
"""


class SqliteScheduledNotifications:
    """Stores waiting jobs in a table of their own, beside the queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def hold(self, jobs: Sequence[Job]) -> None:
        rows = [job_to_row(job) for job in jobs]

        def write(db: apsw.Connection) -> None:
            db.executemany(HOLD_JOB, rows)

        await self._writer.write(write, rows=1 + len(rows))

    async def held(
        self, tenant: str, inbox: str, notification_id: str, limit: int
    ) -> Sequence[Job]:
        statement = f"{HELD_JOBS} WHERE {_ONE} ORDER BY number LIMIT ?"
        values = (tenant, inbox, notification_id, limit)
        return await self._readers.read(
            lambda db: [job_from_row(row) for row in db.execute(statement, values)]
        )

    async def release(self, jobs: Sequence[Job]) -> None:
        names = [(job.tenant, job.inbox, job.notification_id, job.number) for job in jobs]
        await self._writer.write_rows(self.release, [(_RELEASE, names)])

    async def begin(self, tenant: str, inbox: str, notification_id: str, head: int) -> int | None:
        name = (tenant, inbox, notification_id)

        def write(db: apsw.Connection) -> int | None:
            db.execute(_BEGIN, (head, *name))
            found = db.execute(f"SELECT log_head FROM notifications WHERE {_ONE}", name).get
            return None if found is None else int(found)

        return await self._writer.write(write, rows=1)

    async def finish(self, tenant: str, inbox: str, notification_id: str, sequence: int) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_FINISH, (sequence, tenant, inbox, notification_id))

        await self._writer.write(write, rows=1)

    async def fail(self, tenant: str, inbox: str, notification_id: str) -> None:
        def write(db: apsw.Connection) -> None:
            name = (tenant, inbox, notification_id)
            db.execute(f"UPDATE notifications SET failed = 1 WHERE {_ONE}", name)

        await self._writer.write(write, rows=1)


def mark_notifications_restored(db: apsw.Connection, now: int) -> int:
    """Mark the notifications that were due before a backup was restored, which are not delivered;
    return how many."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'held_jobs'").get:
        return 0  # a version that knows no scheduled notifications wrote the file
    overdue = db.execute(_OVERDUE, (now,)).fetchall()
    for name in overdue:
        db.execute(f"UPDATE notifications SET restored = 1 WHERE {_ONE}", name)
        db.execute(f"DELETE FROM held_jobs WHERE {_ONE}", name)
    db.execute("DELETE FROM due WHERE kind = 'inbox' AND at <= ?", (now,))
    return len(overdue)


_conforms: type[ScheduledNotifications] = SqliteScheduledNotifications
