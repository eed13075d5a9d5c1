# SPDX-License-Identifier: Apache-2.0
"""Items that become due, and scheduled messages, on SQLite."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model.ids import UserKey
from tidings.model.scheduled import RESTORED, USER_SCHEDULED_MAX, Scheduled
from tidings.ports.due import Due, DueItems, DueKind, ScheduledMessages, due_of
from tidings.ports.people import Listed
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert_once, listed
from tidings.stores.sqlite.engine.writer import Writer

ONLY_SHARD: Final = 0
_DUE: Final = ("kind", "at", "item_id", "subject", "tenant", "made_at")
PUT_DUE: Final = f"INSERT OR REPLACE INTO due ({', '.join(_DUE)}) VALUES (?, ?, ?, ?, ?, ?)"
_READ_DUE: Final = f"""
SELECT {", ".join(_DUE)} FROM due WHERE kind = ? AND at <= ? AND (at, item_id) > (?, ?)
"""
_DROP_DUE: Final = "DELETE FROM due WHERE kind = ? AND at = ? AND item_id = ?"
_DROP_DONE: Final = f"{_DROP_DUE} AND made_at <= ?"
ALL_SCHEDULED: Final = f"SELECT {columns(Scheduled)} FROM scheduled"
KEEP_SCHEDULED: Final = insert_once("scheduled", Scheduled)
_GET: Final = f"{ALL_SCHEDULED} WHERE user_id = ? AND scheduled_id = ?"
_PAGE: Final = f"""
{ALL_SCHEDULED} WHERE user_id = ? AND scheduled_id > ? AND state IN ('pending', 'firing', 'failed')
    AND (expires_at IS NULL OR expires_at > ?)
ORDER BY scheduled_id LIMIT ?
"""
_COUNT: Final = """
SELECT count(*) FROM scheduled WHERE user_id = ? AND state IN ('pending', 'firing')
"""
_REPLACE: Final = f"""
REPLACE INTO scheduled ({columns(Scheduled)})
VALUES ({", ".join("?" * len(Scheduled.__struct_fields__))})
"""
_OTHERS: Final = tuple(enumerate(Scheduled.__struct_fields__, start=1))[2:]
"""The fields after the key, each with its number."""
_FINISH: Final = f"""
UPDATE scheduled SET {", ".join(f"{name} = ?{number}" for number, name in _OTHERS)}
WHERE user_id = ?1 AND scheduled_id = ?2 AND state IN ('pending', 'firing')
"""
_FIRE: Final = """
UPDATE scheduled SET state = 'firing'
WHERE user_id = ? AND scheduled_id = ? AND send_at = ? AND state = 'pending'
"""
_NAMES: Final = "SELECT scheduled_id FROM scheduled WHERE user_id = ? LIMIT ?"
_FORGET: Final = "DELETE FROM scheduled WHERE user_id = ? AND scheduled_id = ?"
_OVERDUE: Final = f"{ALL_SCHEDULED} WHERE state IN ('pending', 'firing') AND send_at <= ?"

_names = msgspec.json.Decoder(tuple[str, ...])


class SqliteDueItems:
    """Stores items in a table with an index by time. The only process has the only shard."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, due: Due, now: int) -> None:
        row = due_row(due)

        def write(db: apsw.Connection) -> None:
            db.execute(PUT_DUE, row)

        await self._writer.write(write, rows=1)

    async def lease(self, kind: DueKind, holder: str, now: int) -> Sequence[int]:
        return (ONLY_SHARD,)

    async def read(
        self,
        kind: DueKind,
        shard: int,
        now: int,
        limit: int,
        without: Sequence[str] = (),
        after: Due | None = None,
        since: int = 0,
    ) -> list[Due]:
        marks = ", ".join("?" * len(without))
        others = f"{_READ_DUE} AND tenant NOT IN ({marks}) ORDER BY at, item_id LIMIT ?"
        begin = max((since, ""), (0, "") if after is None else (after.at, after.item_id))
        values = (kind, now, *begin, *without, limit)

        def read(db: apsw.Connection) -> list[Due]:
            return [Due(**dict(zip(_DUE, row, strict=True))) for row in db.execute(others, values)]

        return await self._readers.read(read)

    async def drop(self, due: Due) -> None:
        await self.drop_done([due])

    async def drop_done(self, dues: Sequence[Due]) -> None:
        rows = [(*due.name, due.made_at) for due in dues]
        await self._writer.write_rows(self.drop_done, [(_DROP_DONE, rows)])

    async def give_back(self, kind: DueKind, holder: str) -> None:
        pass  # nobody else could take the shard


