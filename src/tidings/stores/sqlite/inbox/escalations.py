# SPDX-License-Identifier: Apache-2.0
"""Users who get an e-mail about an unread notification, on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model.escalations import Escalation
from tidings.model.ids import UserKey
from tidings.model.notifications import EMAIL_DECIDED, Copy
from tidings.ports.escalations import Escalations, due_of_escalation
from tidings.stores.sqlite.chat.scheduled import PUT_DUE, due_row
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row
from tidings.stores.sqlite.engine.writer import Writer

ALL_ESCALATIONS: Final = f"SELECT {columns(Escalation)} FROM escalations"
PUT_ESCALATION: Final = f"""
INSERT OR REPLACE INTO escalations ({columns(Escalation)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ONE: Final = "tenant = ? AND inbox = ? AND notification_id = ? AND number = ?"
_SAME: Final = f"{_ONE} AND users = ? AND at = ? AND attempt = ?"
_COPY: Final = "user_id = ? AND inbox = ? AND notification_id = ?"
_COPIES: Final = f"""
SELECT user_id, {columns(Copy)} FROM copies
WHERE user_id IN (SELECT value FROM json_each(?)) AND inbox = ? AND notification_id = ?
"""
_CLAIM: Final = f"""
UPDATE copies SET escalated_at = ? WHERE {_COPY}
    AND escalated_at IS NULL AND read_at IS NULL AND archived_at IS NULL
"""
_END: Final = f"UPDATE copies SET escalated_at = ? WHERE {_COPY} AND escalated_at = ?"

_users = msgspec.json.Decoder(tuple[str, ...])


class SqliteEscalations:
    """Stores portions of users in a table of their own, and claims with the copies."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, escalations: Sequence[Escalation], now: int) -> None:
        rows = [escalation_row(one) for one in escalations]
        dues = [due_row(due_of_escalation(one, now)) for one in escalations]

        def write(db: apsw.Connection) -> None:
            db.executemany(PUT_ESCALATION, rows)
            db.executemany(PUT_DUE, dues)

        await self._writer.write(write, rows=1 + len(rows) + len(dues))

    async def get(
        self, tenant: str, inbox: str, notification_id: str, number: int
    ) -> Escalation | None:
        key = (tenant, inbox, notification_id, number)

        def read(db: apsw.Connection) -> Escalation | None:
            row = db.execute(f"{ALL_ESCALATIONS} WHERE {_ONE}", key).fetchone()
            return None if row is None else to_escalation(row)

        return await self._readers.read(read)

    async def replace(self, before: Escalation, after: Escalation, now: int) -> bool:
        same, row = _same(before), escalation_row(after)
        due = due_row(due_of_escalation(after, now))

        def write(db: apsw.Connection) -> bool:
            if not db.execute(f"SELECT 1 FROM escalations WHERE {_SAME}", same).get:
                return False
            db.execute(PUT_ESCALATION, row)
            db.execute(PUT_DUE, due)
            return True

        return await self._writer.write(write, rows=2)

    async def drop(self, escalation: Escalation) -> None:
        same = _same(escalation)

        def write(db: apsw.Connection) -> None:
            db.execute(f"DELETE FROM escalations WHERE {_SAME}", same)

        await self._writer.write(write, rows=1)

    async def copies(
        self, users: Sequence[UserKey], inbox: str, notification_id: str
    ) -> Mapping[UserKey, Copy]:
        wanted = (msgspec.json.encode(list(users)).decode(), inbox, notification_id)
        return await self._readers.read(
            lambda db: {
                UserKey(user): from_row(Copy, tuple(row))
                for user, *row in db.execute(_COPIES, wanted)
            }
        )

    async def claim(self, user: UserKey, inbox: str, notification_id: str, now: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_CLAIM, (now, user, inbox, notification_id))
            return db.changes() > 0

        return await self._writer.write(write, rows=1)

    async def release(self, user: UserKey, inbox: str, notification_id: str, now: int) -> None:
        await self._end(None, user, inbox, notification_id, now)

    async def finish(self, user: UserKey, inbox: str, notification_id: str, now: int) -> None:
        await self._end(EMAIL_DECIDED, user, inbox, notification_id, now)

    async def _end(self, end: int | None, *claim: str | int) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_END, (end, *claim))

        await self._writer.write(write, rows=1)


def escalation_row(escalation: Escalation) -> tuple[Any, ...]:
    """Convert a portion of users to a row."""
    users = _column(escalation.users)
    return msgspec.structs.astuple(msgspec.structs.replace(escalation, users=users))


def _column(users: tuple[str, ...]) -> str:
    return msgspec.json.encode(users).decode()


def _same(one: Escalation) -> tuple[str | int, ...]:
    key = (one.tenant, one.inbox, one.notification_id, one.number)
    return (*key, _column(one.users), one.at, one.attempt)


def to_escalation(row: tuple[Any, ...]) -> Escalation:
    """Convert a row that has the columns of `Escalation` to a portion of users."""
    fields = dict(zip(Escalation.__struct_fields__, row, strict=True))
    return Escalation(**{**fields, "users": _users.decode(fields["users"])})


def end_overdue_escalations(db: apsw.Connection, now: int) -> None:
    """Remove what was due before a backup was restored: nobody gets an e-mail about it."""
    if db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'escalations'").get:
        db.execute("DELETE FROM escalations WHERE at <= ?", (now,))
        db.execute("DELETE FROM due WHERE kind = 'escalation' AND at <= ?", (now,))


_conforms: type[Escalations] = SqliteEscalations
