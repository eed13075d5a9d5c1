# SPDX-License-Identifier: Apache-2.0
"""Membership rows: written with their entry, together with the receipt row and the count."""

import apsw

from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.room import Way, has_room, surely_has_room, way_into


def add(db: apsw.Connection, entry: Entry, *, is_direct: bool = False) -> bool:
    """Make the entry's people members, with receipts at the entry; False if one has no room.

    Joining again is joining: the row starts afresh.
    """
    for person in entry.people:
        way = way_into(person.user, entry.sender, is_direct=is_direct)
        if not _has_room(db, person.user, way):
            return False
        db.execute(
            "INSERT INTO chat_memberships VALUES (?, ?, ?, ?, ?, NULL)",
            (entry.chat_id, person.user, person.role, entry.created_at, entry.sequence),
        )
        db.execute(
            "INSERT INTO delivery_state VALUES (?, ?, ?, ?, ?, ?)",
            (
                person.user,
                entry.chat_id,
                entry.sequence,
                entry.sequence,
                entry.number,
                way == "own",
            ),
        )
    _count(db, entry.chat_id, len(entry.people))
    return True


def _has_room(db: apsw.Connection, user: UserKey, way: Way) -> bool:
    total = db.execute("SELECT count(*) FROM delivery_state WHERE user_id = ?", (user,)).get
    if surely_has_room(total):
        return True
    own = db.execute(
        "SELECT count(*) FROM delivery_state WHERE user_id = ? AND is_own", (user,)
    ).get
    return has_room(way, total, own)


def remove(db: apsw.Connection, entry: Entry) -> None:
    """End the membership of the entry's people; their receipts go with it."""
    for person in entry.people:
        db.execute(
            "DELETE FROM chat_memberships WHERE chat_id = ? AND user_id = ?",
            (entry.chat_id, person.user),
        )
        db.execute(
            "DELETE FROM delivery_state WHERE user_id = ? AND chat_id = ?",
            (person.user, entry.chat_id),
        )
    _count(db, entry.chat_id, -len(entry.people))


def change_roles(db: apsw.Connection, entry: Entry) -> None:
    """Give the entry's people their new roles."""
    db.executemany(
        "UPDATE chat_memberships SET role = ? WHERE chat_id = ? AND user_id = ?",
        [(person.role, entry.chat_id, person.user) for person in entry.people],
    )


def _count(db: apsw.Connection, chat: str, change: int) -> None:
    db.execute("UPDATE chats SET member_count = member_count + ? WHERE chat_id = ?", (change, chat))
