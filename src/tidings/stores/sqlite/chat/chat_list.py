# SPDX-License-Identifier: Apache-2.0
"""The chat list on SQLite: two queries read a page, and bounded queries count unread messages.

The first query reads only the time of the last entry of each chat. Everything else is read only
for the chats on the page.
"""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model import limits
from tidings.model.chat_settings import settings_of
from tidings.model.chats import ChatRow, Receipt, UnreadFound
from tidings.model.entries import Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.unread_counts import unread_of_page
from tidings.stores.sqlite.chat.receipts import count_unread, unread_of
from tidings.stores.sqlite.engine.rows import RECEIPT, columns_of, to_entry

_PAGE: Final = """
WITH held AS MATERIALIZED (
    SELECT d.chat_id, (
        SELECT active_at FROM messages WHERE chat_id = d.chat_id ORDER BY sequence DESC LIMIT 1
    ) AS active_at
    FROM delivery_state AS d WHERE d.user_id = ?
)
SELECT chat_id FROM held WHERE (active_at, chat_id) < (?, ?)
ORDER BY active_at DESC, chat_id DESC LIMIT ?
"""
_AFTER_ALL: Final = (2**63 - 1, ChatId("~"))
"""Position after every chat."""

_ROWS: Final = f"""
SELECT d.chat_id, h.sequence, h.number, h.last_message, h.active_at,
    {RECEIPT},
    c.member_count, c.type, c.name, c.creator, c.created_at, coalesce(c.updated_at, c.created_at),
    c.frozen, c.slow_mode_seconds, m.role, m.muted_until, m.except_mentions,
    (SELECT json_group_array(user_id) FROM (
        SELECT user_id FROM chat_memberships WHERE chat_id = d.chat_id AND user_id <> d.user_id
        ORDER BY joined, user_id LIMIT {limits.LISTED_MEMBERS_MAX})),
    {columns_of("last")}
FROM delivery_state AS d
JOIN chats AS c ON c.chat_id = d.chat_id
JOIN chat_memberships AS m ON m.chat_id = d.chat_id AND m.user_id = d.user_id
JOIN messages AS h ON h.chat_id = d.chat_id AND h.sequence =
    (SELECT sequence FROM messages WHERE chat_id = d.chat_id ORDER BY sequence DESC LIMIT 1)
LEFT JOIN messages AS last ON last.chat_id = d.chat_id AND last.sequence = h.last_message
WHERE d.user_id = ? AND d.chat_id IN (SELECT value FROM json_each(?))
"""
_FACTS: Final = 5 + len(Receipt.__struct_fields__)
"""Index of the first column after head and receipt."""
_LAST: Final = _FACTS + 12
"""Index of the first column that belongs to the last message."""

_others = msgspec.json.Decoder(tuple[UserKey, ...])


def page_of_chats(
    db: apsw.Connection, user: UserKey, below: tuple[int, ChatId] | None, limit: int
) -> list[ChatId]:
    """Return the ids of the chats on a page, latest activity first."""
    rows = db.execute(_PAGE, (user, *(below or _AFTER_ALL), limit))
    return [ChatId(chat) for (chat,) in rows]


def rows_of_page(
    db: apsw.Connection, user: UserKey, chats: Sequence[ChatId], now: int
) -> list[ChatRow]:
    """Return these chats as rows of the user's chat list, in the given order."""
    found = {row[0]: row for row in _read(db, user, chats)}
    heads = [_head_and_receipt(found[chat]) for chat in chats]
    return [
        _row(
            found[chat],
            count_unread(db, chat, head, receipt, now) if unread is None else UnreadFound(unread),
        )
        for chat, (head, receipt), unread in zip(chats, heads, unread_of_page(heads), strict=True)
    ]


def row_of_chat(db: apsw.Connection, user: UserKey, chat: ChatId, now: int) -> ChatRow | None:
    """Return one row of the user's chat list, or None if the user is not a member of the chat."""
    for row in _read(db, user, [chat]):
        head, receipt = _head_and_receipt(row)
        return _row(row, unread_of(db, chat, head, receipt, now))
    return None


def _read(db: apsw.Connection, user: UserKey, chats: Sequence[ChatId]) -> list[tuple[Any, ...]]:
    return db.execute(_ROWS, (user, msgspec.json.encode(chats).decode())).fetchall()


def _head_and_receipt(row: tuple[Any, ...]) -> tuple[Head, Receipt]:
    return Head(*row[1:5]), Receipt(*row[5:_FACTS])


def _row(row: tuple[Any, ...], found: UnreadFound) -> ChatRow:
    head, receipt = _head_and_receipt(row)
    member_count, kind, name, creator, created_at, updated_at, *rest = row[_FACTS:_LAST]
    frozen, slow_mode_seconds, role, *mute, others = rest
    return ChatRow(
        chat_id=row[0],
        type=kind,
        name=name,
        creator=creator,
        created_at=created_at,
        updated_at=updated_at,
        others=_others.decode(others),
        member_count=member_count,
        role=role,
        muted_until=mute[0],
        except_mentions=bool(mute[1]),
        head=head,
        receipt=receipt,
        last=None if row[_LAST] is None else to_entry(row[_LAST:]),
        unread=found.unread,
        settings=settings_of(frozen, slow_mode_seconds),
        unread_by_key=found.by_key,
        mentions_by_key=found.mentions_by_key,
    )
