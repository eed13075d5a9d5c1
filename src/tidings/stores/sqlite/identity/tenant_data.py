# SPDX-License-Identifier: Apache-2.0
"""The data of a tenant that the tenant's deletion removes, on SQLite."""

from typing import Final

import apsw

from tidings.ports.people import Tenant
from tidings.ports.sessions import Revocation
from tidings.ports.tenant_data import TenantData
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.writer import Writer
from tidings.stores.sqlite.identity.sessions import revoked
from tidings.stores.sqlite.identity.tenants import find_tenant

_MARK: Final = """
INSERT INTO tenants (tenant, created_at, suspended_at, deleted_at) VALUES (?1, ?2, ?2, ?2)
ON CONFLICT DO UPDATE SET suspended_at = coalesce(suspended_at, ?2), deleted_at = ?2
"""
_OF_TENANT: Final = ("tenant_keys", "signing_keys", "token_issuers", "tenant_settings")


class SqliteTenantData:
    """Removes the rows of a tenant from all tables."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer

    async def mark_deleted(self, tenant: str, now: int) -> Tenant:
        def write(db: apsw.Connection) -> Tenant:
            mark = find_tenant(db, tenant)
            if mark is None or mark.deleted_at is None:
                db.execute(_MARK, (tenant, now))
                revoked(db, Revocation(kind="tenant", subject=tenant, at=now))
                mark = find_tenant(db, tenant)
            assert mark is not None, "the mark was stored"
            return mark

        return await self._writer.write(write)

    async def forget_inbox(self, tenant: str, inbox: str) -> None:
        def write(db: apsw.Connection) -> None:
            db.execute("DELETE FROM inboxes WHERE tenant = ? AND inbox = ?", (tenant, inbox))

        await self._writer.write(write)

    async def forget(self, tenant: str) -> None:
        def write(db: apsw.Connection) -> None:
            for table in _OF_TENANT:
                db.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))
            db.execute(
                "REPLACE INTO tenants (tenant, created_at, suspended_at, deleted_at)"
                " SELECT tenant, created_at, suspended_at, deleted_at FROM tenants"
                " WHERE tenant = ?",
                (tenant,),
            )
            self._writer.empty_log_after_commit()

        await self._writer.write(write)


_conforms: type[TenantData] = SqliteTenantData
