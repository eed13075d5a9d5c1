# SPDX-License-Identifier: Apache-2.0
"""Users and their profiles on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Final

import apsw
import msgspec

from tidings.logs.requests import Requests
from tidings.model import limits
from tidings.model.ids import UserKey, revoked_up_to, tenant_of, user_id, user_key
from tidings.model.refusals import PhoneTaken, UserDeleted
from tidings.ports.people import NO_FIELDS, Listed, ProfileFields, User, UserStore
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import from_row, listed
from tidings.stores.sqlite.engine.write_jobs import Bulk, WriteJob
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked

_USERS: Final = """
SELECT user_id, display_name, phone_number, created_at, updated_at, last_seen_at, deactivated_at,
    revoked_at, avatar_url, metadata, email, phone_verified_at, hidden_at, deleted_at,
    banned_until
FROM users
"""
_USER: Final = f"{_USERS} WHERE user_id = ?"
_ALL: Final = f"{_USERS} WHERE user_id IN (SELECT value FROM json_each(?))"
_BY_ID: Final = f"""
{_USERS} WHERE user_id >= ? AND user_id < ? AND deleted_at IS NULL ORDER BY user_id LIMIT ?
"""
# The expression is that of the unique index: no two users of a tenant have the same phone number.
BY_PHONE: Final = """
SELECT phone_number, user_id FROM users
WHERE substr(user_id, 1, instr(user_id, ':') - 1) = ?
    AND phone_number IN (SELECT value FROM json_each(?))
"""
_VERIFY: Final = "UPDATE users SET phone_verified_at = ? WHERE user_id = ? AND phone_number = ?"
_SEEN: Final = """
UPDATE users SET last_seen_at = max(coalesce(last_seen_at, 0), ?)
WHERE user_id = ? AND deleted_at IS NULL
"""
_ANY_DELETED: Final = """
SELECT 1 FROM users WHERE user_id IN (SELECT value FROM json_each(?))
    AND deleted_at IS NOT NULL LIMIT 1
