# SPDX-License-Identifier: Apache-2.0
"""Chats on SQLite: creation, the chat list, members, mutes and heads."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import apsw
import msgspec

from tidings.model import limits
from tidings.model.chats import Chat, ChatHead, ChatRow, Receipt, TenantChat
from tidings.model.entries import Entry, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import LimitReached, RequestConflict
from tidings.model.roles import Member
from tidings.ports.chats import Chats, Created, RequestKey
from tidings.ports.people import Listed
from tidings.ports.store import current_requester
from tidings.stores.scheduler import Scheduler, in_turn
from tidings.stores.sqlite.chat import members
from tidings.stores.sqlite.chat.chat_list import page_of_chats, row_of_chat, rows_of_page
from tidings.stores.sqlite.chat.log import members_of, role_of
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import (
    INSERT_ENTRY,
    RECEIPT,
    columns,
    from_row,
    listed,
    to_row,
)
from tidings.stores.sqlite.engine.write_jobs import Steps
from tidings.stores.sqlite.engine.writer import BATCH_ROWS_MAX, Writer
from tidings.stores.sqlite.identity.webhooks import OWE_ENTRIES

_OWN_HEADS: Final = f"""
SELECT d.chat_id, h.sequence, h.number, h.last_message, h.active_at, c.member_count, {RECEIPT}
FROM delivery_state AS d JOIN chats AS c ON c.chat_id = d.chat_id
JOIN messages AS h ON h.chat_id = d.chat_id AND h.sequence =
    (SELECT sequence FROM messages WHERE chat_id = d.chat_id ORDER BY sequence DESC LIMIT 1)
WHERE d.user_id = ? ORDER BY h.active_at DESC, h.chat_id DESC
"""
_HEADS: Final = """
SELECT c.value, (SELECT max(sequence) FROM messages WHERE chat_id = c.value) AS head
FROM json_each(?) AS c WHERE head IS NOT NULL
"""

_OF_TENANT: Final = f"""
SELECT {columns(TenantChat)} FROM chats
WHERE tenant = ? AND chat_id < ? AND deleted_at IS NULL ORDER BY chat_id DESC LIMIT ?
"""
_OF_USER: Final = f"""
SELECT {", ".join(f"c.{name}" for name in TenantChat.__struct_fields__)}
FROM delivery_state AS d CROSS JOIN chats AS c ON c.chat_id = d.chat_id
WHERE d.user_id = ? AND d.chat_id < ? AND c.deleted_at IS NULL ORDER BY d.chat_id DESC LIMIT ?
"""
_ABOVE_ALL: Final = "~"
"""Sorts after every chat id."""

_ACQUAINTED: Final = """
SELECT d.user_id FROM json_each(?) AS asked
JOIN direct_chats AS c ON c.pair = asked.value ->> 0
JOIN delivery_state AS d ON d.user_id = asked.value ->> 1 AND d.chat_id = c.chat_id
WHERE d.is_own
"""

STEP_ENTRIES: Final = 3
"""Number of entries that one turn of the event loop writes when a large group is created.