def due_row(due: Due) -> tuple[Any, ...]:
    """Convert an item to a row."""
    return tuple(getattr(due, name) for name in _DUE)


class SqliteScheduled:
    """Stores scheduled messages, one row each. The sweeper removes those that have expired."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def add(self, message: Scheduled) -> Scheduled | None:
        def write(db: apsw.Connection) -> Scheduled | None:
            found = _get(db, message.user_id, message.scheduled_id)
            if found is not None:
                return found
            if db.execute(_COUNT, (message.user_id,)).get >= USER_SCHEDULED_MAX:
                return None
            db.execute(KEEP_SCHEDULED, to_scheduled_row(message))
            return message

        return await self._writer.write(write)

    async def get(self, user: UserKey, scheduled_id: str) -> Scheduled | None:
        return await self._readers.read(lambda db: _get(db, user, scheduled_id))

    async def page(
        self, user: UserKey, *, after: str | None, limit: int, now: int
    ) -> Listed[Scheduled]:
        values = (user, after or "", now, limit + 1)

        def read(db: apsw.Connection) -> list[Scheduled]:
            return [from_scheduled_row(row) for row in db.execute(_PAGE, values)]

        found = await self._readers.read(read)
        return listed(found, limit, lambda message: message.scheduled_id)

    async def replace(self, before: Scheduled, after: Scheduled) -> bool:
        def write(db: apsw.Connection) -> bool:
            found = _get(db, before.user_id, before.scheduled_id)
            if found is None or found.state != "pending" or found.updated_at != before.updated_at:
                return False
            db.execute(_REPLACE, to_scheduled_row(after))
            return True

        return await self._writer.write(write)

    async def fire(self, user: UserKey, scheduled_id: str, send_at: int) -> Scheduled | None:
        def write(db: apsw.Connection) -> Scheduled | None:
            db.execute(_FIRE, (user, scheduled_id, send_at))
            return _get(db, user, scheduled_id)

        return await self._writer.write(write, rows=1)

    async def finish(self, message: Scheduled) -> None:
        row = to_scheduled_row(message)
        await self._writer.write_rows(self.finish, [(_FINISH, [row])])

    async def names(self, user: UserKey, limit: int) -> list[str]:
        def read(db: apsw.Connection) -> list[str]:
            return [name for (name,) in db.execute(_NAMES, (user, limit))]

        return await self._readers.read(read)

    async def forget(self, user: UserKey, names: Sequence[str]) -> None:
        def write(db: apsw.Connection) -> None:
            for name in names:
                message = _get(db, user, name)
                if message is not None:
                    db.execute(_FORGET, (user, name))
                    db.execute(_DROP_DUE, due_of(message).name)

        await self._writer.write(write, rows=2 * len(names))


def has_table(db: apsw.Connection) -> bool:
    """Return False if a version that knows no scheduled messages wrote the file."""
    return bool(db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'scheduled'").get)


def mark_restored(db: apsw.Connection, now: int) -> int:
    """Mark the messages that were due before a backup was restored as failed; return how many."""
    if not has_table(db):
        return 0
    overdue = [from_scheduled_row(row) for row in db.execute(_OVERDUE, (now,))]
    for message in overdue:
        db.execute(_REPLACE, to_scheduled_row(message.failed(RESTORED, now)))
        db.execute(_DROP_DUE, due_of(message).name)
    return len(overdue)


def to_scheduled_row(message: Scheduled) -> tuple[Any, ...]:
    """Convert a scheduled message to a row, in the order of its fields."""
    fields = msgspec.structs.asdict(message)
    fields["mentions"] = msgspec.json.encode(message.mentions).decode()
    fields["attachments"] = msgspec.json.encode(message.attachments).decode()
    fields["silent"] = int(message.silent)
    return tuple(fields.values())


def from_scheduled_row(row: tuple[Any, ...]) -> Scheduled:
    """Convert a row that was selected with `columns` to a scheduled message."""
    found = from_row(Scheduled, row)
    return msgspec.structs.replace(
        found,
        mentions=_names.decode(str(found.mentions)),
        attachments=_names.decode(str(found.attachments)),
        silent=bool(found.silent),
    )


def _get(db: apsw.Connection, user: UserKey, scheduled_id: str) -> Scheduled | None:
    row = db.execute(_GET, (user, scheduled_id)).fetchone()
    return from_scheduled_row(row) if row else None


_due_conforms: type[DueItems] = SqliteDueItems
_conforms: type[ScheduledMessages] = SqliteScheduled
