# SPDX-License-Identifier: Apache-2.0
"""Chats with recent entries on SQLite.

There is no index by time, because every message would pay for it. A walk through all chats looks at
the last entry of each. This happens once after a start, and only if some tenant uses push: the last
entries are spread over the whole file, and most of them have to be read from the disk.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import apsw

from tidings.model.ids import ChatId
from tidings.ports.delivery import EntryWritten
from tidings.ports.push import RecentChats
from tidings.stores.sqlite.engine.connections import Readers

WALKED_AT_ONCE: Final = 1_000
"""Chats that one read looks at; it takes a few milliseconds."""
_END: Final = "SELECT chat_id FROM chats WHERE chat_id > ? ORDER BY chat_id LIMIT 1 OFFSET ?"
_WRITTEN: Final = """
SELECT chat_id FROM chats AS c WHERE chat_id > ? AND chat_id <= ? AND deleted_at IS NULL
    AND (? OR tenant IN (SELECT tenant FROM push_settings))
    AND (SELECT created_at FROM messages WHERE chat_id = c.chat_id
        ORDER BY sequence DESC LIMIT 1) >= ?
ORDER BY chat_id
"""
_USES_PUSH: Final = "SELECT EXISTS (SELECT 1 FROM push_settings)"
_AFTER_ALL: Final = "~"


class SqliteRecentChats:
    """Walks through all chats, some at a time."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def note(self, written: Sequence[EntryWritten]) -> None:
        pass  # there is no stream of changes

    async def written_since(self, since: int, *, of_everybody: bool) -> AsyncIterator[ChatId]:
        after, end = "", ""

        def read(db: apsw.Connection) -> tuple[list[ChatId], str]:
            if not of_everybody and not db.execute(_USES_PUSH).get:
                return [], _AFTER_ALL
            end = db.execute(_END, (after, WALKED_AT_ONCE - 1)).get or _AFTER_ALL
            found = db.execute(_WRITTEN, (after, end, of_everybody, since))
            return [ChatId(chat) for (chat,) in found], end

        while end != _AFTER_ALL:
            found, end = await self._readers.read(read)
            for chat in found:
                yield chat
            after = end


_conforms: type[RecentChats] = SqliteRecentChats