Each entry adds up to thirty people, so a turn takes about a millisecond."""

T = TypeVar("T")


class SqliteChats:
    """Stores chats and memberships."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._large = Scheduler(
            "large groups",
            slots=1,
            user_slots=1,
            user_waiting_max=limits.USER_LARGE_GROUPS_WAITING_MAX,
            waiting_max=limits.LARGE_GROUPS_WAITING_MAX,
        )

    async def create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        rows = sum(1 + 2 * len(entry.people) for entry in entries)
        if rows <= BATCH_ROWS_MAX:
            return await self._writer.write(
                lambda db: _run_all(_create(db, chat, entries, request, now)), rows=rows
            )
        # Large groups are created one at a time, and users take turns, so that other writes can run
        # between two groups.
        async with in_turn(self._large, current_requester()):
            return await self._writer.write_in_steps(
                lambda db: _create(db, chat, entries, request, now), rows=rows
            )

    async def find(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created | None:
        pair = _pair(entries) if chat.type == "direct" else None

        def read(db: apsw.Connection) -> Created | None:
            found = _of_request(db, request, now) if request else None
            found = found or (_of_pair(db, pair) if pair else None)
            return Created(found, is_new=False) if found else None

        return await self._readers.read(read)

    async def listing(
        self, user: UserKey, *, below: tuple[int, ChatId] | None, limit: int, now: int
    ) -> list[ChatRow]:
        def read(db: apsw.Connection) -> list[ChatRow]:
            return rows_of_page(db, user, page_of_chats(db, user, below, limit), now)

        return await self._readers.read(read)

    async def row(self, user: UserKey, chat: ChatId, now: int) -> ChatRow | None:
        return await self._readers.read(lambda db: row_of_chat(db, user, chat, now))

    async def members(self, chat: ChatId, reader: UserKey) -> dict[UserKey, Member] | None:
        def read(db: apsw.Connection) -> dict[UserKey, Member] | None:
            return None if role_of(db, chat, reader) is None else members_of(db, chat)

        return await self._readers.read(read)

    async def mute(
        self, chat: ChatId, user: UserKey, until: int | None, *, except_mentions: bool = False
    ) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(
                "UPDATE chat_memberships SET muted_until = ?, except_mentions = ?"
                " WHERE chat_id = ? AND user_id = ?",
                (until, except_mentions, chat, user),
            )
            return db.changes() > 0

        return await self._writer.write(write)

    async def list_heads(self, user: UserKey, *, from_log: bool = False) -> list[ChatHead]:
        return await self._readers.read(
            lambda db: [_chat_head(row) for row in db.execute(_OWN_HEADS, (user,))]
        )

    def saw(self, chat: ChatId, head: Head) -> None:
        """Do nothing, because no other process reports heads."""

    async def look(self, chat: ChatId, sequence: int) -> None:
        """Do nothing, because every list shows all entries."""

    async def ids(self, user: UserKey) -> list[ChatId]:
        def read(db: apsw.Connection) -> list[ChatId]:
            rows = db.execute("SELECT chat_id FROM delivery_state WHERE user_id = ?", (user,))
            return [ChatId(chat) for (chat,) in rows]

        return await self._readers.read(read)

    async def of_tenant(self, tenant: str, *, below: str | None, limit: int) -> Listed[TenantChat]:
        return await self._listed(_OF_TENANT, tenant, below, limit)

    async def of_user(self, user: UserKey, *, below: str | None, limit: int) -> Listed[TenantChat]:
        return await self._listed(_OF_USER, user, below, limit)

    async def _listed(
        self, statement: str, owner: str, below: str | None, limit: int
    ) -> Listed[TenantChat]:
        def read(db: apsw.Connection) -> list[TenantChat]:
            rows = db.execute(statement, (owner, below or _ABOVE_ALL, limit + 1))
            return [from_row(TenantChat, row) for row in rows]

        return listed(await self._readers.read(read), limit, lambda chat: chat.chat_id)

    async def direct(self, user: UserKey, other: UserKey) -> ChatId | None:
        return await self._readers.read(lambda db: _of_pair(db, pair_of(user, other)))

    async def acquainted(self, user: UserKey, others: Sequence[UserKey]) -> set[UserKey]:
        pairs = [(pair_of(user, other), other) for other in others]
        wanted = msgspec.json.encode(pairs).decode()
        return await self._readers.read(
            lambda db: {other for (other,) in db.execute(_ACQUAINTED, (wanted,))}
        )

    async def heads(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        wanted = msgspec.json.encode(chats).decode()
        return await self._readers.read(lambda db: dict(db.execute(_HEADS, (wanted,))))


def _create(
    db: apsw.Connection, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
) -> Steps[Created]:
    earlier = _of_request(db, request, now) if request else None
    if earlier is not None:
        return Created(earlier, is_new=False)
    pair = _pair(entries) if chat.type == "direct" else None
    chat_id = _of_pair(db, pair) if pair else None
    created = Created(chat_id or chat.chat_id, is_new=chat_id is None)
    if created.is_new:
        yield from _insert(db, chat, entries, pair)
    if request:
        db.execute(
            "INSERT OR REPLACE INTO request_keys VALUES (?, ?, ?, ?, ?)",
            (request.user, request.key, request.digest, created.chat_id, request.expires_at),
        )
    return created


def _run_all(steps: Steps[T]) -> T:
    """Run all steps without a pause, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def _of_request(db: apsw.Connection, request: RequestKey, now: int) -> ChatId | None:
    """Return the chat that a request with this key created, unless the key has expired."""
    row = db.execute(
        "SELECT digest, chat_id FROM request_keys WHERE user_id = ? AND key = ? AND expires_at > ?",
        (request.user, request.key, now),
    ).fetchone()
    if row is None:
        return None
    digest, chat_id = row
    if digest != request.digest:
        raise RequestConflict
    return ChatId(chat_id)


def _pair(entries: list[Entry]) -> str:
    """Return the name that identifies the direct chat of these two members."""
    users = [person.user for entry in entries for person in entry.people]
    assert len(users) == 2, f"a direct chat has two members, got {len(users)}"
    return pair_of(*users)


def pair_of(user: UserKey, other: UserKey) -> str:
    """Return the name of a pair of users; it does not depend on their order.

    The name is unique, because no user key contains a #.
    """
    return "#".join(sorted((user, other)))


def _of_pair(db: apsw.Connection, pair: str) -> ChatId | None:
    chat_id: ChatId | None = db.execute(
        "SELECT chat_id FROM direct_chats WHERE pair = ?", (pair,)
    ).get
    return chat_id


def _insert(db: apsw.Connection, chat: Chat, entries: list[Entry], pair: str | None) -> Steps[None]:
    if pair:
        db.execute("INSERT INTO direct_chats VALUES (?, ?)", (pair, chat.chat_id))
    db.execute(
        "INSERT INTO chats (chat_id, tenant, type, name, creator, created_at, member_count)"
        " VALUES (?, ?, ?, ?, ?, ?, 0)",
        (chat.chat_id, chat.tenant, chat.type, chat.name, chat.creator, chat.created_at),
    )
    for index, entry in enumerate(entries, 1):
        db.execute(INSERT_ENTRY, to_row(entry))
        if entry.people and not members.add(db, entry, is_direct=pair is not None):
            raise LimitReached("a user is in the maximum number of chats")
        if index % STEP_ENTRIES == 0:
            yield
    db.execute(OWE_ENTRIES, (chat.tenant, chat.chat_id, 0, entries[-1].sequence))


def _chat_head(row: tuple[Any, ...]) -> ChatHead:
    chat_id, *rest = row
    return ChatHead(chat_id, Head(*rest[:4]), Receipt(*rest[5:]), rest[4])


_conforms: type[Chats] = SqliteChats
