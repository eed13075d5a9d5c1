# SPDX-License-Identifier: Apache-2.0
"""Receipts on SQLite, and the functions that count unread messages."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import apsw

from tidings.model.chats import ChatHead, Move, OwnSends, Receipt, ReceiptWithTimes, UnreadFound
from tidings.model.entries import Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipt_times import DELIVERED_TIMES_MAX, READ_TIMES_MAX, noted, packed, unpacked
from tidings.model.refusals import ReceiptBeyondHead
from tidings.model.unread_counts import check_unread_from, found_in_log, unread_without_a_look
from tidings.ports.chats import Receipts
from tidings.stores.sqlite.chat.log import head_of_chat, receipts_of_chat, role_of
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import RECEIPT, RETURNED_RECEIPT
from tidings.stores.sqlite.engine.writer import Writer

MOVES_AT_ONCE: Final = 200
"""Maximum number of receipts that one write moves, so that a turn of the event loop stays short."""

# Logs have no gaps: if an entry exists at the new sequence, that sequence is not beyond the head.
_MOVE: Final = f"""
UPDATE delivery_state SET
    delivered = max(delivered, ?3, ?4),
    read = max(read, ?4),
    read_number = CASE WHEN ?4 > read
        THEN (SELECT number FROM messages WHERE chat_id = ?2 AND sequence = ?4)
        ELSE read_number END,
    unread_from = CASE WHEN ?4 > read THEN 0 ELSE unread_from END,
    unread_number = CASE WHEN ?4 > read THEN 0 ELSE unread_number END,
    delivered_times = CASE WHEN ?5 > 0 AND ?3 > ?4 AND ?3 > delivered
        THEN noted(delivered_times, ?3, ?5, {DELIVERED_TIMES_MAX})
        ELSE delivered_times END,
    read_times = CASE WHEN ?5 > 0 AND ?4 > read
        THEN noted(read_times, ?4, ?5, {READ_TIMES_MAX})
        ELSE read_times END
WHERE user_id = ?1 AND chat_id = ?2 AND (max(?3, ?4) > delivered OR ?4 > read)
    AND EXISTS (SELECT 1 FROM messages WHERE chat_id = ?2 AND sequence = max(?3, ?4))
RETURNING {RETURNED_RECEIPT}
"""
_READ_NUMBER: Final = """
SELECT read_number, is_own AND NOT unread_from FROM delivery_state
WHERE user_id = ? AND chat_id = ?
"""
_WROTE: Final = """
UPDATE delivery_state SET is_own = 1, unread_from = 0, unread_number = 0
WHERE user_id = ? AND chat_id = ?
"""
_MOVE_OVER_OWN: Final = f"""
UPDATE delivery_state SET delivered = max(delivered, ?4), read = ?4, read_number = ?3
WHERE user_id = ?1 AND chat_id = ?2 AND read < ?4
    AND EXISTS (SELECT 1 FROM messages WHERE chat_id = ?2 AND sequence = ?4 AND number = ?3)
RETURNING {RETURNED_RECEIPT}
"""
_MARK_UNREAD: Final = """
UPDATE delivery_state SET unread_from = ?3, unread_number = coalesce((
    SELECT number - (kind = 'message') FROM messages WHERE chat_id = ?2 AND sequence = ?3), 0)
WHERE user_id = ?1 AND chat_id = ?2
"""
_JOINED: Final = "SELECT joined FROM chat_memberships WHERE chat_id = ? AND user_id = ?"
_HIDE: Final = f"""
UPDATE delivery_state SET hidden_number = ?3
WHERE user_id = ?1 AND chat_id = ?2 RETURNING {RETURNED_RECEIPT}
"""
_WITH_TIMES: Final = f"""
SELECT m.joined, d.delivered_times, d.read_times, {RECEIPT} FROM chat_memberships AS m
JOIN delivery_state AS d ON d.user_id = m.user_id AND d.chat_id = m.chat_id
WHERE m.chat_id = ? ORDER BY m.joined, m.user_id
"""
_ONE_WITH_TIMES: Final = f"""
SELECT ?, d.delivered_times, d.read_times, {RECEIPT} FROM delivery_state AS d
WHERE d.user_id = ? AND d.chat_id = ?
"""
# This is the same rule as `model.unread_counts.counts_as_unread`; the contract suite checks that.
_COUNT_UNREAD: Final = """
SELECT sender, box_key, count(*) FROM messages
WHERE chat_id = ? AND sequence > ? AND sequence <= ? AND kind = 'message' AND sender <> ?
    AND redacted = 0 AND (expires_at IS NULL OR expires_at > ?)
GROUP BY sender, box_key
"""
_COUNT_MENTIONS: Final = """
SELECT e.sender, e.box_key, count(*) FROM mentions AS m
JOIN messages AS e ON e.chat_id = m.chat_id AND e.sequence = m.sequence
WHERE m.chat_id = ?1 AND m.sequence > ?2 AND m.sequence <= ?3 AND m.user_id IN (?4, '*')
    AND e.sender <> ?4 AND e.redacted = 0 AND (e.expires_at IS NULL OR e.expires_at > ?5)
