# SPDX-License-Identifier: Apache-2.0
"""Checks a request's credentials and rate limits before its body is read."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec
from starlette.types import Scope

from tidings.actions.chat.before_send import GetHookSecret
from tidings.actions.content.rotation import RotateKeys
from tidings.actions.identity.authenticate import Authenticate
from tidings.actions.identity.bans import Bans
from tidings.actions.identity.caller import (
    Caller,
    Root,
    TenantCaller,
    UserCaller,
    require_tenant,
    require_user,
)
from tidings.actions.identity.profiles import GetProfile, LastSeen, ListProfiles, PatchProfile
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.signing_keys import SigningKeyVerbs
from tidings.actions.identity.tenants import (
    GetTenant,
    ListTenantKeys,
    ListTenants,
    MakeTenantKey,
    MakeToken,
    PutTenant,
    RevokeTenantKey,
)
from tidings.actions.identity.token_issuers import TokenIssuerVerbs
from tidings.actions.identity.users import EraseUserContent, GetUser, ListUsers, PutUser
from tidings.api.access import Access
from tidings.api.operations import Operation
from tidings.api.requests import check_no_query
from tidings.model.ids import TENANT
from tidings.model.refusals import Forbidden, TenantNotFound, Unauthenticated
from tidings.ports.store import (
    OPERATOR,
    Requester,
    set_requester,
    unknown_requester,
    user_requester,
)

Authenticating = Callable[[str], Awaitable[Caller]]
"""Returns the caller that a credential belongs to, or raises `Unauthenticated`."""


class IdentityVerbs(msgspec.Struct, frozen=True):
    """The verbs for tenants, their keys and their users."""

    authenticate: Authenticate
    bans: Bans
    put_tenant: PutTenant
    get_tenant: GetTenant
    quotas: TenantQuotas
    list_tenants: ListTenants
    list_tenant_keys: ListTenantKeys
    make_tenant_key: MakeTenantKey
    revoke_tenant_key: RevokeTenantKey
    put_user: PutUser
    list_users: ListUsers
    get_user: GetUser
    make_token: MakeToken
    signing_keys: SigningKeyVerbs
    token_issuers: TokenIssuerVerbs
    get_profile: GetProfile
    list_profiles: ListProfiles
    patch_profile: PatchProfile
    last_seen: LastSeen
    erase_user_content: EraseUserContent
    rotate_keys: RotateKeys
    hook_secret: GetHookSecret


class Guard:
    """Checks rate limits, credentials and the query of a request before its body is read."""

    def __init__(
        self, authenticate: Authenticating, access: Access, bans: Bans | None = None
    ) -> None:
        self._authenticate = authenticate
        self._access = access
        self._bans = bans

    async def admit(self, scope: Scope, operation: Operation | None) -> None:
        """Admit a request for an operation or a page, and set its caller as `user` in the scope.

        Raises:
            Refusal: The request is not admitted.
        """
        # This comes before the credentials, because checking them may cost a read of the store.
        await self._access.count_arrival(scope, operation)
        set_requester(unknown_requester(self.address(scope)))
        caller = await self._caller(scope, operation)
        if caller is not None:
            scope["user"] = caller
        await self._access.count(scope, operation, caller)
        if operation is None:
            return
        if caller is not None:
            set_requester(_requester(caller))
            _check_key(caller, operation, scope["path_params"])
            if operation.is_banned and isinstance(caller, UserCaller) and self._bans is not None:
                self._bans.check(caller.user)
        if operation.query is None:
            check_no_query(scope["query_string"])

    async def charge(self, scope: Scope, operation: Operation, body: object) -> None:
        """Charge the caller for the part of the cost that depends on the body.

        Raises:
            RateLimited: The caller's bucket has too few tokens left.
        """
        await self._access.count_body(scope, operation, scope.get("user"), body)

    def address(self, scope: Scope) -> str | None:
        """Return the address to which a client's rate limits apply; None if unknown or local."""
        return self._access.address(scope)

    async def _caller(self, scope: Scope, operation: Operation | None) -> Caller | None:
        if operation is None or operation.key is None:
            return None
        try:
            return await self._authenticate(bearer(scope))
        except Unauthenticated:
            await self._access.count_wrong(scope)
            raise


def _check_key(caller: Caller, operation: Operation, path: Mapping[str, str]) -> None:
    if isinstance(caller, Root) and not _may_exist(operation, path):
        raise TenantNotFound
    if operation.key == "user":
        require_user(caller)  # no key can act as a user
    elif operation.key == "tenant":
        # The handler checks this too, but only after the body was read, which can be large.
        require_tenant(caller, path["tenant"])
    elif operation.key == "user or tenant" and isinstance(caller, Root):
        # Root acts for the tenant in the path, and this path has none.
        raise Forbidden


def _may_exist(operation: Operation, path: Mapping[str, str]) -> bool:
    """Return False if no tenant can have the name in the path, which may be too long for a key in
    the store. Whoever creates a tenant learns what is wrong with the name."""
    is_created = (operation.method, operation.path) == ("PUT", "/v1/tenants/{tenant}")
    tenant = path.get("tenant")
    return is_created or tenant is None or TENANT.fullmatch(tenant) is not None


def _requester(caller: Caller) -> Requester:
    match caller:
        case UserCaller(user):
            return user_requester(user)
        case TenantCaller(tenant):
            return Requester(tenant)
        case Root():
            return OPERATOR


def bearer(scope: Scope) -> str:
    """Return the bearer credential of a request.

    Raises:
        Unauthenticated: The request has no credential, more than one, or one with another scheme.
    """
    given: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1:
        raise Unauthenticated
    scheme, _, credential = given[0].decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated
    return credential.strip(" ")
