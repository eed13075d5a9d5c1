# SPDX-License-Identifier: Apache-2.0
"""Converts tenants, keys, users and sessions to items and back, also for exports and imports."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import msgspec

from tidings.model.ids import tenant_of
from tidings.ports.export_facts import IssuerFact, SessionFact, TenantFact, UserFact, Written
from tidings.ports.export_inbox_facts import converted
from tidings.ports.people import Quotas, SigningKey, Tenant, TenantKey, TokenIssuer
from tidings.ports.sessions import Session
from tidings.stores.dynamodb.client.dynamo import BATCH_GET_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.export.scanning import ids_of
from tidings.stores.dynamodb.identity.identity_patterns import EXPORT_SESSIONS, SCAN_SESSIONS
from tidings.stores.dynamodb.identity.phone_claims import claim_item, claim_key
from tidings.stores.dynamodb.identity.sessions import session_item, to_session
from tidings.stores.dynamodb.patterns import IMPORT_USER

TENANT: Final = "t#"
TENANT_KEY: Final = "k#"
SIGNING: Final = "s#"
ISSUER: Final = "issuer"

IS_SESSION: Final = "attribute_exists(#user_id)"
"""Condition that an item is a session. The table also contains login codes and budgets."""

_IS_VALID: Final = f"{IS_SESSION} AND attribute_not_exists(#revoked_at) AND #expires_at > :now"


def partition(tenant: str) -> str:
    """Return the partition that stores everything about a tenant except its tenant keys."""
    return TENANT + tenant


def tenant_key(tenant: str) -> Item:
    """Return the key of a tenant's item."""
    return {"pk": partition(tenant), "sk": "tenant"}


def tenant_item(tenant: Tenant) -> Item:
    """Convert a tenant to its item."""
    item: Item = {**tenant_key(tenant.tenant), "created_at": tenant.created_at}
    if tenant.name is not None:
        item["name"] = tenant.name
    if tenant.suspended_at is not None:
        item["suspended_at"] = tenant.suspended_at
    if tenant.deleted_at is not None:
        item["deleted_at"] = tenant.deleted_at
    if quotas := quotas_value(tenant.quotas):
        item["quotas"] = quotas
    return item


def to_tenant(item: Item) -> Tenant:
    """Convert a stored item to a `Tenant`."""
    return Tenant(
        tenant=item["pk"].removeprefix(TENANT),
        name=item.get("name"),
        created_at=item["created_at"],
        suspended_at=item.get("suspended_at"),
        quotas=Quotas(**item.get("quotas", {})),
        deleted_at=item.get("deleted_at"),
    )


def quotas_value(quotas: Quotas) -> Item:
    """Convert quotas to a map that contains only the quotas that are set."""
    fields = {name: getattr(quotas, name) for name in quotas.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not None}


def api_key_key(key_id: str) -> Item:
    """Return the key of a tenant key's item.

    It does not contain the tenant, because callers present only the tenant key.
    """
    return {"pk": TENANT_KEY + key_id, "sk": "key"}


def api_key_item(key: TenantKey) -> Item:
    """Convert a tenant key, which must not be revoked, to its item."""
    return {
        **api_key_key(key.key_id),
        "tenant": key.tenant,
        "digest": key.digest,
        "created_at": key.created_at,
    }


def to_api_key(item: Item) -> TenantKey:
    """Convert a stored item to a `TenantKey`."""
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
    """Convert a stored item to a `SigningKey`."""
    return SigningKey(
        key_id=item["sk"].removeprefix(SIGNING),
        tenant=item["pk"].removeprefix(TENANT),
        public=item["public"],
        sealed_private=item["sealed_private"],
        master_key_id=item["master_key_id"],
        created_at=item["created_at"],
    )


def issuer_key(tenant: str) -> Item:
    """Return the key of the item with a tenant's own token issuer."""
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
    """Convert a stored item to a `TokenIssuer`."""
    return TokenIssuer(
        tenant=item["pk"].removeprefix(TENANT),
        issuer=item.get("issuer"),
        document=item["document"],
        updated_at=item["updated_at"],
    )


# Tenants.


def to_tenant_item(fact: TenantFact) -> Item:
    """Convert an exported tenant to its item."""
    quotas = {name: getattr(fact, f"quota_{name}") for name in Quotas.__struct_fields__}
    return tenant_item(converted(Tenant, fact, quotas=Quotas(**quotas)))


def to_tenant_fact(item: Item) -> TenantFact:
    """Convert a tenant's item to a fact for an export."""
    tenant = to_tenant(item)
    names = Quotas.__struct_fields__
    quotas = {f"quota_{name}": getattr(tenant.quotas, name) for name in names}
    return converted(TenantFact, tenant, **quotas)


def to_issuer_item(fact: IssuerFact) -> Item:
    """Convert an exported token issuer to its item.

    An issuer contains the public keys with which the tenant's own tokens are verified.
    """
    return issuer_item(converted(TokenIssuer, fact))


def to_issuer_fact(item: Item) -> IssuerFact:
    """Convert a token issuer's item to a fact for an export."""
    return converted(IssuerFact, to_issuer(item))


# Sessions.


def to_session_item(fact: SessionFact) -> Item:
    """Convert an exported session to its item."""
    return session_item(converted(Session, fact, user=fact.user_id, revoked_at=None))


async def session_facts(dynamo: Dynamo, now: int) -> AsyncIterator[list[SessionFact]]:
    """Yield all valid sessions for an export, in the order of their ids."""
    ids = await ids_of(dynamo, SCAN_SESSIONS, "session_id", _IS_VALID, {":now": now})
    for start in range(0, len(ids), BATCH_GET_MAX):
        keys = [{"session_id": session} for session in ids[start : start + BATCH_GET_MAX]]
        items = await dynamo.batch_get(EXPORT_SESSIONS, keys)
        sessions = sorted(map(to_session, items), key=lambda session: session.session_id)
        yield [converted(SessionFact, session, user_id=session.user) for session in sessions]


# Users.


def with_own_numbers(facts: Sequence[Written]) -> Iterator[Written]:
    """Yield the facts; if several users have the same phone number, only the first keeps it.

    This is decided here, because the facts of one batch are written concurrently, and the store
    would not know which user comes first.
    """
    taken: set[str] = set()
    for fact in facts:
        if isinstance(fact, UserFact) and fact.phone_number is not None:
            claim = claim_key(tenant_of(fact.user_id), fact.phone_number)["user_id"]
            yield msgspec.structs.replace(fact, phone_number=None) if claim in taken else fact
            taken.add(claim)
        else:
            yield fact


async def put_user(dynamo: Dynamo, fact: UserFact) -> None:
    """Write an imported user, without the phone number if it already belongs to another user."""
    fields = {name: getattr(fact, name) for name in fact.__struct_fields__}
    item: Item = {name: value for name, value in fields.items() if value is not None}
    if fact.phone_number is not None:
        claim = claim_item(tenant_of(fact.user_id), fact.phone_number, fact.user_id)
        is_free = "attribute_not_exists(#user_id) OR #owner = :owner"
        try:
            await dynamo.put(IMPORT_USER, claim, is_free, {":owner": fact.user_id})
        except ConditionFailed:
            del item["phone_number"]
    await dynamo.put(IMPORT_USER, item)
