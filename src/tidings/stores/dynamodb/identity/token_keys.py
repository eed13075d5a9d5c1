# SPDX-License-Identifier: Apache-2.0
"""The keys that verify a tenant's user tokens: our signing keys, and the tenant's own issuer."""

from collections.abc import Iterable, Sequence
from functools import partial

from tidings.ports.people import SigningKey, TokenIssuer
from tidings.ports.sessions import Revocation
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.errors import ConditionFailed
from tidings.stores.dynamodb.client.retrying import gather_bounded
from tidings.stores.dynamodb.client.writes import Delete, Put
from tidings.stores.dynamodb.export.scanning import Walk
from tidings.stores.dynamodb.identity.identity_patterns import ADD_SIGNING_KEY, READ_ISSUER
from tidings.stores.dynamodb.identity.revocations import DynamoRevocations
from tidings.stores.dynamodb.identity.tenant_items import (
    SIGNING,
    issuer_item,
    issuer_key,
    partition,
    signing_item,
    signing_key,
    to_issuer,
    to_signing_key,
)


class TokenKeys:
    """Signing keys and the tenant's own issuer, in the tenant's partition."""

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

    async def put_issuer(self, issuer: TokenIssuer, removed: Sequence[str]) -> None:
        change = Put("tenants", issuer_item(issuer))
        await self._revocations.append_with(_revoked(removed, issuer.updated_at), [change])

    async def remove_issuer(self, tenant: str, removed: Sequence[str], now: int) -> bool:
        change = Delete("tenants", issuer_key(tenant), "attribute_exists(#pk)")
        return await self._revocations.append_with(_revoked(removed, now), [change])


def _revoked(key_ids: Iterable[str], now: int) -> list[Revocation]:
    return [Revocation(kind="signing_key", subject=key_id, at=now) for key_id in key_ids]
