# SPDX-License-Identifier: Apache-2.0
"""The public keys with which a tenant signs its users' tokens itself."""

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
    """Public keys as JSON Web Keys, and what `iss` has to say; without one it may say anything."""

    keys: IssuerKeys
    issuer: Name | None = None


class TokenIssuerRecord(msgspec.Struct):
    """What a tenant has registered."""

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
    """404 while none are registered."""
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
    """In place of all that were there. Tokens of those left out, or changed, count no more, and
    their sockets close, within five seconds."""
    put = await identity.token_issuers.put(caller, tenant, data.issuer, data.keys)
    return _record(put)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/token-issuer",
    tag=TAG,
    summary="Take the tenant's own keys away",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, KeyNotFound),
)
async def remove_token_issuer(caller: Caller, tenant: str, identity: IdentityVerbs) -> None:
    """Tokens they signed count no more, and their sockets close, within five seconds."""
    await identity.token_issuers.remove(caller, tenant)


def _record(issuer: TokenIssuer) -> TokenIssuerRecord:
    return TokenIssuerRecord(issuer.issuer, registered(issuer), rfc3339(issuer.updated_at))


OPERATIONS: Final = (get_token_issuer, put_token_issuer, remove_token_issuer)
