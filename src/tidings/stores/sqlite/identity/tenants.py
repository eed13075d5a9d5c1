# SPDX-License-Identifier: Apache-2.0
"""Tenants with their keys, quotas and token issuers, on SQLite."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from tidings.model.refusals import TenantDeleted
from tidings.ports.people import (
    Listed,
    Quotas,
    SigningKey,
    Tenant,
    TenantKey,
    Tenants,
    TokenIssuer,
    creation_position,
)
from tidings.ports.sessions import Revocation
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert, listed, place_below
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked

_QUOTAS: Final = (
    "quota_users",
    "quota_chats_per_day",
    "quota_messages_per_day",
    "quota_attachment_bytes_per_day",
)
"""Columns of the quotas, in the order of the fields of `Quotas`."""
_TENANTS: Final = (
    f"SELECT tenant, name, created_at, suspended_at, {', '.join(_QUOTAS)}, deleted_at FROM tenants"
)
_NEWEST_FIRST: Final = "tenant = ? ORDER BY created_at DESC, key_id DESC"


class SqliteTenants:
    """Stores tenants, their tenant keys, their signing keys and their token issuers."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
        return await self._writer.write(lambda db: _put_tenant(db, tenant, signing))

    async def get(self, tenant: str) -> Tenant | None:
        return await self._readers.read(lambda db: find_tenant(db, tenant))

    async def set_suspended(self, tenant: str, is_suspended: bool, now: int) -> Tenant | None:
        return await self._writer.write(lambda db: _set_suspended(db, tenant, is_suspended, now))

    async def set_quotas(self, tenant: str, quotas: Quotas) -> Tenant | None:
        def write(db: apsw.Connection) -> Tenant | None:
            db.execute(
                f"UPDATE tenants SET {' = ?, '.join(_QUOTAS)} = ? WHERE tenant = ?",
                (*msgspec.structs.astuple(quotas), tenant),
            )
            return find_tenant(db, tenant)

        return await self._writer.write(write)

    async def add_key(self, key: TenantKey) -> bool:
        def write(db: apsw.Connection) -> bool:
            tenant = find_tenant(db, key.tenant)
            if tenant is None or tenant.deleted_at is not None:
                return False
            insert(db, "tenant_keys", key)
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
        def read(db: apsw.Connection) -> TenantKey | None:
            row = db.execute(
                f"SELECT {columns(TenantKey)} FROM tenant_keys WHERE key_id = ?", (key_id,)
            ).fetchone()
            return from_row(TenantKey, row) if row else None

        return await self._readers.read(read)

    async def newest(self, *, below: str | None, limit: int) -> Listed[Tenant]:
        def read(db: apsw.Connection) -> list[Tenant]:
            statement = (
                f"{_TENANTS} WHERE (created_at, tenant) < (?, ?) AND deleted_at IS NULL"
                " ORDER BY created_at DESC, tenant DESC LIMIT ?"
            )
            return [
                _from_row(row) for row in db.execute(statement, (*place_below(below), limit + 1))
            ]

        found = await self._readers.read(read)
        return listed(found, limit, lambda one: creation_position(one.created_at, one.tenant))

    async def newest_keys(self, tenant: str, *, below: str | None, limit: int) -> Listed[TenantKey]:
        def read(db: apsw.Connection) -> list[TenantKey]:
            statement = (
                f"SELECT {columns(TenantKey)} FROM tenant_keys"
                " WHERE tenant = ? AND (created_at, key_id) < (?, ?)"
                " ORDER BY created_at DESC, key_id DESC LIMIT ?"
            )
            rows = db.execute(statement, (tenant, *place_below(below), limit + 1))
            return [from_row(TenantKey, row) for row in rows]

        found = await self._readers.read(read)
        return listed(found, limit, lambda key: creation_position(key.created_at, key.key_id))

    async def signing_keys(self, tenant: str) -> list[SigningKey]:
        return await self._readers.read(lambda db: _signing_keys(db, _NEWEST_FIRST, (tenant,)))

    async def add_signing_key(self, key: SigningKey, most: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            present = _signing_keys(db, _NEWEST_FIRST, (key.tenant,))
            if not present or len(present) >= most:  # every tenant has a signing key
                return False
            insert(db, "signing_keys", key)
            return True

        return await self._writer.write(write)

    async def remove_signing_key(self, tenant: str, key_id: str, now: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            older = _signing_keys(db, _NEWEST_FIRST, (tenant,))[1:]
            if key_id not in {key.key_id for key in older}:
                return False
            db.execute("DELETE FROM signing_keys WHERE tenant = ? AND key_id = ?", (tenant, key_id))
            revoked(db, Revocation(kind="signing_key", subject=key_id, at=now))
            return True

        return await self._writer.write(write)

    async def issuer(self, tenant: str) -> TokenIssuer | None:
        return await self._readers.read(lambda db: _issuer(db, tenant))

    async def put_issuer(
        self, issuer: TokenIssuer, before: TokenIssuer | None, removed: Sequence[str]
    ) -> bool:
        def write(db: apsw.Connection) -> bool:
            if _issuer(db, issuer.tenant) != before:
                return False
            insert(db, "token_issuers", issuer, replace=True)
            _revoke_keys(db, removed, issuer.updated_at)
            return True

        return await self._writer.write(write)

    async def remove_issuer(self, before: TokenIssuer, removed: Sequence[str], now: int) -> bool:
        def write(db: apsw.Connection) -> bool:
            if _issuer(db, before.tenant) != before:
                return False
            db.execute("DELETE FROM token_issuers WHERE tenant = ?", (before.tenant,))
            _revoke_keys(db, removed, now)
            return True

        return await self._writer.write(write)

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


def find_tenant(db: apsw.Connection, tenant: str) -> Tenant | None:
    """Return a tenant; of a deleted tenant, only the id and `deleted_at` are left."""
    row = db.execute(f"{_TENANTS} WHERE tenant = ?", (tenant,)).fetchone()
    return _from_row(row) if row else None


def _from_row(row: tuple[Any, ...]) -> Tenant:
    tenant, name, created_at, suspended_at, *quotas, deleted_at = row
    return Tenant(
        tenant=tenant,
        name=name,
        created_at=created_at,
        suspended_at=suspended_at,
        quotas=from_row(Quotas, tuple(quotas)),
        deleted_at=deleted_at,
    )


def _put_tenant(db: apsw.Connection, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
    present = find_tenant(db, tenant.tenant)
    if present is None:
        db.execute(
            "INSERT INTO tenants (tenant, name, created_at) VALUES (?, ?, ?)",
            (tenant.tenant, tenant.name, tenant.created_at),
        )
        insert(db, "signing_keys", signing)
        return tenant, True
    if present.deleted_at is not None:
        raise TenantDeleted
    if tenant.name is None:
        return present, False
    db.execute("UPDATE tenants SET name = ? WHERE tenant = ?", (tenant.name, tenant.tenant))
    return msgspec.structs.replace(present, name=tenant.name), False


def _set_suspended(db: apsw.Connection, tenant: str, is_suspended: bool, now: int) -> Tenant | None:
    present = find_tenant(db, tenant)
    if present is None or present.deleted_at or bool(present.suspended_at) == is_suspended:
        return present
    since = now if is_suspended else None
    db.execute("UPDATE tenants SET suspended_at = ? WHERE tenant = ?", (since, tenant))
    if is_suspended:
        revoked(db, Revocation(kind="tenant", subject=tenant, at=now))
    return msgspec.structs.replace(present, suspended_at=since)


def _signing_keys(
    db: apsw.Connection, where: str, values: tuple[str | int, ...]
) -> list[SigningKey]:
    rows = db.execute(f"SELECT {columns(SigningKey)} FROM signing_keys WHERE {where}", values)
    return [from_row(SigningKey, row) for row in rows]


def _issuer(db: apsw.Connection, tenant: str) -> TokenIssuer | None:
    row = db.execute(
        f"SELECT {columns(TokenIssuer)} FROM token_issuers WHERE tenant = ?", (tenant,)
    ).fetchone()
    return from_row(TokenIssuer, row) if row else None


def _revoke_keys(db: apsw.Connection, key_ids: Sequence[str], at: int) -> None:
    for key_id in key_ids:
        revoked(db, Revocation(kind="signing_key", subject=key_id, at=at))


_conforms: type[Tenants] = SqliteTenants
