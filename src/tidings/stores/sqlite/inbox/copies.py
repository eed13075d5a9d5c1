# SPDX-License-Identifier: Apache-2.0
"""Users' copies of notifications and their read marks, on SQLite; `states` has all other marks."""

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.notifications import Copy, ReadState
from tidings.ports.inboxes import Copies
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.inbox.states import move_mark, read_state

_DELIVER: Final = """
INSERT OR IGNORE INTO copies
    (user_id, inbox, notification_id, category, received_at, expires_at, collapse)
SELECT value, ?2, ?3, ?4, ?5, ?6, ?7 FROM json_each(?1) WHERE true
RETURNING user_id
"""
_NEWEST: Final = f"SELECT {columns(Copy)} FROM copies WHERE user_id = ? AND inbox = ?"
_HOLDERS: Final = """
SELECT user_id FROM copies
WHERE user_id IN (SELECT value FROM json_each(?)) AND inbox = ? AND notification_id = ?
"""
_MARK: Final = """
UPDATE copies SET read_at = ?4 WHERE user_id = ?1 AND inbox = ?2 AND read_at IS NULL
    AND notification_id IN (SELECT value FROM json_each(?3))
"""
_COVERED: Final = "DELETE FROM read_announcements WHERE user_id = ? AND inbox = ? AND sequence <= ?"
_READ_ONE: Final = """
INSERT OR IGNORE INTO read_announcements (user_id, inbox, sequence, read_at)
SELECT ?1, ?2, value, ?4 FROM json_each(?3) WHERE value > coalesce(
    (SELECT announced FROM read_states WHERE user_id = ?1 AND inbox = ?2), 0)
"""
_DROP_LOWEST: Final = """
DELETE FROM read_announcements WHERE user_id = ?1 AND inbox = ?2 AND sequence <= (
    SELECT sequence FROM read_announcements WHERE user_id = ?1 AND inbox = ?2
    ORDER BY sequence DESC LIMIT 1 OFFSET ?3)
"""


class SqliteCopies:
    """Stores copies and read marks, both sorted by user."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def deliver(self, users: Sequence[UserKey], inbox: str, copy: Copy) -> list[UserKey]:
        row = (
            _json(users),
            inbox,
            copy.notification_id,
            copy.category,
            copy.received_at,
            copy.expires_at,
            copy.collapse,
        )
        return await self._writer.write(
            lambda db: [user for (user,) in db.execute(_DELIVER, row)], rows=1 + len(users)
        )

    async def newest(
        self, user: UserKey, inbox: str, *, before: str | None, limit: int
    ) -> list[Copy]:
        below = "" if before is None else " AND notification_id < ?"
        statement = f"{_NEWEST}{below} ORDER BY notification_id DESC LIMIT ?"
        values = (user, inbox, limit) if before is None else (user, inbox, before, limit)
        return await self._readers.read(
            lambda db: [from_row(Copy, row) for row in db.execute(statement, values)]
        )

    async def holders(
        self, users: Sequence[UserKey], inbox: str, notification_id: str
    ) -> list[UserKey]:
        wanted = (_json(users), inbox, notification_id)
        return await self._readers.read(
            lambda db: [user for (user,) in db.execute(_HOLDERS, wanted)]
        )

    async def mark_read(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str], now: int
    ) -> None:
        values = (user, inbox, _json(notification_ids), now)

        def write(db: apsw.Connection) -> None:
            db.execute(_MARK, values)

        await self._writer.write(write, rows=1 + len(notification_ids))

    async def read_state(self, user: UserKey, inbox: str) -> ReadState:
        return await self._readers.read(lambda db: read_state(db, user, inbox))

    async def read_before(self, user: UserKey, inbox: str, time: int, announced: int) -> None:
        def write(db: apsw.Connection) -> None:
            move_mark(db, user, inbox, "read", time, announced)
            db.execute(_COVERED, (user, inbox, announced))

        await self._writer.write(write)

    async def read_broadcasts(
        self, user: UserKey, inbox: str, sequences: Sequence[int], now: int
    ) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_READ_ONE, (user, inbox, _json(sequences), now))
            db.execute(_DROP_LOWEST, (user, inbox, limits.INBOX_BROADCASTS_MAX))

        await self._writer.write(write, rows=1 + len(sequences))


def _json(values: Sequence[str] | Sequence[int]) -> str:
    return msgspec.json.encode(list(values)).decode()


_conforms: type[Copies] = SqliteCopies
