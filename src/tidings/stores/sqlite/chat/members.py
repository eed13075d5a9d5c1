# SPDX-License-Identifier: Apache-2.0
"""Memberships and invitations on SQLite.

A membership is written in the same transaction as its log entry, receipt and member count.
"""

from collections.abc import Mapping
from typing import Any, Final

import apsw
import msgspec

from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipt_times import packed
from tidings.model.roles import Asked, Invite, Way, asking, has_room, surely_has_room, way_into
from tidings.ports.chats import InviteStore
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert
from tidings.stores.sqlite.engine.writer import Writer

_TOTALS: Final = """
SELECT user_id, chats FROM chat_counts WHERE user_id IN (SELECT value FROM json_each(?))
"""
_JOIN: Final = """
INSERT INTO delivery_state
    (user_id, chat_id, delivered, read, read_number, delivered_times, read_times, is_own)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_KEPT: Final = f"""
SELECT {columns(Invite)} FROM invites WHERE user_id = ? AND expires_at > ?
ORDER BY invited_at DESC, chat_id DESC
"""
_DECLINE: Final = """
UPDATE invites SET declined_at = ?3, expires_at = ?4
WHERE user_id = ?1 AND chat_id = ?2 AND expires_at > ?3 AND declined_at IS NULL
"""


def add(db: apsw.Connection, entry: Entry, *, is_direct: bool = False) -> bool:
    """Add the entry's people as members, with receipts that start at the entry.

    A user who joins again gets a new row. Returns False, and adds nobody, if any of them is already
    in the maximum number of chats.
    """
    ways = {
        person.user: way_into(person.user, entry.sender, is_direct=is_direct)
        for person in entry.people
    }
    if not have_room(db, ways):
        return False
    db.executemany(
        "INSERT INTO chat_memberships (chat_id, user_id, role, joined_at, joined)"
        " VALUES (?, ?, ?, ?, ?)",
        [
            (entry.chat_id, person.user, person.role, entry.created_at, entry.sequence)
            for person in entry.people
        ],
    )
    floor = packed([(entry.sequence, entry.created_at // limits.SECOND_MS)])
    at = (entry.chat_id, entry.sequence, entry.sequence, entry.number, floor, floor)
    db.executemany(_JOIN, [(user, *at, way == "own") for user, way in ways.items()])
    _count(db, entry, len(entry.people))
    return True


def have_room(db: apsw.Connection, ways: Mapping[UserKey, Way]) -> bool:
    """Return True if all of these users may join one more chat; `ways` says how each one joins.

    For nearly everybody, the stored count of chats is enough to decide. If a user is in very many
    chats, those that the user created or has written in are counted as well.
    """
    wanted = msgspec.json.encode(list(ways)).decode()
    totals: list[Any] = db.execute(_TOTALS, (wanted,)).fetchall()
    for user, total in totals:
        if surely_has_room(total):
            continue
        own: int = db.execute(
            "SELECT count(*) FROM delivery_state WHERE user_id = ? AND is_own", (user,)
        ).get
        if not has_room(ways[user], total, own):
            return False
    return True


def remove(db: apsw.Connection, entry: Entry) -> None:
    """Remove the entry's people from the chat, with their receipts."""
    for person in entry.people:
        db.execute(
            "DELETE FROM chat_memberships WHERE chat_id = ? AND user_id = ?",
            (entry.chat_id, person.user),
        )
        db.execute(
            "DELETE FROM delivery_state WHERE user_id = ? AND chat_id = ?",
            (person.user, entry.chat_id),
        )
    _count(db, entry, -len(entry.people))


def change_roles(db: apsw.Connection, entry: Entry) -> None:
    """Give the entry's people their new roles."""
    db.executemany(
        "UPDATE chat_memberships SET role = ? WHERE chat_id = ? AND user_id = ?",
        [(person.role, entry.chat_id, person.user) for person in entry.people],
    )


def _count(db: apsw.Connection, entry: Entry, change: int) -> None:
    db.execute(
        "UPDATE chats SET member_count = member_count + ?, updated_at = ? WHERE chat_id = ?",
        (change, entry.created_at, entry.chat_id),
    )


class SqliteInvites:
    """Stores pending and declined invitations."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, invite: Invite, now: int) -> Asked:
        def write(db: apsw.Connection) -> Asked:
            asked = asking(invite, _kept(db, invite.user_id, now))
            if asked != "refused":
                insert(db, "invites", invite, replace=True)
            return asked

        return await self._writer.write(write, rows=1)

    async def get(self, user: UserKey, chat: ChatId, now: int) -> Invite | None:
        pending = await self.pending(user, now)
        return next((invite for invite in pending if invite.chat_id == chat), None)

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        kept = await self._readers.read(lambda db: _kept(db, user, now))
        return [invite for invite in kept if invite.declined_at is None]

    async def decline(self, user: UserKey, chat: ChatId, now: int) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_DECLINE, (user, chat, now, now + limits.INVITE_DECLINED_MS))

        await self._writer.write(write, rows=1)

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute("DELETE FROM invites WHERE user_id = ? AND chat_id = ?", (user, chat))

        await self._writer.write(write, rows=1)


def _kept(db: apsw.Connection, user: UserKey, now: int) -> list[Invite]:
    return [from_row(Invite, row) for row in db.execute(_KEPT, (user, now))]


_conforms: type[InviteStore] = SqliteInvites
