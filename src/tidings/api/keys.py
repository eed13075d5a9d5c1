# SPDX-License-Identifier: Apache-2.0
"""Operations on signing keys, a tenant's own public keys, the master key and data keys."""

from typing import Final

import msgspec

from tidings.actions.identity.caller import Caller, require_root
from tidings.actions.identity.json_web_keys import JsonWebKey, JsonWebKeySet
from tidings.actions.identity.signing_keys import SigningKeyRow
from tidings.actions.identity.tenants import check_tenant
from tidings.actions.identity.token_issuers import registered
from tidings.actions.verbs import JobVerbs
from tidings.api.callers import IdentityVerbs
from tidings.api.fields import IssuerKeys, Name, SecretVersion, TenantName
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Body, Query
from tidings.model.ids import rfc3339
from tidings.model.refusals import (
    Conflict,
    Invalid,
    KeyNotFound,
    LimitReached,
    StoreUnavailable,
    TenantNotFound,
    UserDeleted,
    UserNotFound,
)
from tidings.model.setup_error import SetupError
from tidings.model.webhook_secrets import shown_secret
from tidings.ports.people import TokenIssuer

KEYS_TAG: Final = "Keys"

TAG: Final = "Tokens"
PUBLISHED_SECONDS: Final = 300
"""How long clients and proxies may cache the public keys."""


class RotationRecord(msgspec.Struct):
    """A finished rotation: the id of the new master key, and how many secrets it now wraps."""

    master_key_id: str
    rewrapped: int


class ErasureRecord(msgspec.Struct):
    """The number of data keys that were destroyed; 0 if the user never wrote anything."""

    destroyed: int


class RotationRefused(Conflict):
    """There is no new master key, or a secret cannot be decrypted with the current one."""

    code, title = "keys.refused", "The master key cannot be rotated now"


@operation(
    "POST",
    "/v1/keys/rotate",
    tag=KEYS_TAG,
    summary="Rotate the master key",
    key="root",
    refusals=(RotationRefused,),
)
async def rotate_keys(caller: Caller, identity: IdentityVerbs) -> RotationRecord:
    """Replace the master key while the server runs. An interrupted rotation continues where it
    stopped."""
    require_root(caller)
    try:
        rotated = await identity.rotate_keys()
    except SetupError as reason:
        raise RotationRefused(str(reason)) from None
    return RotationRecord(rotated.master_key_id, rotated.secrets)


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/users/{user_id}/content",
    tag=KEYS_TAG,
    summary="Erase the content of a user",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound, UserDeleted),
)
async def erase_user_content(
    caller: Caller, tenant: str, user_id: str, identity: IdentityVerbs
) -> ErasureRecord:
    """Destroy the data key of a user: everything the user wrote becomes unreadable for good,
    and every message of the user shows `erased`. The user remains and can write again."""
    return ErasureRecord(await identity.erase_user_content(caller, tenant, user_id))


class TokenIssuerChange(Body, frozen=True):
    """Public keys as JSON Web Keys, and the value that tokens must have as `iss`. Without `issuer`,
    any value is allowed."""

    keys: IssuerKeys
    issuer: Name | None = None


class TokenIssuerRecord(msgspec.Struct):
    """The public keys that a tenant has registered."""

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
    """Return the registered public keys; 404 if there are none."""
    return _issuer_record(await identity.token_issuers.get(caller, tenant))


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
    """Replace all registered public keys. Tokens signed with a key that is removed or changed
    become invalid within five seconds, and their connections close."""
    put = await identity.token_issuers.put(caller, tenant, data.issuer, data.keys)
    return _issuer_record(put)


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
    """Remove all registered public keys. Tokens signed with them become invalid within five
    seconds, and their connections close."""
    await identity.token_issuers.remove(caller, tenant)


def _issuer_record(issuer: TokenIssuer) -> TokenIssuerRecord:
    return TokenIssuerRecord(issuer.issuer, registered(issuer), rfc3339(issuer.updated_at))


class SigningKeyRecord(msgspec.Struct):
    """A signing key. All keys of a tenant verify tokens, and one of them signs new tokens."""

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
    """Create a signing key, which signs from now on. Tokens of the previous key stay valid."""
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
    """Remove a key that is not the newest; the newest signs. Tokens signed with the removed key
    become invalid within five seconds, and their connections close."""
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
    """Return the public keys that verify a tenant's tokens, as a JSON Web Key Set; empty if there
    is no such tenant."""
    if asked.tenant is None:
        raise Invalid("tenant is missing")
    check_tenant(asked.tenant)
    keys = JsonWebKeySet(await identity.signing_keys.published(asked.tenant))
    return Answer(keys, headers={"Cache-Control": f"public, max-age={PUBLISHED_SECONDS}"})


class ReceiptKeyRecord(msgspec.Struct):
    """The key that signs receipts from now on."""

    key_id: str


@operation(
    "GET",
    "/.well-known/receipt-keys.json",
    tag=KEYS_TAG,
    summary="Get the public keys of receipts",
    key=None,
    refusals=(StoreUnavailable,),
)
async def get_receipt_keys(job_verbs: JobVerbs) -> Answer[JsonWebKeySet]:
    """Return the public keys that verify the receipts for deleted users, as a JSON Web Key Set:
    the key that signs now, and all earlier ones."""
    keys = JsonWebKeySet(await job_verbs.receipts.published())
    return Answer(keys, headers={"Cache-Control": f"public, max-age={PUBLISHED_SECONDS}"})


@operation(
    "POST",
    "/v1/receipt-keys",
    tag=KEYS_TAG,
    summary="Create a receipt key",
    key="root",
    statuses=(201,),
    audit=Audited(target="key_id"),
)
async def make_receipt_key(caller: Caller, job_verbs: JobVerbs) -> ReceiptKeyRecord:
    """Create a key that signs all receipts from now on. Earlier keys stay published, so that
    earlier receipts can still be verified."""
    require_root(caller)
    return ReceiptKeyRecord(await job_verbs.receipts.rotate())


def _record(row: SigningKeyRow) -> SigningKeyRecord:
    return SigningKeyRecord(row.key_id, rfc3339(row.created_at), row.signs)


class HookSecretQuery(Query, frozen=True):
    """Which secret to return: `secret_version` in the tenant's settings, or the next one."""

    version: SecretVersion = 1


class HookSecretRecord(msgspec.Struct):
    """A secret in the form of the Standard Webhooks specification."""

    secret: str
    version: int


@operation(
    "GET",
    "/v1/tenants/{tenant}/before-send/secret",
    tag=KEYS_TAG,
    summary="Get the secret of the before-send hook",
    key="tenant",
    refusals=(TenantNotFound,),
    audit=Audited(quoted=("version",)),
)
async def get_hook_secret(
    caller: Caller, tenant: str, asked: HookSecretQuery, identity: IdentityVerbs
) -> HookSecretRecord:
    """Return a secret that signs requests to the tenant's before-send hook. To replace it, read
    the next version and install it, then raise `secret_version` in the settings: each request is
    signed with this version and with the one before."""
    secret = await identity.hook_secret(caller, tenant, asked.version)
    return HookSecretRecord(shown_secret(secret), asked.version)


OPERATIONS: Final = (
    get_hook_secret,
    list_signing_keys,
    make_signing_key,
    remove_signing_key,
    get_published_keys,
    get_receipt_keys,
    make_receipt_key,
    get_token_issuer,
    put_token_issuer,
    remove_token_issuer,
    rotate_keys,
    erase_user_content,
)
