# SPDX-License-Identifier: Apache-2.0
"""The data of a user that the user's deletion removes, on SQLite."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from tidings.model.ids import ChatId, UserKey, revoked_up_to
from tidings.ports.people import User
from tidings.ports.personal_data import PersonalData
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked
from tidings.stores.sqlite.identity.users import find_user

_MARK: Final = """
INSERT INTO users (user_id, created_at, updated_at, deactivated_at, revoked_at, deleted_at)
VALUES (?, ?, ?, ?, ?, ?)
"""


class SqlitePersonalData:
    """Finds and removes the rows of a user in all tables."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def mark_deleted(self, user: UserKey, now: int) -> User:
        def write(db: apsw.Connection) -> User:
            mark = _mark_deleted(db, user, now)
            # The write-ahead log must not keep the profile.
            self._writer.empty_log_after_commit()
            return mark

        return await self._writer.write(write)

    async def sessions(self, user: UserKey, limit: int) -> list[str]:
        return await self._names("SELECT session_id FROM sessions WHERE user_id = ?", user, limit)

    async def forget_sessions(self, session_ids: Sequence[str]) -> None:
        await self._forget(
            "DELETE FROM sessions WHERE session_id = ?", [(name,) for name in session_ids]
        )

    async def forget_code(self, tenant: str, phone_number: str) -> None:
        await self._forget(
            "DELETE FROM login_codes WHERE tenant = ? AND phone_number = ?",
            [(tenant, phone_number)],
        )

    async def invites(self, user: UserKey, limit: int) -> list[ChatId]:
        found = await self._names("SELECT chat_id FROM invites WHERE user_id = ?", user, limit)
        return [ChatId(chat) for chat in found]

    async def forget_invites(self, user: UserKey, chats: Sequence[ChatId]) -> None:
        await self._forget(
            "DELETE FROM invites WHERE user_id = ? AND chat_id = ?",
            [(user, chat) for chat in chats],
        )

    async def requests(self, user: UserKey, limit: int) -> list[str]:
        return await self._names("SELECT key FROM request_keys WHERE user_id = ?", user, limit)

    async def forget_requests(self, user: UserKey, keys: Sequence[str]) -> None:
        await self._forget(
            "DELETE FROM request_keys WHERE user_id = ? AND key = ?", [(user, key) for key in keys]
        )

    async def forget_copies(
        self, user: UserKey, inbox: str, notification_ids: Sequence[str]
    ) -> None:
        await self._forget(
            "DELETE FROM copies WHERE user_id = ? AND inbox = ? AND notification_id = ?",
            [(user, inbox, name) for name in notification_ids],
        )

    async def forget_marks(self, user: UserKey, inbox: str) -> None:
        for table in ("read_states", "read_announcements"):
            await self._forget(
                f"DELETE FROM {table} WHERE user_id = ? AND inbox = ?", [(user, inbox)]
            )

    async def _names(self, statement: str, user: UserKey, limit: int) -> list[str]:
        return await self._readers.read(
            lambda db: [name for (name,) in db.execute(f"{statement} LIMIT ?", (user, limit))]
        )

    async def _forget(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        def write(db: apsw.Connection) -> None:
            db.executemany(statement, rows)

        await self._writer.write(write, rows=25)


def _mark_deleted(db: apsw.Connection, user: UserKey, now: int) -> User:
    before = find_user(db, user)
    if before is not None and before.deleted_at is not None:
        return before
    revoked_at = revoked_up_to(now, before.revoked_at if before else None)
    created_at = before.created_at if before else now
    # A new row has none of the columns of the profile, whichever there are.
    db.execute("DELETE FROM users WHERE user_id = ?", (user,))
    db.execute(_MARK, (user, created_at, now, now, revoked_at, now))
    revoked(db, Revocation(kind="user", subject=user, at=revoked_at))
    mark = find_user(db, user)
    assert mark is not None, "the mark was stored"
    return mark


_conforms: type[PersonalData] = SqlitePersonalData
