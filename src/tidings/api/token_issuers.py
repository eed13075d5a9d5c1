# SPDX-License-Identifier: Apache-2.0
"""The public keys of tenants that sign the tokens of their users themselves."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller
from tidings.actions.identity.json_web_keys import JsonWebKey
from tidings.actions.identity.token_issuers import registered
from tidings.api.callers import IdentityVerbs
from tidings.api.fields import IssuerKeys, Name
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model.refusals import KeyNotFound, TenantNotFound
from tidings.model.times import rfc3339
from tidings.ports.people import TokenIssuer

TAG: Final = "Tokens"


class TokenIssuerChange(Body, frozen=True):
    """Public keys as JSON Web Keys, and the required value of `iss`; without it any value is
    allowed."""

    keys: IssuerKeys
    issuer: Name | None = None


class TokenIssuerRecord(msgspec.Struct):
    """The keys that a tenant has registered."""

    issuer: str | None
    keys: list[JsonWebKey]
    updated_at: str


@operation(
    "GET",
    "/v1/tenants/{tenant}/token-issuer",
    tag=TAG,
    summary="Get the tenant's own keys",
    key="tenant",
    refusals=(TenantNotFound, KeyNotFound),
)
async def get_token_issuer(
    caller: Caller, tenant: str, identity: IdentityVerbs
) -> TokenIssuerRecord:
    """Return the registered keys; 404 while there are none."""
    return _record(await identity.token_issuers.get(caller, tenant))


@operation(
    "PUT",
    "/v1/tenants/{tenant}/token-issuer",
    tag=TAG,
    summary="Register the tenant's own keys",
    key="tenant",
    refusals=(TenantNotFound,),
)
async def put_token_issuer(
    caller: Caller, tenant: str, data: TokenIssuerChange, identity: IdentityVerbs
) -> TokenIssuerRecord:
    """Replace all registered keys. Within five seconds, tokens of keys that were left out or
    changed are no longer valid and their connections close."""
    put = await identity.token_issuers.put(caller, tenant, data.issuer, data.keys)
    return _record(put)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/token-issuer",
    tag=TAG,
    summary="Remove the tenant's own keys",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, KeyNotFound),
)
async def remove_token_issuer(caller: Caller, tenant: str, identity: IdentityVerbs) -> None:
    """Remove all registered keys. Within five seconds their tokens are no longer valid and their
    connections close."""
    await identity.token_issuers.remove(caller, tenant)


def _record(issuer: TokenIssuer) -> TokenIssuerRecord:
    return TokenIssuerRecord(issuer.issuer, registered(issuer), rfc3339(issuer.updated_at))


OPERATIONS: Final = (get_token_issuer, put_token_issuer, remove_token_issuer)
