# SPDX-License-Identifier: Apache-2.0
"""Tenants and their tenant keys, on DynamoDB. Tenants are never deleted."""

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.people import Quotas, SigningKey, Tenant, TenantKey, Tenants
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client.errors import Canceled, ConditionFailed
from tidings.stores.dynamodb.client.writes import Put, Update, Values
from tidings.stores.dynamodb.identity.identity_patterns import RESUME_TENANT, SET_QUOTAS
from tidings.stores.dynamodb.identity.tenant_items import (
    api_key_item,
    api_key_key,
    quotas_value,
    signing_item,
    tenant_item,
    tenant_key,
    to_api_key,
    to_tenant,
)
from tidings.stores.dynamodb.identity.token_keys import TokenKeys
from tidings.stores.dynamodb.patterns import Pattern


class DynamoTenants(TokenKeys):
    """Tenants by name, tenant keys by id, and the keys that verify a tenant's tokens."""

    async def put(self, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
        found = await self.get(tenant.tenant) or await self._create(tenant, signing)
        if found is None:
            return tenant, True
        if tenant.name is None:
            return found, False
        renamed = await self._dynamo.update(
            patterns.RENAME_TENANT,
            tenant_key(tenant.tenant),
            "SET #name = :name",
            values={":name": tenant.name},
        )
        return to_tenant(renamed), False

    async def _create(self, tenant: Tenant, signing: SigningKey) -> Tenant | None:
        """Create the tenant; return the stored tenant if there is already one."""
        writes = [
            Put("tenants", tenant_item(tenant), "attribute_not_exists(#pk)"),
            Put("tenants", signing_item(signing)),
        ]
        for _ in range(limits.SLOT_ATTEMPTS_MAX):
            try:
                await self._dynamo.transact(patterns.CREATE_TENANT, writes)
            except Canceled as canceled:
                stored = canceled.reasons[0].item
                if canceled.reasons[0].is_condition and stored is not None:
                    return to_tenant(stored)
            else:
                return None
        raise StoreUnavailable

    async def get(self, tenant: str) -> Tenant | None:
        item = await self._dynamo.get(patterns.FIND_TENANT, tenant_key(tenant))
        return to_tenant(item) if item else None

    async def set_suspended(self, tenant: str, is_suspended: bool, now: int) -> Tenant | None:
        if not is_suspended:
            return await self._change(RESUME_TENANT, tenant, "REMOVE #suspended_at")
        change = Update(
            "tenants",
            tenant_key(tenant),
            "SET #suspended_at = :now",
            "attribute_exists(#pk) AND attribute_not_exists(#suspended_at)",
            {":now": now},
        )
        revocation = Revocation(kind="tenant", subject=tenant, at=now)
        await self._revocations.append_with([revocation], [change])
        return await self.get(tenant)

    async def set_quotas(self, tenant: str, quotas: Quotas) -> Tenant | None:
        values = {":quotas": quotas_value(quotas)}
        return await self._change(SET_QUOTAS, tenant, "SET #quotas = :quotas", values)

    async def _change(
        self, pattern: Pattern, tenant: str, update: str, values: Values | None = None
    ) -> Tenant | None:
        try:
            item = await self._dynamo.update(
                pattern, tenant_key(tenant), update, "attribute_exists(#pk)", values
            )
        except ConditionFailed:
            return None
        return to_tenant(item)

    async def add_key(self, key: TenantKey) -> bool:
        if await self.get(key.tenant) is None:
            return False
        item = api_key_item(key)
        try:
            await self._dynamo.put(patterns.ADD_TENANT_KEY, item, "attribute_not_exists(#pk)")
        except ConditionFailed as failed:
            if failed.item != item:
                raise
        return True

    async def revoke_key(self, tenant: str, key_id: str, now: int) -> bool:
        change = Update(
            "tenants",
            api_key_key(key_id),
            "SET #revoked_at = :now",
            "#tenant = :tenant AND attribute_not_exists(#revoked_at)",
            {":now": now, ":tenant": tenant},
        )
        revocation = Revocation(kind="tenant_key", subject=key_id, at=now)
        return await self._revocations.append_with([revocation], [change])

    async def find_key(self, key_id: str) -> TenantKey | None:
        item = await self._dynamo.get(patterns.FIND_TENANT_KEY, api_key_key(key_id))
        return to_api_key(item) if item else None


_conforms: type[Tenants] = DynamoTenants
