# SPDX-License-Identifier: Apache-2.0
"""Tenants, their tenant keys, and the keys that verify their users' tokens, on DynamoDB."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable, TenantDeleted
from tidings.ports.people import (
    Listed,
    Quotas,
    SigningKey,
    Tenant,
    TenantKey,
    Tenants,
    TokenIssuer,
)
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb import listings, patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Canceled, ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.client.writes import Delete, Put, Update, Values
from tidings.stores.dynamodb.export.scanning import Walk
from tidings.stores.dynamodb.identity.identity_patterns import (
    ADD_LISTING,
    ADD_SIGNING_KEY,
    READ_ISSUER,
    RESUME_TENANT,
    SET_QUOTAS,
    SHOW_LISTED,
)
from tidings.stores.dynamodb.identity.items import (
    SIGNING,
    api_key_item,
    api_key_key,
    issuer_item,
    issuer_key,
    partition,
    quotas_value,
    signing_item,
    signing_key,
    tenant_item,
    tenant_key,
    to_api_key,
    to_issuer,
    to_signing_key,
    to_tenant,
)
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations
from tidings.stores.dynamodb.patterns import Pattern

_IS_THERE: Final = "attribute_exists(#pk) AND attribute_not_exists(#deleted_at)"


class TokenKeys:
    """Stores each tenant's signing keys and its own token issuer, in the tenant's partition."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations
        self._walk = Walk(dynamo, patterns.SCAN_SIGNING_KEYS)

    # Signing keys.

    async def signing_keys(self, tenant: str) -> list[SigningKey]:
        items = await self._dynamo.query(
            patterns.LIST_SIGNING_KEYS,
            "#pk = :pk AND begins_with(#sk, :signing)",
            {":pk": partition(tenant), ":signing": SIGNING},
        )
        keys = [to_signing_key(item) for item in items]
        return sorted(keys, key=lambda key: (key.created_at, key.key_id), reverse=True)

    async def add_signing_key(self, key: SigningKey, most: int) -> bool:
        if not 0 < len(await self.signing_keys(key.tenant)) < most:
            return False  # no key at all means no such tenant
        item = signing_item(key)
        try:
            await self._dynamo.put(ADD_SIGNING_KEY, item, "attribute_not_exists(#pk)")
        except ConditionFailed as failed:
            if failed.item != item:
                raise
        return True

    async def remove_signing_key(self, tenant: str, key_id: str, now: int) -> bool:
        older = (await self.signing_keys(tenant))[1:]
        if not any(key.key_id == key_id for key in older):
            return False
        change = Delete("tenants", signing_key(tenant, key_id), "attribute_exists(#pk)")
        return await self._revocations.append_with(_revoked([key_id], now), [change])

    async def signing_keys_wrapped_by_others(
        self, master_key_id: str, limit: int
    ) -> list[SigningKey]:
        items = await self._walk.some(
            "begins_with(#sk, :signing) AND #master_key_id <> :master",
            {":signing": SIGNING, ":master": master_key_id},
            limit,
        )
        return [to_signing_key(item) for item in items]

    async def rewrap_signing_keys(self, keys: list[SigningKey]) -> None:
        await gather_bounded(partial(self._rewrap, key) for key in keys)

    async def _rewrap(self, key: SigningKey) -> None:
        try:
            await self._dynamo.update(
                patterns.REWRAP_SIGNING_KEY,
                signing_key(key.tenant, key.key_id),
                "SET #sealed_private = :sealed, #master_key_id = :master",
                "attribute_exists(#pk)",
                {":sealed": key.sealed_private, ":master": key.master_key_id},
            )
        except ConditionFailed:
            return  # the key was removed meanwhile

    # The tenant's own issuer.

    async def issuer(self, tenant: str) -> TokenIssuer | None:
        item = await self._dynamo.get(READ_ISSUER, issuer_key(tenant))
        return to_issuer(item) if item else None

    async def put_issuer(
        self, issuer: TokenIssuer, before: TokenIssuer | None, removed: Sequence[str]
    ) -> bool:
        change = Put("tenants", issuer_item(issuer), *_is_stored(before))
        return await self._revocations.append_with(_revoked(removed, issuer.updated_at), [change])

    async def remove_issuer(self, before: TokenIssuer, removed: Sequence[str], now: int) -> bool:
        change = Delete("tenants", issuer_key(before.tenant), *_is_stored(before))
        return await self._revocations.append_with(_revoked(removed, now), [change])


def _is_stored(issuer: TokenIssuer | None) -> tuple[str, Item]:
    """Return the condition that exactly this issuer is stored, and the values in it."""
    if issuer is None:
        return "attribute_not_exists(#pk)", {}
    is_same = "#document = :document AND #updated_at = :updated_at"
    values: Item = {":document": issuer.document, ":updated_at": issuer.updated_at}
    if issuer.issuer is None:
        return f"{is_same} AND attribute_not_exists(#issuer)", values
    return f"{is_same} AND #issuer = :issuer", {**values, ":issuer": issuer.issuer}


def _revoked(key_ids: Iterable[str], now: int) -> list[Revocation]:
    return [Revocation(kind="signing_key", subject=key_id, at=now) for key_id in key_ids]


class DynamoTenants(TokenKeys):
    """Stores tenants by name, tenant keys by id, and the keys that verify a tenant's tokens."""

    async def put(self, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
        found = await self.get(tenant.tenant) or await self._create(tenant, signing)
        if found is None:
            return tenant, True
        if found.deleted_at is not None:
            raise TenantDeleted
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
        """Create the tenant and return None; if the tenant exists, return the stored tenant."""
        writes = [
            Put("tenants", tenant_item(tenant), "attribute_not_exists(#pk)"),
            Put("tenants", signing_item(signing)),
            Put("listings", listings.tenant_listing(tenant)),
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
            found = await self._change(RESUME_TENANT, tenant, "REMOVE #suspended_at")
            return found or await self.get(tenant)
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
            item = await self._dynamo.update(pattern, tenant_key(tenant), update, _IS_THERE, values)
        except ConditionFailed:
            return None
        return to_tenant(item)

    async def add_key(self, key: TenantKey) -> bool:
        tenant = await self.get(key.tenant)
        if tenant is None or tenant.deleted_at is not None:
            return False
        await self._dynamo.put(ADD_LISTING, listings.key_listing(key))
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

    async def newest(self, *, below: str | None, limit: int) -> Listed[Tenant]:
        names, end = await listings.newest(self._dynamo, [listings.TENANTS], below, limit)
        items = await self._listed(map(tenant_key, names))
        return Listed([to_tenant(item) for item in items if "deleted_at" not in item], end)

    async def newest_keys(self, tenant: str, *, below: str | None, limit: int) -> Listed[TenantKey]:
        partitions = [listings.keys_of(tenant)]
        names, end = await listings.newest(self._dynamo, partitions, below, limit)
        items = await self._listed(map(api_key_key, names))
        return Listed([to_api_key(item) for item in items], end)

    async def _listed(self, keys: Iterable[Item]) -> list[Item]:
        """Return the items with these keys that exist, in the given order."""
        order = {key["pk"]: key for key in keys}
        found = await self._dynamo.batch_get(SHOW_LISTED, order.values())
        items = {item["pk"]: item for item in found}
        return [items[name] for name in order if name in items]


_conforms: type[Tenants] = DynamoTenants
