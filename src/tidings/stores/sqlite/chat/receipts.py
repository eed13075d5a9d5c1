# SPDX-License-Identifier: Apache-2.0
"""Receipts on SQLite, and the functions that count unread messages."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import apsw

from tidings.model import limits
from tidings.model.chats import Move, OwnSends, Receipt, Unread, unread_without_a_look
from tidings.model.entries import Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ReceiptBeyondHead
from tidings.ports.chats import Receipts
from tidings.stores.sqlite.chat.log import head_of_chat, receipts_of_chat, role_of
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

MOVES_AT_ONCE: Final = 200
"""Maximum number of receipts that one write moves, so that a turn of the event loop stays short."""

# Logs have no gaps: if an entry exists at the new sequence, that sequence is not beyond the head.
_MOVE: Final = """
UPDATE delivery_state SET
    delivered = max(delivered, ?3, ?4),
    read = max(read, ?4),
    read_number = CASE WHEN ?4 > read
        THEN (SELECT number FROM messages WHERE chat_id = ?2 AND sequence = ?4)
        ELSE read_number END
WHERE user_id = ?1 AND chat_id = ?2 AND (max(?3, ?4) > delivered OR ?4 > read)
    AND EXISTS (SELECT 1 FROM messages WHERE chat_id = ?2 AND sequence = max(?3, ?4))
RETURNING user_id, delivered, read, read_number
"""
_READ_NUMBER: Final = """
SELECT read_number, is_own FROM delivery_state WHERE user_id = ? AND chat_id = ?
"""
_MAKE_OWN: Final = "UPDATE delivery_state SET is_own = 1 WHERE user_id = ? AND chat_id = ?"
_MOVE_OVER_OWN: Final = """
UPDATE delivery_state SET delivered = max(delivered, ?4), read = ?4, read_number = ?3
WHERE user_id = ?1 AND chat_id = ?2 AND read < ?4
    AND EXISTS (SELECT 1 FROM messages WHERE chat_id = ?2 AND sequence = ?4 AND number = ?3)
RETURNING user_id, delivered, read, read_number
"""
# This is the same rule as `model.chats.counts_as_unread`; the contract suite checks that.
_COUNT_UNREAD: Final = """
SELECT count(*) FROM messages
WHERE chat_id = ? AND sequence > ? AND sequence <= ? AND kind = 'message' AND sender <> ?
    AND redacted = 0 AND (expires_at IS NULL OR expires_at > ?)
"""


class SqliteReceipts:
    """Table of receipts, one row for each user and chat."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        moved: list[tuple[ChatId, Receipt]] = []
        for start in range(0, len(moves), MOVES_AT_ONCE):
            some = moves[start : start + MOVES_AT_ONCE]
            moved += await self._writer.write(partial(_move, moves=some), rows=len(some))
        return moved

    async def advance(self, move: Move) -> tuple[Receipt, Head] | None:
        return await self._writer.write(lambda db: _advance(db, move))

    async def of_chat(self, chat: ChatId, reader: UserKey) -> list[Receipt] | None:
        def read(db: apsw.Connection) -> list[Receipt] | None:
            if role_of(db, chat, reader) is None:
                return None
            return receipts_of_chat(db, chat)

        return await self._readers.read(read)

    async def unread(self, user: UserKey, chat: ChatId, now: int) -> Unread | None:
        def read(db: apsw.Connection) -> Unread | None:
            receipt = receipt_of(db, chat, user)
            if receipt is None:
                return None
            return unread_of(db, chat, head_of_chat(db, chat), receipt, now)

        return await self._readers.read(read)


def receipt_of(db: apsw.Connection, chat: ChatId, user: UserKey) -> Receipt | None:
    """Return the user's receipt, or None if the user is not a member."""
    row = db.execute(
        "SELECT user_id, delivered, read, read_number FROM delivery_state"
        " WHERE user_id = ? AND chat_id = ?",
        (user, chat),
    ).fetchone()
    return Receipt(*row) if row else None


def unread_of(db: apsw.Connection, chat: ChatId, head: Head, receipt: Receipt, now: int) -> Unread:
    """Return the user's unread count; read the log only if head and receipt are not enough."""
    known = unread_without_a_look(head, receipt)
    if known is not None:
        return known
    return count_unread(db, chat, receipt, now)


def count_unread(db: apsw.Connection, chat: ChatId, receipt: Receipt, now: int) -> Unread:
    """Count the unread messages among the first thousand entries after the read mark."""
    ceiling = receipt.read + limits.UNREAD_ENTRIES_MAX
    count = db.execute(_COUNT_UNREAD, (chat, receipt.read, ceiling, receipt.user, now)).get
    return Unread(count)


def _move(db: apsw.Connection, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
    moved = {}
    for move in moves:
        row = _apply(db, move)
        if row is not None:
            moved[move.user, move.chat] = (move.chat, Receipt(*row))
    return list(moved.values())


def _apply(db: apsw.Connection, move: Move | OwnSends) -> tuple[Any, ...] | None:
    user, chat = move.user, move.chat
    if isinstance(move, Move):
        return db.execute(_MOVE, (user, chat, move.delivered, move.read)).fetchone()
    found = db.execute(_READ_NUMBER, (user, chat)).fetchone()
    if found is None:
        return None
    read_number, is_own = found
    if not is_own:
        db.execute(_MAKE_OWN, (user, chat))
    span = move.span_of(read_number)
    if span is None:
        return None
    return db.execute(_MOVE_OVER_OWN, (user, chat, span.to_number, span.to_sequence)).fetchone()


def _advance(db: apsw.Connection, move: Move) -> tuple[Receipt, Head] | None:
    if receipt_of(db, move.chat, move.user) is None:
        return None
    head = head_of_chat(db, move.chat)
    if max(move.delivered, move.read) > head.sequence:
        raise ReceiptBeyondHead(f"the log ends at {head.sequence}")
    _apply(db, move)
    receipt = receipt_of(db, move.chat, move.user)
    assert receipt is not None, "a receipt that was moved exists"
    return receipt, head


_conforms: type[Receipts] = SqliteReceipts
