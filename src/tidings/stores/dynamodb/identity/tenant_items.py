# SPDX-License-Identifier: Apache-2.0
"""Conversion of tenants, tenant keys, signing keys and token issuers to items, and back."""

from typing import Final

from tidings.ports.people import Quotas, SigningKey, Tenant, TenantKey, TokenIssuer
from tidings.stores.dynamodb.client.retrying import Item

TENANT: Final = "t#"
TENANT_KEY: Final = "k#"
SIGNING: Final = "s#"
ISSUER: Final = "issuer"


def partition(tenant: str) -> str:
    """Return the partition of everything of a tenant except its tenant keys."""
    return TENANT + tenant


def tenant_key(tenant: str) -> Item:
    """Return the key of a tenant."""
    return {"pk": partition(tenant), "sk": "tenant"}


def tenant_item(tenant: Tenant) -> Item:
    """Convert a tenant to its item."""
    item: Item = {**tenant_key(tenant.tenant), "created_at": tenant.created_at}
    if tenant.name is not None:
        item["name"] = tenant.name
    if tenant.suspended_at is not None:
        item["suspended_at"] = tenant.suspended_at
    if quotas := quotas_value(tenant.quotas):
        item["quotas"] = quotas
    return item


def to_tenant(item: Item) -> Tenant:
    """Convert an item to its tenant."""
    return Tenant(
        tenant=item["pk"].removeprefix(TENANT),
        name=item.get("name"),
        created_at=item["created_at"],
        suspended_at=item.get("suspended_at"),
        quotas=Quotas(**item.get("quotas", {})),
    )


def quotas_value(quotas: Quotas) -> Item:
    """Convert quotas to a map, without those that are not set."""
    fields = {name: getattr(quotas, name) for name in quotas.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}


def api_key_key(key_id: str) -> Item:
    """Return the key of a tenant key's item: its id alone, as callers do not name the tenant."""
    return {"pk": TENANT_KEY + key_id, "sk": "key"}


def api_key_item(key: TenantKey) -> Item:
    """Convert a valid tenant key to its item."""
    return {
        **api_key_key(key.key_id),
        "tenant": key.tenant,
        "digest": key.digest,
        "created_at": key.created_at,
    }


def to_api_key(item: Item) -> TenantKey:
    """Convert an item to its tenant key."""
    return TenantKey(
        key_id=item["pk"].removeprefix(TENANT_KEY),
        tenant=item["tenant"],
        digest=item["digest"],
        created_at=item["created_at"],
        revoked_at=item.get("revoked_at"),
    )


def signing_key(tenant: str, key_id: str) -> Item:
    """Return the key of a signing key's item."""
    return {"pk": partition(tenant), "sk": SIGNING + key_id}


def signing_item(key: SigningKey) -> Item:
    """Convert a signing key to its item."""
    return {
        **signing_key(key.tenant, key.key_id),
        "public": key.public,
        "sealed_private": key.sealed_private,
        "master_key_id": key.master_key_id,
        "created_at": key.created_at,
    }


def to_signing_key(item: Item) -> SigningKey:
    """Convert an item to its signing key."""
    return SigningKey(
        key_id=item["sk"].removeprefix(SIGNING),
        tenant=item["pk"].removeprefix(TENANT),
        public=item["public"],
        sealed_private=item["sealed_private"],
        master_key_id=item["master_key_id"],
        created_at=item["created_at"],
    )


def issuer_key(tenant: str) -> Item:
    """Return the key of a tenant's own token issuer."""
    return {"pk": partition(tenant), "sk": ISSUER}


def issuer_item(issuer: TokenIssuer) -> Item:
    """Convert a tenant's own token issuer to its item."""
    item: Item = {
        **issuer_key(issuer.tenant),
        "document": issuer.document,
        "updated_at": issuer.updated_at,
    }
    return item if issuer.issuer is None else {**item, "issuer": issuer.issuer}


def to_issuer(item: Item) -> TokenIssuer:
    """Convert an item to its token issuer."""
    return TokenIssuer(
        tenant=item["pk"].removeprefix(TENANT),
        issuer=item.get("issuer"),
        document=item["document"],
        updated_at=item["updated_at"],
    )
