# SPDX-License-Identifier: Apache-2.0
"""The data of a tenant that the tenant's deletion removes, on DynamoDB."""

from typing import Final

from tidings.model.refusals import StoreUnavailable
from tidings.ports.people import Tenant
from tidings.ports.sessions import Revocation
from tidings.ports.tenant_data import TenantData
from tidings.stores.dynamodb import listings
from tidings.stores.dynamodb import patterns as all_patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import Update
from tidings.stores.dynamodb.identity import job_patterns as patterns
from tidings.stores.dynamodb.identity.items import (
    api_key_key,
    partition,
    tenant_key,
    to_tenant,
)
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations
from tidings.stores.dynamodb.inbox.items import config_key, settings_key

_MARK: Final = (
    "SET #deleted_at = :now, #suspended_at = if_not_exists(#suspended_at, :now),"
    " #created_at = if_not_exists(#created_at, :now)"
)


class DynamoTenantData:
    """Removes the items of a tenant from all tables."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def mark_deleted(self, tenant: str, now: int) -> Tenant:
        mark = Update(
            "tenants", tenant_key(tenant), _MARK, "attribute_not_exists(#deleted_at)", {":now": now}
        )
        item = await self._find(tenant)
        if item is None or "deleted_at" not in item:
            ending = Revocation(kind="tenant", subject=tenant, at=now)
            # If the condition fails, another caller has stored the mark.
            await self._revocations.append_with([ending], [mark])
            item = await self._find(tenant)
        if item is None:
            raise StoreUnavailable
        return to_tenant(item)

    async def _find(self, tenant: str) -> Item | None:
        return await self._dynamo.get(all_patterns.FIND_TENANT, tenant_key(tenant))

    async def forget_inbox(self, tenant: str, inbox: str) -> None:
        await self._dynamo.batch_write(patterns.FORGET_INBOX, deletes=[config_key(tenant, inbox)])

    async def forget(self, tenant: str) -> None:
        await self._forget_keys(tenant)
        own = tenant_key(tenant)
        items = await self._dynamo.query(
            patterns.LIST_TENANT_ITEMS, "#pk = :pk", {":pk": partition(tenant)}
        )
        for item in items:
            if item["sk"] != own["sk"]:
                await self._dynamo.delete(patterns.FORGET_TENANT_ITEM, _key(item))
        await self._dynamo.batch_write(patterns.FORGET_INBOX, deletes=[settings_key(tenant)])
        found = await self._find(tenant)
        assert found is not None, "the mark of a deleted tenant stays"
        await self._dynamo.delete(patterns.UNLIST, listings.tenant_listing(to_tenant(found)))
        kept = {name: found[name] for name in ("created_at", "suspended_at", "deleted_at")}
        await self._dynamo.put(patterns.KEEP_MARK, {**own, **kept})

    async def _forget_keys(self, tenant: str) -> None:
        """Remove each tenant key and then its listing, through which a repeated step finds the
        key."""
        listed = await self._dynamo.query(
            patterns.LIST_TENANT_KEYS, "#pk = :pk", {":pk": listings.keys_of(tenant)}
        )
        for item in listed:
            key_id = item["sk"].partition("#")[2]
            await self._dynamo.delete(patterns.FORGET_TENANT_ITEM, api_key_key(key_id))
            await self._dynamo.delete(patterns.UNLIST, _key(item))


def _key(item: Item) -> Item:
    return {"pk": item["pk"], "sk": item["sk"]}


_conforms: type[TenantData] = DynamoTenantData