GROUP BY e.sender, e.box_key
"""


class SqliteReceipts:
    """Stores receipts, one row for each user and chat."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        """Set up the store; `make_functions` must have added `noted` to the writer's connection."""
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

    async def find(self, user: UserKey, chat: ChatId, joined: int) -> ReceiptWithTimes | None:
        def read(db: apsw.Connection) -> ReceiptWithTimes | None:
            row = db.execute(_ONE_WITH_TIMES, (joined, user, chat)).fetchone()
            return _with_times(row) if row else None

        return await self._readers.read(read)

    async def with_times(self, chat: ChatId, reader: UserKey) -> list[ReceiptWithTimes] | None:
        def read(db: apsw.Connection) -> list[ReceiptWithTimes] | None:
            if role_of(db, chat, reader) is None:
                return None
            return [_with_times(row) for row in db.execute(_WITH_TIMES, (chat,))]

        return await self._readers.read(read)

    async def unread(self, user: UserKey, chat: ChatId, now: int) -> UnreadFound | None:
        def read(db: apsw.Connection) -> UnreadFound | None:
            receipt = receipt_of(db, chat, user)
            if receipt is None:
                return None
            return unread_of(db, chat, head_of_chat(db, chat), receipt, now)

        return await self._readers.read(read)

    async def count(self, chats: Sequence[ChatHead], now: int) -> list[UnreadFound]:
        return await self._readers.read(
            lambda db: [
                count_unread(db, chat.chat_id, chat.head, chat.receipt, now) for chat in chats
            ]
        )

    async def mark_unread(self, user: UserKey, chat: ChatId, first: int | None) -> Receipt | None:
        return await self._writer.write(partial(_mark_unread, user=user, chat=chat, first=first))

    async def hide(self, user: UserKey, chat: ChatId, *, is_hidden: bool) -> Receipt | None:
        def write(db: apsw.Connection) -> Receipt | None:
            number = head_of_chat(db, chat).number if is_hidden else -1
            row = db.execute(_HIDE, (user, chat, number)).fetchone()
            return Receipt(*row) if row else None

        return await self._writer.write(write)


def make_functions(db: apsw.Connection) -> None:
    """Define the SQL function `noted` on the writer's connection. It adds the time of a move to the
    times of a receipt."""

    def noted_and_packed(*values: Any) -> bytes:  # noqa: ANN401 - as SQLite passes them
        times, sequence, now, most = values
        return packed(noted(unpacked(times), sequence, now, most))

    db.create_scalar_function("noted", noted_and_packed, 4, deterministic=True)


def receipt_of(db: apsw.Connection, chat: ChatId, user: UserKey) -> Receipt | None:
    """Return the user's receipt, or None if the user is not a member."""
    row = db.execute(
        f"SELECT {RECEIPT} FROM delivery_state AS d WHERE user_id = ? AND chat_id = ?",
        (user, chat),
    ).fetchone()
    return Receipt(*row) if row else None


def unread_of(
    db: apsw.Connection, chat: ChatId, head: Head, receipt: Receipt, now: int
) -> UnreadFound:
    """Return the user's unread messages; read the log only if head and receipt are not enough."""
    known = unread_without_a_look(head, receipt)
    if known is not None:
        return UnreadFound(known, up_to=head.sequence)
    return count_unread(db, chat, head, receipt, now)


def count_unread(
    db: apsw.Connection, chat: ChatId, head: Head, receipt: Receipt, now: int
) -> UnreadFound:
    """Count the unread messages up to the head."""
    values = (chat, receipt.unread_after, head.sequence, receipt.user, now)
    by_key, mentions = (
        {(sender, key): count for sender, key, count in db.execute(statement, values)}
        for statement in (_COUNT_UNREAD, _COUNT_MENTIONS)
    )
    return found_in_log(by_key, head.sequence, mentions)


def _with_times(row: tuple[Any, ...]) -> ReceiptWithTimes:
    joined, delivered, read, *receipt = row
    return ReceiptWithTimes(Receipt(*receipt), joined, unpacked(delivered), unpacked(read))


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
        values = (user, chat, move.delivered, move.read, move.at)
        return db.execute(_MOVE, values).fetchone()
    found = db.execute(_READ_NUMBER, (user, chat)).fetchone()
    if found is None:
        return None
    read_number, has_nothing_to_change = found
    if not has_nothing_to_change:
        db.execute(_WROTE, (user, chat))
    span = move.span_of(read_number)
    if span is None:
        return None
    return db.execute(_MOVE_OVER_OWN, (user, chat, span.to_number, span.to_sequence)).fetchone()


def _mark_unread(
    db: apsw.Connection, user: UserKey, chat: ChatId, first: int | None
) -> Receipt | None:
    joined = db.execute(_JOINED, (chat, user)).get
    if joined is None:
        return None
    if first is not None:
        check_unread_from(first, head_of_chat(db, chat).sequence, joined)
    db.execute(_MARK_UNREAD, (user, chat, first or 0))
    return receipt_of(db, chat, user)


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
