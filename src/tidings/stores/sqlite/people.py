# SPDX-License-Identifier: Apache-2.0
"""Tenants with their keys, and users with their profiles, on SQLite."""

from collections.abc import Mapping, Sequence
from typing import Final

import apsw
import msgspec

from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.ports.people import SigningKey, Tenant, TenantKey, Tenants, User, Users
from tidings.ports.revocations import Revocation
from tidings.stores.sqlite.jobs import Soon
from tidings.stores.sqlite.readers import Readers
from tidings.stores.sqlite.revocations import revoked
from tidings.stores.sqlite.writer import Writer

_SEEN: Final = "UPDATE users SET last_seen_at = max(coalesce(last_seen_at, 0), ?) WHERE user_id = ?"
# Bounded by the limits: so many chats a user, so many members a small chat.
_PEERS: Final = """
SELECT p.user_id, u.last_seen_at FROM (
    SELECT DISTINCT m.user_id FROM delivery_state AS d
    JOIN chats AS c ON c.chat_id = d.chat_id AND c.member_count <= ?2
    JOIN chat_memberships AS m ON m.chat_id = d.chat_id
    WHERE d.user_id = ?1 AND m.user_id <> ?1
) AS p LEFT JOIN users AS u ON u.user_id = p.user_id
"""


class SqliteTenants:
    """Tenants with their API keys and signing keys."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
        return await self._writer.write(lambda db: _put_tenant(db, tenant, signing))

    async def get(self, tenant: str) -> Tenant | None:
        return await self._readers.read(lambda db: _tenant(db, tenant))

    async def add_key(self, key: TenantKey) -> bool:
        def write(db: apsw.Connection) -> bool:
            if _tenant(db, key.tenant) is None:
                return False
            db.execute(
                "INSERT INTO tenant_keys (key_id, tenant, digest, created_at, revoked_at)"
                " VALUES (?, ?, ?, ?, ?)",
                (key.key_id, key.tenant, key.digest, key.created_at, key.revoked_at),
            )
            return True

        return await self._writer.write(write)

    async def revoke_key(self, tenant: str, key_id: str, now: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            db.execute(
                "UPDATE tenant_keys SET revoked_at = ?"
                " WHERE key_id = ? AND tenant = ? AND revoked_at IS NULL",
                (now, key_id, tenant),
            )
            if db.changes() == 0:
                return False
            revoked(db, Revocation(kind="tenant_key", subject=key_id, at=now))
            return True

        return await self._writer.write(write)

    async def find_key(self, key_id: str) -> TenantKey | None:
        return await self._readers.read(lambda db: _tenant_key(db, key_id))

    async def signing_keys(self, tenant: str) -> list[SigningKey]:
        return await self._readers.read(
            lambda db: _signing_keys(
                db, "tenant = ? ORDER BY created_at DESC, key_id DESC", (tenant,)
            )
        )

    async def signing_keys_wrapped_by_others(
        self, master_key_id: str, limit: int
    ) -> list[SigningKey]:
        return await self._readers.read(
            lambda db: _signing_keys(db, "master_key_id <> ? LIMIT ?", (master_key_id, limit))
        )

    async def rewrap_signing_keys(self, keys: list[SigningKey]) -> None:
        rows = [(key.sealed_private, key.master_key_id, key.tenant, key.key_id) for key in keys]

        def write(db: apsw.Connection) -> None:
            db.executemany(
                "UPDATE signing_keys SET sealed_private = ?, master_key_id = ?"
                " WHERE tenant = ? AND key_id = ?",
                rows,
            )

        await self._writer.write(write)


class SqliteUsers:
    """Users and their profiles."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(
        self, user: UserKey, *, display_name: str | None, phone_number: str | None, now: int
    ) -> tuple[User, bool]:
        return await self._writer.write(
            lambda db: _put_user(db, user, display_name, phone_number, now)
        )

    async def get(self, user: UserKey) -> User | None:
        return await self._readers.read(lambda db: _user(db, user))

    async def missing(self, users: Sequence[UserKey]) -> list[UserKey]:
        wanted = msgspec.json.encode(users).decode()

        def read(db: apsw.Connection) -> list[UserKey]:
            rows = db.execute(
                "SELECT value FROM json_each(?) AS wanted"
                " WHERE NOT EXISTS (SELECT 1 FROM users WHERE user_id = wanted.value)"
                " ORDER BY wanted.key",
                (wanted,),
            )
            return [user for (user,) in rows]

        return await self._readers.read(read)

    async def peers(self, user: UserKey) -> Mapping[UserKey, int | None]:
        return await self._readers.read(
            lambda db: dict(db.execute(_PEERS, (user, limits.SMALL_CHAT_MEMBERS_MAX)))
        )

    async def about_how_many(self, tenant: str) -> int:
        def read(db: apsw.Connection) -> int:
            found = db.execute("SELECT users FROM user_counts WHERE tenant = ?", (tenant,)).get
            return found or 0

        return await self._readers.read(read)

    def seen(self, users: Mapping[UserKey, int]) -> None:
        if users:
            self._writer.submit(Soon([(_SEEN, [(time, user) for user, time in users.items()])]))


