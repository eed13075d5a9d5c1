# SPDX-License-Identifier: Apache-2.0
"""Tenants: making them, their keys, and the tokens they give to their users."""

from typing import Final

import msgspec
from litestar import Response
from litestar.params import FromPath, JSONBody

from tidings.actions.tenants import NewTenantKey
from tidings.api.fields import Device, Name, TokenSeconds, UserId
from tidings.api.injected import Caller, Identity
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model import limits
from tidings.model.refusals import KeyNotFound, TenantNotFound
from tidings.model.times import rfc3339

TAG: Final = "Tenants"


class TenantChange(Body, frozen=True):
    """What a tenant is called; absent: as before."""

    name: Name | None = None


class TenantRecord(msgspec.Struct):
    """A customer of this deployment."""

    tenant: str
    name: str | None
    created_at: str


class TokenRequest(Body, frozen=True):
    """Whom a token is for, on which device if on one only, and for how many seconds."""

    user_id: UserId
    device: Device | None = None
    expires_in: TokenSeconds = limits.TOKEN_SECONDS_DEFAULT


class TokenRecord(msgspec.Struct):
    """A user token and when it ends."""

    token: str
    expires_at: str


SAME_NAME: Final = TenantChange()


@operation(
    "PUT",
    "/v1/tenants/{tenant}",
    tag=TAG,
    summary="Create or update a tenant",
    key="root",
    statuses=(200, 201),
    refusals=(TenantNotFound,),
)
async def put_tenant(
    caller: Caller,
    tenant: FromPath[str],
    identity: Identity,
    data: JSONBody[TenantChange] = SAME_NAME,
) -> Response[TenantRecord]:
    """201 if it is new."""
    put, is_new = await identity.put_tenant(caller, tenant, data.name)
    record = TenantRecord(put.tenant, put.name, rfc3339(put.created_at))
    return Response(record, status_code=201 if is_new else 200)


@operation(
    "POST",
    "/v1/tenants/{tenant}/keys",
    tag=TAG,
    summary="Make a tenant key",
    key="root",
    statuses=(201,),
    refusals=(TenantNotFound,),
)
async def make_tenant_key(
    caller: Caller, tenant: FromPath[str], identity: Identity
) -> NewTenantKey:
    """The key is shown this once; what is kept is its digest."""
    return await identity.make_tenant_key(caller, tenant)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/keys/{key_id}",
    tag=TAG,
    summary="Revoke a tenant key",
    key="root",
    statuses=(204,),
    refusals=(TenantNotFound, KeyNotFound),
)
async def revoke_tenant_key(
    caller: Caller, tenant: FromPath[str], key_id: FromPath[str], identity: Identity
) -> None:
    """It is refused from the next request on."""
    await identity.revoke_tenant_key(caller, tenant, key_id)


@operation(
    "POST",
    "/v1/tenants/{tenant}/tokens",
    tag=TAG,
    summary="Make a user token",
    key="tenant",
    statuses=(201,),
    refusals=(TenantNotFound,),
)
async def make_token(
    caller: Caller, tenant: FromPath[str], data: JSONBody[TokenRequest], identity: Identity
) -> TokenRecord:
    """The user is created if there is none."""
    made = await identity.make_token(caller, tenant, data.user_id, data.device, data.expires_in)
    return TokenRecord(made.token, rfc3339(made.expires_at))


HANDLERS: Final = (put_tenant, make_tenant_key, revoke_tenant_key, make_token)
