# SPDX-License-Identifier: Apache-2.0
"""Claims of push notices on SQLite, in the rows of the receipts."""

from typing import Final

import apsw

from tidings.model.ids import ChatId, UserKey
from tidings.ports.delivery import PushMute
from tidings.ports.push import PushClaims
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer

_CLAIM: Final = """
UPDATE delivery_state SET pushed = ?3
WHERE user_id = ?1 AND chat_id = ?2 AND pushed < ?3 AND read < ?3 AND (NOT ?4 OR delivered < ?3)
"""
_CLEAR: Final = """
UPDATE delivery_state SET pushed = 0 WHERE user_id = ?1 AND chat_id = ?2 AND pushed = ?3
"""
_IS_CLAIMED: Final = """
SELECT 1 FROM delivery_state WHERE user_id = ?1 AND chat_id = ?2 AND pushed >= ?3 AND read < ?3
"""
_MUTE: Final = """
SELECT muted_until, except_mentions FROM chat_memberships
WHERE user_id = ? AND chat_id = ? AND muted_until IS NOT NULL
"""


class SqlitePushClaims:
    """Claims notices with one statement each."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def claim(
        self, user: UserKey, chat: ChatId, sequence: int, *, unless_delivered: bool
    ) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_CLAIM, (user, chat, sequence, unless_delivered))
            return db.changes() > 0

        return await self._writer.write(write)

    async def clear(self, user: UserKey, chat: ChatId, pushed: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(_CLEAR, (user, chat, pushed))
            return db.changes() > 0

        return await self._writer.write(write)

    async def is_claimed(self, user: UserKey, chat: ChatId, sequence: int) -> bool:
        def read(db: apsw.Connection) -> bool:
            return db.execute(_IS_CLAIMED, (user, chat, sequence)).fetchone() is not None

        return await self._readers.read(read)

    async def mute(self, user: UserKey, chat: ChatId) -> PushMute | None:
        def read(db: apsw.Connection) -> PushMute | None:
            row = db.execute(_MUTE, (user, chat)).fetchone()
            return PushMute(row[0], bool(row[1])) if row else None

        return await self._readers.read(read)


_conforms: type[PushClaims] = SqlitePushClaims
