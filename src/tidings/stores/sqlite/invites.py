# SPDX-License-Identifier: Apache-2.0
"""Invitations on SQLite."""

from typing import Final

import apsw

from tidings.model.ids import ChatId, UserKey
from tidings.model.invites import Invite, may_be_asked
from tidings.ports.invites import InviteStore
from tidings.stores.sqlite.plain_rows import columns, from_row, insert
from tidings.stores.sqlite.readers import Readers
from tidings.stores.sqlite.writer import Writer

_PENDING: Final = f"""
SELECT {columns(Invite)} FROM invites WHERE user_id = ? AND expires_at > ?
ORDER BY invited_at DESC, chat_id DESC
"""


class SqliteInvites:
    """Invitations that wait."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, invite: Invite, now: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            if not may_be_asked(invite, _pending(db, invite.user_id, now)):
                return False
            insert(db, "invites", invite, replace=True)
            return True

        return await self._writer.write(write, rows=1)

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        return await self._readers.read(lambda db: _pending(db, user, now))

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute("DELETE FROM invites WHERE user_id = ? AND chat_id = ?", (user, chat))

        await self._writer.write(write, rows=1)


def _pending(db: apsw.Connection, user: UserKey, now: int) -> list[Invite]:
    return [from_row(Invite, row) for row in db.execute(_PENDING, (user, now))]


_conforms: type[InviteStore] = SqliteInvites
