# SPDX-License-Identifier: Apache-2.0
"""The log on SQLite. A page and the reader's membership are read from one snapshot."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import apsw

from tidings.model import limits
from tidings.model.chat_settings import settings_of
from tidings.model.chats import ChatState, Receipt
from tidings.model.entries import Entry, Head, Kind, SendKey, mention_position, place_of_mention
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.ports.log import Log, Page, Run, Sent
from tidings.ports.people import Listed
from tidings.ports.world import Failpoints
from tidings.stores.sqlite.chat.runs import RunJob
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import COLUMNS, RECEIPT, columns_of, listed, to_entry
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.webhooks import FollowedTenants

SCAN_ENTRIES_MAX: Final = 1_000
"""Maximum number of entries that are scanned to find the messages of one page."""


_NEWEST: Final = (2**63 - 1, ChatId(""), 0)
"""Place after all mentions."""
_MENTIONS: Final = f"""
SELECT {columns_of("e")} FROM mentions AS m
JOIN chat_memberships AS own ON own.chat_id = m.chat_id AND own.user_id = m.user_id
JOIN messages AS e ON e.chat_id = m.chat_id AND e.sequence = m.sequence
WHERE m.user_id = ? AND m.created_at > ? AND (m.created_at, m.chat_id, m.sequence) < (?, ?, ?)
ORDER BY m.created_at DESC, m.chat_id DESC, m.sequence DESC LIMIT ?
"""


class SqliteLog:
    """Stores the entries of all chats, in order."""

    takes_after: Final = False  # a key costs next to nothing here
    waiting_max: Final = limits.CHAT_REQUESTS_WAITING_MAX

    def __init__(
        self, writer: Writer, readers: Readers, failpoints: Failpoints, followed: FollowedTenants
    ) -> None:
        self._writer = writer
        self._followed = followed
        self._readers = readers
        self._failpoints = failpoints

    def may_append(self, kind: Kind, *, has_options: bool = False) -> bool:
        return True  # nobody else writes to the file

    def has_room(self, run: Sequence[Entry], entry: Entry) -> bool:
        return len(run) < limits.RUN_ENTRIES_MAX

    def append(self, run: Run) -> None:
        self.append_later(lambda: run)

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        self._writer.submit(RunJob(make_run, self._failpoints, self._followed))

    async def state(self, chat: ChatId) -> ChatState | None:
        return await self._readers.read(lambda db: _state(db, chat))

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        return await self._readers.read(
            lambda db: _entries(
                db, "chat_id = ? AND sequence > ? ORDER BY sequence LIMIT ?",
                (chat, after, limits.TAIL_ENTRIES_MAX),
            )
        )  # fmt: skip

    async def entry(self, chat: ChatId, sequence: int) -> Entry | None:
        def read(db: apsw.Connection) -> Entry | None:
            found = _entries(db, "chat_id = ? AND sequence = ?", (chat, sequence))
            return found[0] if found else None

        return await self._readers.read(read)

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        return await self._readers.read(lambda db: _find_sent(db, chat, key, now))

    async def page(
        self,
        chat: ChatId,
        reader: UserKey,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int,
        only_messages: bool = False,
    ) -> Page | None:
        assert (after is None) != (before is None), "a page goes up or down"

        def read(db: apsw.Connection) -> Page | None:
            if after is not None:
                return _page_up(db, chat, reader, after, limit, only_messages)
            assert before is not None
            return _page_down(db, chat, reader, before, limit, only_messages)

        return await self._readers.read(read)

    async def settled_messages(
        self, chat: ChatId, reader: UserKey, first: int, last: int
    ) -> list[Entry]:
        # A page of the current state costs no more here, and checks the membership again.
        page = await self.page(chat, reader, before=last + 1, limit=last - first + 1)
        entries = [] if page is None else page.entries
        return [entry for entry in entries if entry.kind == "message"]

    async def message(self, chat: ChatId, reader: UserKey, sequence: int) -> Page | None:
        page = await self.page(chat, reader, after=sequence - 1, limit=1)
        if page is not None:
            page.entries = [
                entry
                for entry in page.entries
                if entry.kind == "message" and entry.sequence == sequence
            ]
        return page

    async def replies(
        self, chat: ChatId, reader: UserKey, sequence: int, *, after: int, limit: int
    ) -> Page | None:
        return await self._readers.read(
            lambda db: _replies(db, chat, reader, sequence, after, limit)
        )

    async def pins(self, chat: ChatId, reader: UserKey) -> tuple[Page, list[Entry]] | None:
        return await self._readers.read(lambda db: _pins(db, chat, reader))

    async def mentions(
        self, user: UserKey, *, since: int, below: str | None, limit: int
    ) -> Listed[Entry]:
        place = _NEWEST if below is None else place_of_mention(below)
        values = (user, since, *place, limit + 1)

        def read(db: apsw.Connection) -> list[Entry]:
            return [to_entry(row) for row in db.execute(_MENTIONS, values)]

        return listed(await self._readers.read(read), limit, mention_position)

    async def reactions(
        self, chat: ChatId, reader: UserKey, sequence: int, limit: int
    ) -> list[tuple[str, UserKey, int]] | None:
        def read(db: apsw.Connection) -> list[tuple[str, UserKey, int]] | None:
            if role_of(db, chat, reader) is None:
                return None
            return list(
                db.execute(
                    "SELECT emoji, user_id, created_at FROM reactions"
                    " WHERE chat_id = ? AND sequence = ?"
                    " ORDER BY created_at, emoji, user_id LIMIT ?",
                    (chat, sequence, limit),
                )
            )

        return await self._readers.read(read)


def head_of_chat(db: apsw.Connection, chat: ChatId) -> Head:
    """Return the head of a log, from its last entry."""
    row = db.execute(
        "SELECT sequence, number, last_message, active_at FROM messages"
        " WHERE chat_id = ? ORDER BY sequence DESC LIMIT 1",
        (chat,),
    ).fetchone()
    return Head(*row) if row else Head()


def role_of(db: apsw.Connection, chat: ChatId, user: UserKey) -> Any:  # noqa: ANN401 - Role | None
    """Return the user's role, or None if the user is not a member."""
    return db.execute(
        "SELECT role FROM chat_memberships WHERE chat_id = ? AND user_id = ?", (chat, user)
    ).get


