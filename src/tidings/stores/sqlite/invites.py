# SPDX-License-Identifier: Apache-2.0
"""Invitations on SQLite."""

from typing import Final

import apsw

from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.invites import Asked, Invite, asking
from tidings.ports.invites import InviteStore
from tidings.stores.sqlite.plain_rows import columns, from_row, insert
from tidings.stores.sqlite.readers import Readers
from tidings.stores.sqlite.writer import Writer

_KEPT: Final = f"""
SELECT {columns(Invite)} FROM invites WHERE user_id = ? AND expires_at > ?
ORDER BY invited_at DESC, chat_id DESC
"""
_DECLINE: Final = """
UPDATE invites SET declined_at = ?3, expires_at = ?4
WHERE user_id = ?1 AND chat_id = ?2 AND expires_at > ?3 AND declined_at IS NULL
"""


class SqliteInvites:
    """Invitations that wait, and that were declined."""

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
        return next((one for one in await self.pending(user, now) if one.chat_id == chat), None)

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        kept = await self._readers.read(lambda db: _kept(db, user, now))
        return [one for one in kept if one.declined_at is None]

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
