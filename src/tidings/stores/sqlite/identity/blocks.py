# SPDX-License-Identifier: Apache-2.0
"""Blocks between users on SQLite."""

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from tidings.model.blocks import READ_MAX, Block, BlockList
from tidings.model.ids import ChatId, UserKey
from tidings.ports.moderation import Blocks
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked

_COLUMNS: Final = "user_id, blocked, created_at, chat_id, delivered, read"
_PUT: Final = f"INSERT OR IGNORE INTO blocks ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_NOTE: Final = """
UPDATE blocks SET chat_id = ?3, delivered = 0, read = 0 WHERE user_id = ?1 AND blocked = ?2
"""
_BY_USER: Final = f"SELECT {_COLUMNS} FROM blocks WHERE user_id = ? LIMIT ?"
_OF_USER: Final = f"SELECT {_COLUMNS} FROM blocks WHERE blocked = ? LIMIT ?"
_BLOCKERS: Final = f"""
SELECT {_COLUMNS} FROM json_each(?2) AS other
CROSS JOIN blocks ON blocks.user_id = other.value AND blocks.blocked = ?1
"""


class SqliteBlocks:
    """Stores one row for each block."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, block: Block) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_PUT, msgspec.structs.astuple(block))
            return _told(db, block.user, block.blocked, block.created_at)

        return await self._writer.write(write)

    async def note_chat(self, user: UserKey, blocked: UserKey, chat: ChatId, now: int) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_NOTE, (user, blocked, chat))
            _told(db, user, blocked, now)

        await self._writer.write(write)

    async def remove(self, user: UserKey, blocked: UserKey, now: int) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute("DELETE FROM blocks WHERE user_id = ? AND blocked = ?", (user, blocked))
            _told(db, user, blocked, now)

        await self._writer.write(write)

    async def of(self, user: UserKey, most: int = READ_MAX) -> BlockList:
        def read(db: apsw.Connection) -> BlockList:
            by_user = [_to_block(row) for row in db.execute(_BY_USER, (user, most))]
            left = most - len(by_user)
            of_user = [_to_block(row) for row in db.execute(_OF_USER, (user, left))]
            return BlockList(
                {block.blocked: block for block in by_user},
                {block.user: block for block in of_user},
                has_more=len(of_user) == left,
            )

        return await self._readers.read(read)

    async def blockers(self, user: UserKey, others: Sequence[UserKey]) -> dict[UserKey, Block]:
        def read(db: apsw.Connection) -> dict[UserKey, Block]:
            rows = db.execute(_BLOCKERS, (user, msgspec.json.encode(others).decode()))
            return {block.user: block for block in map(_to_block, rows)}

        return await self._readers.read(read)


def _to_block(row: tuple[UserKey, UserKey, int, ChatId | None, int, int]) -> Block:
    user, blocked, created_at, chat, delivered, read = row
    return Block(
        user=user,
        blocked=blocked,
        created_at=created_at,
        chat_id=chat,
        delivered=delivered,
        read=read,
    )


def _told(db: apsw.Connection, user: UserKey, blocked: UserKey, now: int) -> bool:
    """Append both users to the revocation feed, if the last statement changed a row."""
    is_changed = db.changes() > 0
    if is_changed:
        for one in (user, blocked):
            revoked(db, Revocation(kind="block", subject=one, at=now))
    return is_changed


_conforms: type[Blocks] = SqliteBlocks
