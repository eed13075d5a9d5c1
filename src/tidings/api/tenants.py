# SPDX-License-Identifier: Apache-2.0
"""Operations on tenants, tenant keys and user tokens."""

from typing import Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller
from tidings.actions.identity.tenants import NewTenantKey
from tidings.actions.verbs import JobVerbs
from tidings.api.callers import IdentityVerbs
from tidings.api.fields import Device, Limit, Name, Quota, TokenSeconds, UserId
from tidings.api.jobs import JobRecord, job_record
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Body, Query
from tidings.model import limits
from tidings.model.ids import rfc3339
from tidings.model.refusals import (
    CursorInvalid,
    KeyNotFound,
    LimitReached,
    TenantDeleted,
    TenantNotFound,
    UserDeactivated,
    UserDeleted,
)
from tidings.ports.people import Quotas, Tenant, TenantKey

TAG: Final = "Tenants"


class QuotasChange(Body, frozen=True):
    """The quotas of a tenant, which replace all previous quotas. Absent or null means unlimited."""

    users: Quota | None = None
    chats_per_day: Quota | None = None
    messages_per_day: Quota | None = None
    attachment_bytes_per_day: Quota | None = None


class TenantChange(Body, frozen=True):
    """The name and quotas of a tenant, and whether it is suspended; absent fields do not change."""

    name: Name | None = None
    quotas: QuotasChange | None = None
    suspended: bool | None = None


class QuotasRecord(msgspec.Struct):
    """The quotas of a tenant; null means unlimited."""

    users: int | None
    chats_per_day: int | None
    messages_per_day: int | None
    attachment_bytes_per_day: int | None


class TenantRecord(msgspec.Struct):
    """A customer of this deployment. While it is suspended, its keys and tokens are not valid."""

    tenant: str
    name: str | None
    created_at: str
    suspended_at: str | None
    quotas: QuotasRecord


class UsedRecord(msgspec.Struct):
    """How much of its quotas a tenant has used: about how many users it has, and what it has made
    today (UTC). What has no limit is not counted, and is null."""

    users: int
    chats_per_day: int | None
    messages_per_day: int | None
    attachment_bytes_per_day: int | None


class TenantWithUse(TenantRecord):
    """A tenant, and how much of its quotas it has used."""

    used: UsedRecord


class ListQuery(Query, frozen=True):
    """Which part of a list to return."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class TenantList(msgspec.Struct):
    """A page of tenants; `next_cursor` is null on the last page."""

    data: list[TenantRecord]
    next_cursor: str | None


class TenantKeyRecord(msgspec.Struct):
    """A tenant key, without the key itself. A revoked key is not valid."""

    key_id: str
    created_at: str
    revoked_at: str | None


class TenantKeyList(msgspec.Struct):
    """A page of a tenant's keys; `next_cursor` is null on the last page."""

    data: list[TenantKeyRecord]
    next_cursor: str | None


class TokenRequest(Body, frozen=True):
    """The user of a token, its lifetime in seconds, and optionally the only device that may use
    it."""

    user_id: UserId
    device: Device | None = None
    expires_in: TokenSeconds = limits.TOKEN_SECONDS_DEFAULT


class TokenRecord(msgspec.Struct):
    """A user token and its expiry."""

    token: str
    expires_at: str


AS_BEFORE: Final = TenantChange()


@operation(
    "PUT",
    "/v1/tenants/{tenant}",
    tag=TAG,
    summary="Create or update a tenant",
    key="root",
    statuses=(200, 201),
    refusals=(TenantNotFound, TenantDeleted),
)
async def put_tenant(
    caller: Caller,
    tenant: str,
    identity: IdentityVerbs,
    data: TenantChange = AS_BEFORE,
) -> Answer[TenantRecord]:
    """Create or update a tenant; the status is 201 if it is new. Within five seconds after a
    suspension, every credential of the tenant is refused and its connections close."""
    quotas = None if data.quotas is None else Quotas(**msgspec.structs.asdict(data.quotas))
    put, is_new = await identity.put_tenant(caller, tenant, data.name, quotas, data.suspended)
    return Answer(_record(put), status=201 if is_new else 200)


