# SPDX-License-Identifier: Apache-2.0
"""Membership rows: written with their entry, together with the receipt row and the count."""

import apsw

from tidings.model import limits
from tidings.model.entries import Entry


def add(db: apsw.Connection, entry: Entry) -> bool:
    """Make the entry's people members, with receipts at the entry; False if one has no room.

    Joining again is joining: the row starts afresh.
    """
    for person in entry.people:
        held = db.execute(
            "SELECT count(*) FROM delivery_state WHERE user_id = ?", (person.user,)
        ).get
        if held >= limits.USER_CHATS_MAX:
            return False
        db.execute(
            "INSERT INTO chat_memberships VALUES (?, ?, ?, ?, ?, NULL)",
            (entry.chat_id, person.user, person.role, entry.created_at, entry.sequence),
        )
        db.execute(
            "INSERT INTO delivery_state VALUES (?, ?, ?, ?, ?)",
            (person.user, entry.chat_id, entry.sequence, entry.sequence, entry.number),
        )
    _count(db, entry.chat_id, len(entry.people))
    return True


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
