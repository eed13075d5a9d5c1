# SPDX-License-Identifier: Apache-2.0
"""What users do with single notifications, and the marks that cover many, on SQLite."""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from tidings.model.ids import UserKey
from tidings.model.notification_states import (
    STATE_KINDS,
    Acted,
    Assignment,
    BroadcastStates,
    NotificationStates,
    StateChange,
    StateKind,
    assignments,
)
from tidings.model.notifications import Broadcast, ReadState
from tidings.ports.inbox_states import InboxStates
from tidings.stores.sqlite.engine.rows import columns, from_row
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.inbox.preferences import preferences_from_column

MARK_COLUMNS: Final[dict[StateKind, tuple[str, str]]] = {
    "seen": ("seen_before", "seen_announced"),
    "read": ("before", "announced"),
    "archived": ("archived_before", "archived_announced"),
}
_MARKS: Final = tuple(column for pair in MARK_COLUMNS.values() for column in pair)
MARKS: Final = ", ".join(_MARKS)

_COPY: Final = "copies WHERE user_id = ? AND inbox = ? AND notification_id = ?"
_BROADCAST: Final = "broadcast_states WHERE user_id = ? AND inbox = ? AND sequence = ?"
_TOUCH: Final = """
INSERT OR IGNORE INTO broadcast_states (user_id, inbox, sequence, expires_at) VALUES (?, ?, ?, ?)
"""
_ACTS: Final = "acted = ?, acted_at = ?, read_at = coalesce(read_at, ?)"


class SqliteInboxStates:
    """Stores the states of single notifications, and moves the marks that cover many."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def change_copies(
        self,
        user: UserKey,
        inbox: str,
        notification_ids: Sequence[str],
        change: StateChange,
        state: ReadState,
        now: int,
    ) -> None:
        marks = {kind: state.mark(kind).before for kind in STATE_KINDS}
        changes = assignments(change, marks, now)

        def write(db: apsw.Connection) -> None:
            for each in notification_ids:
                _change(db, _COPY, (user, inbox, each), changes)

        await self._writer.write(write, rows=1 + len(notification_ids))

    async def change_broadcasts(
        self,
        user: UserKey,
        inbox: str,
        broadcasts: Sequence[Broadcast],
        change: StateChange,
        state: ReadState,
        now: int,
    ) -> None:
        marks = {kind: state.mark(kind).announced for kind in STATE_KINDS}
        changes = assignments(change, marks, now)

        def write(db: apsw.Connection) -> None:
            for each in broadcasts:
                key = (user, inbox, each.sequence)
                db.execute(_TOUCH, (*key, each.expires_at))
                _change(db, _BROADCAST, key, changes)

        await self._writer.write(write, rows=1 + len(broadcasts))

    async def mark_before(
        self, user: UserKey, inbox: str, kind: StateKind, time: int, announced: int
    ) -> None:
        await self._writer.write(
            lambda db: move_mark(db, user, inbox, kind, time, announced), rows=1
        )

    async def act_on_copy(
        self, user: UserKey, inbox: str, notification_id: str, action: str, now: int
    ) -> Acted | None:
        key = (user, inbox, notification_id)
        return await self._writer.write(lambda db: _act(db, _COPY, key, action, now), rows=1)

    async def act_on_broadcast(
        self, user: UserKey, inbox: str, broadcast: Broadcast, action: str, now: int
    ) -> Acted:
        key = (user, inbox, broadcast.sequence)

        def write(db: apsw.Connection) -> Acted:
            db.execute(_TOUCH, (*key, broadcast.expires_at))
            acted = _act(db, _BROADCAST, key, action, now)
            assert acted is not None, "the row exists"
            return acted

        return await self._writer.write(write, rows=1)

    async def forget_broadcasts(
        self, user: UserKey, inbox: str, states: Sequence[BroadcastStates]
    ) -> None:
        names = NotificationStates.__struct_fields__
        is_same = "".join(f" AND {name} IS ?" for name in names)
        rows = [
            (user, inbox, one.sequence, *(getattr(one, name) for name in names)) for one in states
        ]

        def write(db: apsw.Connection) -> None:
            db.executemany(f"DELETE FROM {_BROADCAST}{is_same}", rows)

        await self._writer.write(write, rows=1 + len(rows))


def move_mark(
    db: apsw.Connection, user: UserKey, inbox: str, kind: StateKind, time: int, announced: int
) -> None:
    """Move a mark forward, unless it is already there or further on."""
    before, sequence = MARK_COLUMNS[kind]
    insert_marks = "INSERT OR IGNORE INTO read_states (user_id, inbox, before, announced)"
    db.execute(f"{insert_marks} VALUES (?, ?, 0, 0)", (user, inbox))
    db.execute(
        f"UPDATE read_states SET {before} = max({before}, ?), {sequence} = max({sequence}, ?)"
        " WHERE user_id = ? AND inbox = ?",
        (time, announced, user, inbox),
    )


def marks_row(state: ReadState) -> tuple[int, ...]:
    """Return the values of the columns `MARKS`."""
    return tuple(getattr(state, name) for name in _MARKS)


def read_state(db: apsw.Connection, user: UserKey, inbox: str) -> ReadState:
    """Return a user's marks in an inbox, and the states of single broadcasts."""
    key, of_user = (user, inbox), "WHERE user_id = ? AND inbox = ?"
    row = db.execute(f"SELECT {MARKS}, preferences FROM read_states {of_user}", key).fetchone()
    *marks, chosen = row or (*(0,) * len(_MARKS), None)
    singly = db.execute(f"SELECT sequence, read_at FROM read_announcements {of_user}", key)
    read_at = dict(singly)
    statement = f"SELECT {columns(BroadcastStates)} FROM broadcast_states {of_user}"
    states = [from_row(BroadcastStates, each) for each in db.execute(statement, key)]
    return ReadState(
        **dict(zip(_MARKS, marks, strict=True)),
        singly=read_at,
        broadcasts={one.sequence: one for one in states},
        preferences=preferences_from_column(chosen),
    )


def _change(
    db: apsw.Connection, where: str, key: tuple[Any, ...], changes: Sequence[Assignment]
) -> None:
    table, condition = where.split(" ", 1)
    sets = ", ".join(
        f"{field} = coalesce({field}, ?)" if keeps_earlier else f"{field} = ?"
        for field, _, keeps_earlier in changes
    )
    values = [change.value for change in changes]
    db.execute(f"UPDATE {table} SET {sets} {condition}", (*values, *key))


def _act(
    db: apsw.Connection, where: str, key: tuple[Any, ...], action: str, now: int
) -> Acted | None:
    table, condition = where.split(" ", 1)
    db.execute(
        f"UPDATE {table} SET {_ACTS} {condition} AND acted IS NULL", (action, now, now, *key)
    )
    row = db.execute(f"SELECT acted, acted_at FROM {table} {condition}", key).fetchone()
    return Acted(*row) if row else None


_conforms: type[InboxStates] = SqliteInboxStates
