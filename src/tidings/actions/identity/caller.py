# SPDX-License-Identifier: Apache-2.0
"""The three kinds of callers (root, tenant and user), and the checks of their access."""

import logging

import msgspec

from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import Forbidden, TenantNotFound
from tidings.ports.people import Tenants

log = logging.getLogger("tidings.identity")


class Root(msgspec.Struct, frozen=True):
    """The operator, who may do everything except act as a user."""


class TenantCaller(msgspec.Struct, frozen=True):
    """A tenant's backend, which may access everything that belongs to this tenant."""

    tenant: str
    key_id: str


class UserCaller(msgspec.Struct, frozen=True):
    """One user of one tenant."""

    user: UserKey
    device: str | None
    """The device that the token is bound to, if any."""
    expires_at: int
    session: str | None = None
    """The session that the token belongs to, if any."""
    issued_at: int = 0
    """Issue time of the token in milliseconds, with a resolution of one second."""
    key_id: str = ""
    """Id of the key that signed the token."""
    made_by: str | None = None
    """The tenant key that requested the token, if any."""


Caller = Root | TenantCaller | UserCaller


def require_root(caller: Caller, tenant: str | None = None) -> None:
    """Refuse every caller except root. Callers of other tenants do not learn if `tenant` exists.

    Raises:
        Forbidden: The caller belongs to `tenant`, or `tenant` is None.
        TenantNotFound: The caller belongs to another tenant.
    """
    if isinstance(caller, Root):
        return
    if tenant is not None:
        _require_own(caller, tenant)
    raise Forbidden("this requires the root key")


def require_tenant(caller: Caller, tenant: str) -> None:
    """Refuse every caller except root and the tenant itself.

    Raises:
        Forbidden: The caller is a user of the tenant.
        TenantNotFound: The caller belongs to another tenant.
    """
    if isinstance(caller, Root):
        return
    _require_own(caller, tenant)
    if isinstance(caller, UserCaller):
        raise Forbidden("this requires a tenant key")


async def listing_owner(tenants: Tenants, caller: Caller, tenant: str) -> UserKey:
    """Check that the caller is root or the tenant; return the key to which the cursors of the
    tenant's lists are bound.

    Raises:
        TenantNotFound: There is no such tenant, or it is not the caller's.
    """
    require_tenant(caller, tenant)
    if await tenants.get(tenant) is None:
        raise TenantNotFound
    return UserKey(tenant)


def require_user(caller: Caller) -> UserCaller:
    """Return the caller if it is a user. Root and tenant keys cannot act on behalf of a user.

    Raises:
        Forbidden: The caller is root or a tenant.
    """
    if isinstance(caller, UserCaller):
        return caller
    raise Forbidden("this requires a user token")


def _require_own(caller: TenantCaller | UserCaller, tenant: str) -> None:
    own = caller.tenant if isinstance(caller, TenantCaller) else tenant_of(caller.user)
    if own != tenant:
        log.warning(
            "request for another tenant refused",
            extra={"action": "cross_tenant", "tenant": own, "wanted": tenant},
        )
        raise TenantNotFound