"""
# The limits on chats per user and on members of a small chat bound this query.
_PEERS: Final = """
SELECT DISTINCT m.user_id FROM delivery_state AS d
CROSS JOIN chats AS c ON c.chat_id = d.chat_id AND c.member_count <= ?2
CROSS JOIN chat_memberships AS m ON m.chat_id = d.chat_id
WHERE d.user_id = ?1 AND m.user_id <> ?1
LIMIT ?3
"""
"""`CROSS` fixes the order of the joins. Chats are read in the order of their ids, oldest first, and
reading stops when there are enough peers."""
_VISIBLE_PEERS: Final = f"""
SELECT p.user_id, u.last_seen_at FROM ({_PEERS}) AS p
LEFT JOIN users AS u ON u.user_id = p.user_id
WHERE u.hidden_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM users WHERE user_id = ?1 AND hidden_at IS NOT NULL)
"""


_Changes = dict[str, str | int | None]
"""New values of columns; None clears a column."""


class _UnawaitedWrite:
    """Statements that no caller awaits. If they are lost, later statements correct the data."""

    def __init__(self, statements: Bulk) -> None:
        self._statements = statements
        self.entry_count = 0
        self.requests: Requests = ()

    def prepare(self) -> int:
        return sum(len(rows) for _, rows in self._statements)

    def bulk(self) -> Bulk:
        return self._statements

    def write(self, db: apsw.Connection) -> None:
        for statement, rows in self._statements:
            db.executemany(statement, rows)

    def settle(self, outcome: object) -> None:
        pass

    def fail(self) -> None:
        pass


class SqliteUsers:
    """Stores users with their profiles."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(
        self,
        user: UserKey,
        *,
        display_name: str | None,
        phone_number: str | None,
        now: int,
        fields: ProfileFields = NO_FIELDS,
    ) -> tuple[User, bool]:
        given = {"display_name": display_name, "phone_number": phone_number}
        changes: _Changes = {name: value for name, value in given.items() if value is not None}
        return await self._writer.write(
            lambda db: _put_user(db, user, {**changes, **fields.changes()}, now)
        )

    async def by_phone(self, tenant: str, numbers: Sequence[str]) -> Mapping[str, UserKey]:
        return await self._readers.read(lambda db: _by_phone(db, tenant, numbers))

    async def with_phone(self, user: UserKey, phone_number: str, now: int) -> tuple[User, bool]:
        def write(db: apsw.Connection) -> tuple[User, bool]:
            holder = _by_phone(db, tenant_of(user), [phone_number]).get(phone_number)
            found = find_user(db, holder) if holder else None
            proved: _Changes = {"phone_number": phone_number, "phone_verified_at": now}
            return (found, False) if found else _put_user(db, user, proved, now)

        return await self._writer.write(write)

    async def verify_phone(self, user: UserKey, phone_number: str, now: int) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute(_VERIFY, (now, user, phone_number))

        await self._writer.write(write, rows=1)

    async def set_active(self, user: UserKey, is_active: bool, now: int) -> User | None:
        return await self._writer.write(lambda db: _set_active(db, user, is_active, now))

    async def ban(self, user: UserKey, until: int | None, now: int) -> User | None:
        return await self._writer.write(lambda db: _ban(db, user, until, now))

    async def release_phone(self, user: UserKey, now: int) -> User | None:
        return await self._writer.write(lambda db: _release_phone(db, user, now))

    async def revoke_tokens(self, user: UserKey, now: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            before = find_user(db, user)
            if before is None:
                return False
            _revoke(db, before, now)
            return True

        return await self._writer.write(write)

    async def get(self, user: UserKey) -> User | None:
        return await self._readers.read(lambda db: find_user(db, user))

    async def get_all(self, users: Sequence[UserKey]) -> Mapping[UserKey, User]:
        wanted = msgspec.json.encode(users).decode()

        def read(db: apsw.Connection) -> dict[UserKey, User]:
            found = [from_row(User, row) for row in db.execute(_ALL, (wanted,))]
            return {user.user: user for user in found if user.deleted_at is None}

        return await self._readers.read(read)

    async def by_id(
        self, tenant: str, *, prefix: str, after: str | None, limit: int
    ) -> Listed[User]:
        # No id has a space or a `~`, which sort before and after all its characters.
        first = prefix if after is None else f"{after} "
        bounds = (user_key(tenant, first), user_key(tenant, f"{prefix}~"))

        def read(db: apsw.Connection) -> list[User]:
            rows = db.execute(_BY_ID, (*bounds, limit + 1))
            return [from_row(User, row) for row in rows]

        found = await self._readers.read(read)
        return listed(found, limit, lambda user: user_id(user.user))

    async def missing(self, users: Sequence[UserKey]) -> list[UserKey]:
        wanted = msgspec.json.encode(users).decode()

        def read(db: apsw.Connection) -> list[UserKey]:
            rows = db.execute(
                "SELECT value FROM json_each(?) AS wanted"
                " WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = wanted.value)"
                " ORDER BY wanted.key",
                (wanted,),
            )
            found = [user for (user,) in rows]
            if db.execute(_ANY_DELETED, (wanted,)).get:
                raise UserDeleted
            return found

        return await self._readers.read(read)

    async def peers(self, user: UserKey) -> Sequence[UserKey]:
        given = (user, limits.SMALL_CHAT_MEMBERS_MAX, limits.PRESENCE_PEERS_MAX)
        return await self._readers.read(lambda db: [peer for (peer,) in db.execute(_PEERS, given)])

    async def visible_peers(self, user: UserKey) -> Mapping[UserKey, int | None]:
        given = (user, limits.SMALL_CHAT_MEMBERS_MAX, limits.PRESENCE_PEERS_MAX)
        return await self._readers.read(lambda db: dict(db.execute(_VISIBLE_PEERS, given)))

    async def about_how_many(self, tenant: str) -> int:
        def read(db: apsw.Connection) -> int:
            found = db.execute("SELECT users FROM user_counts WHERE tenant = ?", (tenant,)).get
            return found or 0

        return await self._readers.read(read)

    def seen(self, users: Mapping[UserKey, int]) -> None:
        if users:
            self._writer.submit(
                _UnawaitedWrite([(_SEEN, [(time, user) for user, time in users.items()])])
            )


def find_user(db: apsw.Connection, user: UserKey) -> User | None:
    """Return a user, or None if there is no such user."""
    row = db.execute(_USER, (user,)).fetchone()
    return from_row(User, row) if row else None


def _by_phone(db: apsw.Connection, tenant: str, numbers: Sequence[str]) -> dict[str, UserKey]:
    return dict(db.execute(BY_PHONE, (tenant, msgspec.json.encode(numbers).decode())))


def _put_user(db: apsw.Connection, user: UserKey, changes: _Changes, now: int) -> tuple[User, bool]:
    """Create the user, or change these columns; None clears a column."""
    number = changes.get("phone_number")
    if isinstance(number, str):
        holder = _by_phone(db, tenant_of(user), [number]).get(number, user)
        if holder != user:
            raise PhoneTaken
    before = find_user(db, user)
    if before is not None and before.deleted_at is not None:
        raise UserDeleted
    if before is None:
        row = {"user_id": user, **changes, "created_at": now, "updated_at": now}
        marks = ", ".join("?" * len(row))
        db.execute(f"INSERT INTO users ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    else:
        changed = {n: value for n, value in changes.items() if value != getattr(before, n)}
        _change_user(db, before, changed, now)
    after = find_user(db, user)
    assert after is not None, "a user that was put exists"
    return after, before is None


def _change_user(db: apsw.Connection, before: User, changed: _Changes, now: int) -> None:
    if not changed:
        return
    is_new_number = "phone_number" in changed
    row = {**changed, "updated_at": now, **({"phone_verified_at": None} if is_new_number else {})}
    columns = ", ".join(f"{name} = ?" for name in row)
    db.execute(f"UPDATE users SET {columns} WHERE user_id = ?", (*row.values(), before.user))
    if is_new_number and before.phone_number is not None:
        _revoke(db, before, now)


def _set_active(db: apsw.Connection, user: UserKey, is_active: bool, now: int) -> User | None:
    before = find_user(db, user)
    if before is None or (before.deactivated_at is None) == is_active or before.deleted_at:
        return before
    db.execute(
        "UPDATE users SET deactivated_at = ?, updated_at = ? WHERE user_id = ?",
        (None if is_active else now, now, user),
    )
    if not is_active:
        _revoke(db, before, now)
    return find_user(db, user)


def _ban(db: apsw.Connection, user: UserKey, until: int | None, now: int) -> User | None:
    before = find_user(db, user)
    if before is None or before.deleted_at:
        return None
    change = "UPDATE users SET banned_until = ?, updated_at = ? WHERE user_id = ?"
    db.execute(change, (until, now, user))
    revoked(db, Revocation(kind="ban", subject=user, at=until or 0))
    return find_user(db, user)


def _release_phone(db: apsw.Connection, user: UserKey, now: int) -> User | None:
    before = find_user(db, user)
    if before is None or before.phone_number is None:
        return before
    db.execute(
        "UPDATE users SET phone_number = NULL, phone_verified_at = NULL, updated_at = ?"
        " WHERE user_id = ?",
        (now, user),
    )
    _revoke(db, before, now)
    return find_user(db, user)


def _revoke(db: apsw.Connection, before: User, now: int) -> None:
    """Revoke all tokens and sessions that the user has, and append this to the revocation feed."""
    at = revoked_up_to(now, before.revoked_at)
    db.execute("UPDATE users SET revoked_at = ? WHERE user_id = ?", (at, before.user))
    revoked(db, Revocation(kind="user", subject=before.user, at=at))


_conforms: type[UserStore] = SqliteUsers
_conforms_write: type[WriteJob] = _UnawaitedWrite