def receipts_of_chat(db: apsw.Connection, chat: ChatId) -> list[Receipt]:
    """Return the receipts of all members, in the order in which they joined."""
    return [
        Receipt(*row)
        for row in db.execute(
            f"SELECT {RECEIPT} FROM chat_memberships AS m"
            " JOIN delivery_state AS d ON d.user_id = m.user_id AND d.chat_id = m.chat_id"
            " WHERE m.chat_id = ? ORDER BY m.joined, m.user_id",
            (chat,),
        )
    ]


def members_of(db: apsw.Connection, chat: ChatId) -> dict[UserKey, Member]:
    """Return all members, in the order in which they joined."""
    return {
        user: Member(role, joined_at, joined)
        for user, role, joined_at, joined in db.execute(
            "SELECT user_id, role, joined_at, joined FROM chat_memberships"
            " WHERE chat_id = ? ORDER BY joined, user_id",
            (chat,),
        )
    }


def _entries(db: apsw.Connection, where: str, values: tuple[Any, ...]) -> list[Entry]:
    return [
        to_entry(row) for row in db.execute(f"SELECT {COLUMNS} FROM messages WHERE {where}", values)
    ]


def _state(db: apsw.Connection, chat: ChatId) -> ChatState | None:
    row = db.execute(
        "SELECT tenant, type, name, deleted_at, frozen, slow_mode_seconds FROM chats"
        " WHERE chat_id = ?",
        (chat,),
    ).fetchone()
    if row is None:
        return None
    tenant, kind, name, deleted_at, frozen, slow_mode_seconds = row
    head = head_of_chat(db, chat)
    return ChatState(
        chat_id=chat,
        tenant=tenant,
        type=kind,
        name=name,
        members=members_of(db, chat),
        head=head.sequence,
        number=head.number,
        last_message=head.last_message,
        active_at=head.active_at,
        settings=settings_of(frozen, slow_mode_seconds),
        is_deleted=deleted_at is not None,
    )


