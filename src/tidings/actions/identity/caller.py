# SPDX-License-Identifier: Apache-2.0
"""Who calls: root, a tenant or a user, and whose things each may touch."""

import logging

import msgspec

from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import Forbidden, TenantNotFound

log = logging.getLogger("tidings.identity")


class Root(msgspec.Struct, frozen=True):
    """The operator, who may do everything except act as a user."""


class TenantCaller(msgspec.Struct, frozen=True):
    """A tenant's own backend: everything of one tenant."""

    tenant: str
    key_id: str


class UserCaller(msgspec.Struct, frozen=True):
    """One user of one tenant."""

    user: UserKey
    device: str | None
    """The device the token is bound to; None if it is bound to none."""
    expires_at: int
    session: str | None = None
    """The session the token belongs to; None if it belongs to none."""
    issued_at: int = 0
    """When the token was made, in milliseconds, as fine as whole seconds."""
    key_id: str = ""
    """Of the key that signed it."""
    made_by: str | None = None
    """The tenant key with which it was asked for; None if it was not by one."""


Caller = Root | TenantCaller | UserCaller


def require_root(caller: Caller, tenant: str | None = None) -> None:
    """Refuse everyone but root: as not found whoever has nothing to do with the tenant.

    Raises:
        Forbidden: The caller belongs to the tenant, or there is none in question.
        TenantNotFound: The caller belongs to another tenant.
    """
    if isinstance(caller, Root):
        return
    if tenant is not None:
        _require_own(caller, tenant)
    raise Forbidden("this needs the root key")


def require_tenant(caller: Caller, tenant: str) -> None:
    """Refuse everyone but the tenant and root.

    Raises:
        Forbidden: The caller is a user of the tenant.
        TenantNotFound: The caller belongs to another tenant.
    """
    if isinstance(caller, Root):
        return
    _require_own(caller, tenant)
    if isinstance(caller, UserCaller):
        raise Forbidden("this needs a tenant key")


def require_user(caller: Caller) -> UserCaller:
    """The caller, who has to be a user: no key acts in a user's name.

    Raises:
        Forbidden: The caller is root or a tenant.
    """
    if isinstance(caller, UserCaller):
        return caller
    raise Forbidden("this needs a user token")


def _require_own(caller: TenantCaller | UserCaller, tenant: str) -> None:
    own = caller.tenant if isinstance(caller, TenantCaller) else tenant_of(caller.user)
    if own != tenant:
        log.warning(
            "refused across tenants",
            extra={"action": "cross_tenant", "tenant": own, "wanted": tenant},
        )
        raise TenantNotFound
