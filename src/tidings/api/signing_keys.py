# SPDX-License-Identifier: Apache-2.0
"""The keys that sign a tenant's user tokens: list, create, remove and publish."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller
from tidings.actions.identity.json_web_keys import JsonWebKeySet
from tidings.actions.identity.signing_keys import SigningKeyRow
from tidings.actions.identity.tenants import check_tenant
from tidings.api.callers import IdentityVerbs
from tidings.api.fields import TenantName
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Query
from tidings.model.refusals import (
    Conflict,
    Invalid,
    KeyNotFound,
    LimitReached,
    StoreUnavailable,
    TenantNotFound,
)
from tidings.model.times import rfc3339

TAG: Final = "Tokens"
PUBLISHED_SECONDS: Final = 300
"""How long anybody may cache the public keys."""


class SigningKeyRecord(msgspec.Struct):
    """A signing key: all of a tenant's keys verify tokens, one of them signs."""

    key_id: str
    created_at: str
    signs: bool


class SigningKeyList(msgspec.Struct):
    """A tenant's signing keys, newest first."""

    data: list[SigningKeyRecord]


class PublishedQuery(Query, frozen=True):
    """The tenant whose keys to return."""

    tenant: TenantName | None = None


@operation(
    "GET",
    "/v1/tenants/{tenant}/signing-keys",
    tag=TAG,
    summary="List signing keys",
    key="tenant",
    refusals=(TenantNotFound,),
)
async def list_signing_keys(caller: Caller, tenant: str, identity: IdentityVerbs) -> SigningKeyList:
    """Return the signing keys, newest first; the first one signs."""
    rows = await identity.signing_keys.all(caller, tenant)
    return SigningKeyList([_record(row) for row in rows])


@operation(
    "POST",
    "/v1/tenants/{tenant}/signing-keys",
    tag=TAG,
    summary="Create a signing key",
    key="tenant",
    statuses=(201,),
    refusals=(TenantNotFound, LimitReached),
    audit=Audited(target="key_id"),
)
async def make_signing_key(
    caller: Caller, tenant: str, identity: IdentityVerbs
) -> SigningKeyRecord:
    """Create a key that signs from now on. Tokens signed with the previous key stay valid."""
    return _record(await identity.signing_keys.make(caller, tenant))


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/signing-keys/{signing_key_id}",
    tag=TAG,
    summary="Remove an old signing key",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, KeyNotFound, Conflict),
)
async def remove_signing_key(
    caller: Caller, tenant: str, signing_key_id: str, identity: IdentityVerbs
) -> None:
    """Remove a key that no longer signs. Within five seconds its tokens are no longer valid and
    their connections close."""
    await identity.signing_keys.remove(caller, tenant, signing_key_id)


@operation(
    "GET",
    "/.well-known/jwks.json",
    tag=TAG,
    summary="Get the public keys of a tenant",
    key=None,
    refusals=(StoreUnavailable,),
)
async def get_published_keys(
    asked: PublishedQuery, identity: IdentityVerbs
) -> Answer[JsonWebKeySet]:
    """Return the public keys as a JSON Web Key Set, for verifying our tokens; empty if there is
    no such tenant."""
    if asked.tenant is None:
        raise Invalid("tenant is missing")
    check_tenant(asked.tenant)
    keys = JsonWebKeySet(await identity.signing_keys.published(asked.tenant))
    return Answer(keys, headers={"Cache-Control": f"public, max-age={PUBLISHED_SECONDS}"})


def _record(row: SigningKeyRow) -> SigningKeyRecord:
    return SigningKeyRecord(row.key_id, rfc3339(row.created_at), row.signs)


OPERATIONS: Final = (list_signing_keys, make_signing_key, remove_signing_key, get_published_keys)