def _find_sent(db: apsw.Connection, chat: ChatId, key: SendKey, now: int) -> Sent | None:
    claim = db.execute(
        "SELECT hint, digest FROM idempotency_keys"
        " WHERE chat_id = ? AND sender = ? AND client_message_id = ? AND expires_at > ?",
        (chat, key.sender, key.client_message_id, now),
    ).fetchone()
    if claim is None:
        return None
    hint, digest = claim
    found = _entries(
        db,
        "chat_id = ? AND sequence >= ? AND sender = ? AND client_message_id = ?"
        " ORDER BY sequence LIMIT 1",
        (chat, hint, key.sender, key.client_message_id),
    )
    return Sent(digest=digest, entry=found[0] if found else None)


def _page_up(
    db: apsw.Connection, chat: ChatId, reader: UserKey, after: int, limit: int, only: bool
) -> Page | None:
    ceiling = after + (SCAN_ENTRIES_MAX if only else limit)
    kind = " AND kind = 'message'" if only else ""
    entries = _entries(
        db,
        f"chat_id = ? AND sequence > ? AND sequence <= ?{kind} ORDER BY sequence LIMIT ?",
        (chat, after, ceiling, limit),
    )
    reached = entries[-1].sequence if len(entries) == limit else ceiling
    head = head_of_chat(db, chat)
    return _page(db, chat, reader, entries, head, reached if reached < head.sequence else None)


def _page_down(
    db: apsw.Connection, chat: ChatId, reader: UserKey, before: int, limit: int, only: bool
) -> Page | None:
    head = head_of_chat(db, chat)
    top = min(before, head.sequence + 1)
    floor = max(1, top - (SCAN_ENTRIES_MAX if only else limit))
    kind = " AND kind = 'message'" if only else ""
    entries = _entries(
        db,
        f"chat_id = ? AND sequence < ? AND sequence >= ?{kind} ORDER BY sequence DESC LIMIT ?",
        (chat, top, floor, limit),
    )
    reached = entries[-1].sequence if len(entries) == limit else floor
    return _page(db, chat, reader, entries, head, reached if reached > 1 else None)


def _replies(
    db: apsw.Connection, chat: ChatId, reader: UserKey, sequence: int, after: int, limit: int
) -> Page | None:
    found = _entries(
        db,
        "chat_id = ? AND reply_to = ? AND sequence > ? ORDER BY sequence LIMIT ?",
        (chat, sequence, after, limit + 1),
    )
    entries = found[:limit]
    following = entries[-1].sequence if len(found) > limit else None
    return _page(db, chat, reader, entries, head_of_chat(db, chat), following)


def _pins(db: apsw.Connection, chat: ChatId, reader: UserKey) -> tuple[Page, list[Entry]] | None:
    pinned = _entries(db, "chat_id = ? AND pinned > 0 ORDER BY pinned", (chat,))
    page = _page(db, chat, reader, pinned, head_of_chat(db, chat), None)
    if page is None:
        return None
    where = "chat_id = ? AND sequence = ?"
    return page, [_entries(db, where, (chat, message.pinned))[0] for message in pinned]


def _page(
    db: apsw.Connection,
    chat: ChatId,
    reader: UserKey,
    entries: list[Entry],
    head: Head,
    following: int | None,
) -> Page | None:
    role = role_of(db, chat, reader)
    if role is None:
        return None
    _attach_targets(db, chat, entries)
    _attach_own_reactions(db, chat, reader, entries)
    count = db.execute("SELECT member_count FROM chats WHERE chat_id = ?", (chat,)).get
    is_small = count <= limits.SMALL_CHAT_MEMBERS_MAX
    return Page(
        entries=entries,
        head=head,
        next=following,
        role=role,
        member_count=count,
        receipts=tuple(receipts_of_chat(db, chat)) if is_small else (),
    )


def _attach_targets(db: apsw.Connection, chat: ChatId, entries: list[Entry]) -> None:
    for entry in entries:
        if entry.kind == "edited":
            entry.shown = _entries(db, "chat_id = ? AND sequence = ?", (chat, entry.target))[0]


def _attach_own_reactions(
    db: apsw.Connection, chat: ChatId, reader: UserKey, entries: list[Entry]
) -> None:
    for entry in entries:
        if entry.reactions:
            rows = db.execute(
                "SELECT emoji FROM reactions"
                " WHERE chat_id = ? AND sequence = ? AND user_id = ? ORDER BY emoji",
                (chat, entry.sequence, reader),
            )
            entry.mine = tuple(emoji for (emoji,) in rows)


_conforms: type[Log] = SqliteLog
