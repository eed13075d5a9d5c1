# SPDX-License-Identifier: Apache-2.0
"""Who calls: taken from `Authorization: Bearer`, checked before anything of a request is read."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler
from litestar.types import Scope

from tidings.actions.authenticating import Authenticate
from tidings.actions.identity import (
    Caller,
    Root,
    TenantCaller,
    UserCaller,
    require_tenant,
    require_user,
)
from tidings.actions.rotate_keys import RotateKeys
from tidings.actions.signing_key_making import SigningKeyVerbs
from tidings.actions.tenants import (
    GetTenant,
    MakeTenantKey,
    MakeToken,
    PutTenant,
    RevokeTenantKey,
)
from tidings.actions.token_issuers import TokenIssuerVerbs
from tidings.actions.users import EraseUserContent, GetProfile, PatchProfile, PutUser
from tidings.api.access import Access
from tidings.api.large_bodies import LargeBodies
from tidings.api.operations import Operation
from tidings.api.problems import MethodNotAllowed
from tidings.api.requests import check_no_query, check_path
from tidings.model.ids import UserKey
from tidings.model.refusals import Unauthenticated
from tidings.ports.requesters import (
    OPERATOR,
    Requester,
    set_requester,
    unknown_requester,
    user_requester,
)

Connection = ASGIConnection[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class IdentityVerbs:
    """All that concerns tenants, their keys and their users, in one typed bundle."""

    authenticate: Authenticate
    put_tenant: PutTenant
    get_tenant: GetTenant
    make_tenant_key: MakeTenantKey
    revoke_tenant_key: RevokeTenantKey
    put_user: PutUser
    make_token: MakeToken
    signing_keys: SigningKeyVerbs
    token_issuers: TokenIssuerVerbs
    get_profile: GetProfile
    patch_profile: PatchProfile
    erase_user_content: EraseUserContent
    rotate_keys: RotateKeys


def make_guard(
    authenticate: Authenticate,
    access: Access,
    methods: Mapping[str, Sequence[str]],
    large_bodies: LargeBodies,
) -> Callable[[Connection, BaseRouteHandler], Awaitable[None]]:
    """What every request passes first: its path, its credentials, and no query if none is known.

    `methods` are those of each path. OPTIONS, which the framework would answer, is not one.
    """

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        operation: Operation | None = handler.opt.get("operation")
        may_end_in_slash = operation is not None and operation.path.endswith("/")
        check_path(connection.scope, may_end_in_slash=may_end_in_slash)
        if connection.scope.get("method") == "OPTIONS":
            raise MethodNotAllowed(methods[connection.scope["path_template"]])
        # Before the credentials, which cost a read of the store if they are new here.
        await access.count_arrival(connection.scope, operation)
        set_requester(unknown_requester(access.address(connection.scope)))
        caller = None
        if operation is not None and operation.key is not None:
            try:
                caller = await authenticate(bearer(connection.scope))
            except Unauthenticated:
                await access.count_wrong(connection.scope)
                raise
        await access.count(connection.scope, operation, caller)
        if caller is not None:
            set_requester(_requester(caller))
        if operation is None:
            return
        if caller is not None:
            if operation.key == "user":
                require_user(caller)  # no key acts in a user's name
            elif operation.key == "tenant":
                # Here and not only by the handler, which is called when the body is read: nobody
                # else makes us read one that may be large.
                require_tenant(caller, connection.path_params["tenant"])
            connection.scope["user"] = caller
        if operation.query is None:
            check_no_query(connection.scope["query_string"])
        if operation.key == "tenant":
            tenant = connection.path_params["tenant"]
            await large_bodies.enter(connection.scope, operation.body_bytes_max, tenant)

    return guard


def _requester(caller: Caller) -> Requester:
    match caller:
        case UserCaller(user):
            return user_requester(user)
        case TenantCaller(tenant):
            return Requester(tenant)
        case Root():
            return OPERATOR


def bearer(scope: Scope) -> str:
    """The one bearer credential of a request.

    Raises:
        Unauthenticated: There is none, or more than one, or of another scheme.
    """
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1:
        raise Unauthenticated
    scheme, _, credential = given[0].decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated
    return credential.strip(" ")


async def caller(request: Request[Caller, object, State]) -> Caller:
    """Whoever the guard let in."""
    return request.user


async def user(request: Request[Caller, object, State]) -> UserKey:
    """The calling user."""
    return require_user(request.user).user