def _tenant(db: apsw.Connection, tenant: str) -> Tenant | None:
    row = db.execute(
        "SELECT tenant, name, created_at FROM tenants WHERE tenant = ?", (tenant,)
    ).fetchone()
    return Tenant(tenant=row[0], name=row[1], created_at=row[2]) if row else None


def _put_tenant(db: apsw.Connection, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
    present = _tenant(db, tenant.tenant)
    if present is None:
        db.execute(
            "INSERT INTO tenants (tenant, name, created_at) VALUES (?, ?, ?)",
            (tenant.tenant, tenant.name, tenant.created_at),
        )
        db.execute(
            "INSERT INTO signing_keys"
            " (tenant, key_id, public, sealed_private, master_key_id, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                signing.tenant,
                signing.key_id,
                signing.public,
                signing.sealed_private,
                signing.master_key_id,
                signing.created_at,
            ),
        )
        return tenant, True
    if tenant.name is None:
        return present, False
    db.execute("UPDATE tenants SET name = ? WHERE tenant = ?", (tenant.name, tenant.tenant))
    return msgspec.structs.replace(present, name=tenant.name), False


def _tenant_key(db: apsw.Connection, key_id: str) -> TenantKey | None:
    row = db.execute(
        "SELECT tenant, digest, created_at, revoked_at FROM tenant_keys WHERE key_id = ?",
        (key_id,),
    ).fetchone()
    if row is None:
        return None
    tenant, digest, created_at, revoked_at = row
    return TenantKey(
        key_id=key_id, tenant=tenant, digest=digest, created_at=created_at, revoked_at=revoked_at
    )


def _signing_keys(
    db: apsw.Connection, where: str, values: tuple[str | int, ...]
) -> list[SigningKey]:
    return [
        SigningKey(
            key_id=key_id,
            tenant=tenant,
            public=public,
            sealed_private=sealed,
            master_key_id=master,
            created_at=created_at,
        )
        for key_id, tenant, public, sealed, master, created_at in db.execute(
            "SELECT key_id, tenant, public, sealed_private, master_key_id, created_at"
            f" FROM signing_keys WHERE {where}",
            values,
        )
    ]


def _user(db: apsw.Connection, user: UserKey) -> User | None:
    row = db.execute(
        "SELECT display_name, phone_number, created_at, updated_at, last_seen_at FROM users"
        " WHERE user_id = ?",
        (user,),
    ).fetchone()
    if row is None:
        return None
    display_name, phone_number, created_at, updated_at, last_seen_at = row
    return User(
        user=user,
        display_name=display_name,
        phone_number=phone_number,
        created_at=created_at,
        updated_at=updated_at,
        last_seen_at=last_seen_at,
    )


def _put_user(
    db: apsw.Connection,
    user: UserKey,
    display_name: str | None,
    phone_number: str | None,
    now: int,
) -> tuple[User, bool]:
    before = _user(db, user)
    if before is None:
        db.execute(
            "INSERT INTO users (user_id, display_name, phone_number, created_at, updated_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (user, display_name, phone_number, now, now),
        )
    elif display_name is not None or phone_number is not None:
        db.execute(
            "UPDATE users SET display_name = coalesce(?, display_name),"
            " phone_number = coalesce(?, phone_number), updated_at = ? WHERE user_id = ?",
            (display_name, phone_number, now, user),
        )
    after = _user(db, user)
    assert after is not None, "a user that was put is there"
    return after, before is None


_conforms_tenants: type[Tenants] = SqliteTenants
_conforms_users: type[Users] = SqliteUsers