@operation(
    "GET",
    "/v1/tenants/{tenant}",
    tag=TAG,
    summary="Get a tenant",
    key="tenant",
    refusals=(TenantNotFound,),
)
async def get_tenant(caller: Caller, tenant: str, identity: IdentityVerbs) -> TenantWithUse:
    """Return the name and quotas of a tenant, how much of them it has used, and whether it is
    suspended."""
    found = await identity.get_tenant(caller, tenant)
    used = await identity.quotas.used(found)
    return TenantWithUse(**msgspec.structs.asdict(_record(found)), used=UsedRecord(*used))


@operation(
    "GET",
    "/v1/tenants",
    tag=TAG,
    summary="List tenants",
    key="root",
    refusals=(CursorInvalid,),
    cost=lambda asked: rate_limits.look_up_cost(asked.limit),
)
async def list_tenants(caller: Caller, asked: ListQuery, identity: IdentityVerbs) -> TenantList:
    """Return all tenants, newest first."""
    page, cursor = await identity.list_tenants(caller, asked.cursor, asked.limit)
    return TenantList([_record(tenant) for tenant in page], cursor)


@operation(
    "GET",
    "/v1/tenants/{tenant}/keys",
    tag=TAG,
    summary="List tenant keys",
    key="tenant",
    refusals=(TenantNotFound, CursorInvalid),
    cost=lambda asked: rate_limits.look_up_cost(asked.limit),
)
async def list_tenant_keys(
    caller: Caller, tenant: str, asked: ListQuery, identity: IdentityVerbs
) -> TenantKeyList:
    """Return the ids of a tenant's keys, newest first, including revoked keys. The keys
    themselves are stored nowhere."""
    page, cursor = await identity.list_tenant_keys(caller, tenant, asked.cursor, asked.limit)
    return TenantKeyList([_key_record(key) for key in page], cursor)


@operation(
    "POST",
    "/v1/tenants/{tenant}/keys",
    tag=TAG,
    summary="Create a tenant key",
    key="root",
    statuses=(201,),
    refusals=(TenantNotFound,),
    audit=Audited(target="key_id"),
)
async def make_tenant_key(caller: Caller, tenant: str, identity: IdentityVerbs) -> NewTenantKey:
    """Create a tenant key. Only this answer contains the key; the server stores a digest of it."""
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
    caller: Caller, tenant: str, key_id: str, identity: IdentityVerbs
) -> None:
    """Revoke a tenant key. Later requests with the key are refused."""
    await identity.revoke_tenant_key(caller, tenant, key_id)


@operation(
    "POST",
    "/v1/tenants/{tenant}/tokens",
    tag=TAG,
    summary="Create a user token",
    key="tenant",
    statuses=(201,),
    refusals=(TenantNotFound, LimitReached, UserDeactivated, UserDeleted),
    audit=Audited(target="user_id", is_frequent=True),
)
async def make_token(
    caller: Caller, tenant: str, data: TokenRequest, identity: IdentityVerbs
) -> TokenRecord:
    """Create a user token. If the user does not exist, this creates the user."""
    made = await identity.make_token(caller, tenant, data.user_id, data.device, data.expires_in)
    return TokenRecord(made.token, rfc3339(made.expires_at))


def _record(tenant: Tenant) -> TenantRecord:
    return TenantRecord(
        tenant.tenant,
        tenant.name,
        rfc3339(tenant.created_at),
        None if tenant.suspended_at is None else rfc3339(tenant.suspended_at),
        QuotasRecord(*msgspec.structs.astuple(tenant.quotas)),
    )


def _key_record(key: TenantKey) -> TenantKeyRecord:
    revoked_at = None if key.revoked_at is None else rfc3339(key.revoked_at)
    return TenantKeyRecord(key.key_id, rfc3339(key.created_at), revoked_at)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}",
    tag=TAG,
    summary="Delete a tenant",
    key="root",
    statuses=(202,),
    refusals=(TenantNotFound,),
)
async def delete_tenant(caller: Caller, tenant: str, job_verbs: JobVerbs) -> JobRecord:
    """Delete a tenant with everything that belongs to it, for good. After the answer the tenant is
    suspended, and a job deletes its chats, users, inboxes and keys. A repeated request returns the
    job with its progress."""
    return job_record(await job_verbs.delete_tenant(caller, tenant))


OPERATIONS: Final = (
    delete_tenant,
    list_tenants,
    put_tenant,
    get_tenant,
    list_tenant_keys,
    make_tenant_key,
    revoke_tenant_key,
    make_token,
)
