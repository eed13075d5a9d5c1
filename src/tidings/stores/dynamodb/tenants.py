# SPDX-License-Identifier: Apache-2.0
"""Tenants with their API keys and signing keys, on DynamoDB. Tenants are never deleted."""

from functools import partial
from typing import Final

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.ports.people import SigningKey, Tenant, TenantKey, Tenants
from tidings.ports.revocations import Revocation
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.revocations import DynamoRevocations
from tidings.stores.dynamodb.scanning import Walk
from tidings.stores.dynamodb.side_by_side import together
from tidings.stores.dynamodb.trouble import Canceled, ConditionFailed, Item
from tidings.stores.dynamodb.writes import Put, Update

_SIGNING: Final = "s#"


class DynamoTenants:
    """Tenants, by name; tenant keys, by id; signing keys beside their tenant."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._revocations = DynamoRevocations(dynamo)
        self._walk = Walk(dynamo, patterns.SCAN_SIGNING_KEYS)

    async def put(self, tenant: Tenant, signing: SigningKey) -> tuple[Tenant, bool]:
        found = await self.get(tenant.tenant) or await self._create(tenant, signing)
        if found is None:
            return tenant, True
        if tenant.name is None:
            return found, False
        renamed = await self._dynamo.update(
            patterns.RENAME_TENANT,
            _tenant_key(tenant.tenant),
            "SET #name = :name",
            values={":name": tenant.name},
        )
        return _to_tenant(renamed), False

    async def _create(self, tenant: Tenant, signing: SigningKey) -> Tenant | None:
        """Make the tenant; returns the one that was there already, if one was."""
        item: Item = {**_tenant_key(tenant.tenant), "created_at": tenant.created_at}
        if tenant.name is not None:
            item["name"] = tenant.name
        writes = [
            Put("tenants", item, "attribute_not_exists(#pk)"),
            Put("tenants", _signing_item(signing)),
        ]
        for _ in range(limits.SLOT_ATTEMPTS_MAX):
            try:
                await self._dynamo.transact(patterns.CREATE_TENANT, writes)
            except Canceled as canceled:
                there = canceled.reasons[0].item
                if canceled.reasons[0].is_condition and there is not None:
                    return _to_tenant(there)
            else:
                return None
        raise StoreUnavailable

    async def get(self, tenant: str) -> Tenant | None:
        item = await self._dynamo.get(patterns.FIND_TENANT, _tenant_key(tenant))
        return _to_tenant(item) if item else None

    async def add_key(self, key: TenantKey) -> bool:
        if await self.get(key.tenant) is None:
            return False
        item: Item = {
            **_key(key.key_id),
            "tenant": key.tenant,
            "digest": key.digest,
            "created_at": key.created_at,
        }
        try:
            await self._dynamo.put(patterns.ADD_TENANT_KEY, item, "attribute_not_exists(#pk)")
        except ConditionFailed as failed:
            if failed.item != item:
                raise
        return True

    async def revoke_key(self, tenant: str, key_id: str, now: int) -> bool:
        change = Update(
            "tenants",
            _key(key_id),
            "SET #revoked_at = :now",
            "#tenant = :tenant AND attribute_not_exists(#revoked_at)",
            {":now": now, ":tenant": tenant},
        )
        revocation = Revocation(kind="tenant_key", subject=key_id, at=now)
        return await self._revocations.append_with(revocation, change)

    async def find_key(self, key_id: str) -> TenantKey | None:
        item = await self._dynamo.get(patterns.FIND_TENANT_KEY, _key(key_id))
        if item is None:
            return None
        return TenantKey(
            key_id=key_id,
            tenant=item["tenant"],
            digest=item["digest"],
            created_at=item["created_at"],
            revoked_at=item.get("revoked_at"),
        )

    async def signing_keys(self, tenant: str) -> list[SigningKey]:
        items = await self._dynamo.query(
            patterns.LIST_SIGNING_KEYS,
            "#pk = :pk AND begins_with(#sk, :signing)",
            {":pk": _partition(tenant), ":signing": _SIGNING},
        )
        keys = [_to_signing_key(item) for item in items]
        return sorted(keys, key=lambda key: (key.created_at, key.key_id), reverse=True)

    async def signing_keys_wrapped_by_others(
        self, master_key_id: str, limit: int
    ) -> list[SigningKey]:
        items = await self._walk.some(
            "begins_with(#sk, :signing) AND #master_key_id <> :master",
            {":signing": _SIGNING, ":master": master_key_id},
            limit,
        )
        return [_to_signing_key(item) for item in items]

    async def rewrap_signing_keys(self, keys: list[SigningKey]) -> None:
        await together(partial(self._rewrap, key) for key in keys)

    async def _rewrap(self, key: SigningKey) -> None:
        try:
            await self._dynamo.update(
                patterns.REWRAP_SIGNING_KEY,
                _signing_key(key.tenant, key.key_id),
                "SET #sealed_private = :sealed, #master_key_id = :master",
                "attribute_exists(#pk)",
                {":sealed": key.sealed_private, ":master": key.master_key_id},
            )
        except ConditionFailed:
            return  # gone meanwhile: passed over


def _partition(tenant: str) -> str:
    return f"t#{tenant}"


def _tenant_key(tenant: str) -> Item:
    return {"pk": _partition(tenant), "sk": "tenant"}


def _key(key_id: str) -> Item:
    return {"pk": f"k#{key_id}", "sk": "key"}


def _signing_key(tenant: str, key_id: str) -> Item:
    return {"pk": _partition(tenant), "sk": _SIGNING + key_id}


def _signing_item(key: SigningKey) -> Item:
    return {
        **_signing_key(key.tenant, key.key_id),
        "public": key.public,
        "sealed_private": key.sealed_private,
        "master_key_id": key.master_key_id,
        "created_at": key.created_at,
    }


def _to_tenant(item: Item) -> Tenant:
    return Tenant(
        tenant=item["pk"].removeprefix("t#"), name=item.get("name"), created_at=item["created_at"]
    )


def _to_signing_key(item: Item) -> SigningKey:
    return SigningKey(
        key_id=item["sk"].removeprefix(_SIGNING),
        tenant=item["pk"].removeprefix("t#"),
        public=item["public"],
        sealed_private=item["sealed_private"],
        master_key_id=item["master_key_id"],
        created_at=item["created_at"],
    )


_conforms: type[Tenants] = DynamoTenants
