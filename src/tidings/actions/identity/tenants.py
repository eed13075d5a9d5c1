# SPDX-License-Identifier: Apache-2.0
"""Create and change tenants, their keys, and the tokens that they request for their users."""

from typing import Final

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.authenticate import TENANT_KEY_ID, new_tenant_key
from tidings.actions.identity.caller import (
    Caller,
    TenantCaller,
    listing_owner,
    require_root,
    require_tenant,
)
from tidings.actions.identity.quotas import TenantQuotas
from tidings.actions.identity.signing_keys import SigningKeyMaker, SigningKeys
from tidings.actions.identity.tokens import Token, issue_time, sign
from tidings.actions.identity.users import (
    check_device,
    check_user_id,
    check_visible_text,
    ensure_user,
)
from tidings.model import limits
from tidings.model.ids import TENANT, UserKey, user_key
from tidings.model.refusals import (
    Invalid,
    KeyNotFound,
    TenantNotFound,
    UserDeactivated,
    UserDeleted,
)
from tidings.ports.people import Quotas, Tenant, TenantKey, Tenants, UserStore
from tidings.ports.sessions import Sessions
from tidings.ports.world import Chance, Clock

_DEPLOYMENT: Final = UserKey("")
"""Owner of cursors that belong to no tenant."""


class NewTenantKey(msgspec.Struct, frozen=True):
    """A new tenant key. It is shown only this once."""

    key_id: str
    key: str


class NewToken(msgspec.Struct, frozen=True):
    """A user token and its expiry."""

    token: str
    expires_at: int


class PutTenant(msgspec.Struct, frozen=True):
    """Create a tenant, change its name or quotas, suspend it or resume it."""

    tenants: Tenants
    signing: SigningKeys
    maker: SigningKeyMaker
    clock: Clock

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        name: str | None,
        quotas: Quotas | None = None,
        is_suspended: bool | None = None,
    ) -> tuple[Tenant, bool]:
        """Create or change the tenant; return the stored tenant, and whether it is new.

        An argument of None leaves the field unchanged.
        """
        require_root(caller, tenant)
        check_tenant(tenant)
        if name is not None:
            check_visible_text("name", name)
        found, is_new = await self._put(tenant, name)
        self.signing.forget(tenant)
        if quotas is not None:
            found = await self.tenants.set_quotas(tenant, quotas) or found
        if is_suspended is not None:
            now = self.clock.now()
            found = await self.tenants.set_suspended(tenant, is_suspended, now) or found
        return found, is_new

    async def _put(self, tenant: str, name: str | None) -> tuple[Tenant, bool]:
        wanted = Tenant(tenant=tenant, name=name, created_at=self.clock.now())
        return await self.maker.make(
            tenant, wanted.created_at, lambda key: self.tenants.put(wanted, key)
        )


class GetTenant(msgspec.Struct, frozen=True):
    """Look up a tenant."""

    tenants: Tenants

    async def __call__(self, caller: Caller, tenant: str) -> Tenant:
        """Return the tenant."""
        require_tenant(caller, tenant)
        found = await self.tenants.get(tenant)
        if found is None or found.deleted_at is not None:
            raise TenantNotFound
        return found


class ListTenants(msgspec.Struct, frozen=True):
    """List the tenants of the deployment."""

    tenants: Tenants
    cursors: Cursors

    async def __call__(
        self, caller: Caller, cursor: str | None, limit: int
    ) -> tuple[list[Tenant], str | None]:
        """Return a page of tenants, newest first, and the cursor of the next page."""
        require_root(caller)
        below = self.cursors.position("tenants", _DEPLOYMENT, cursor)
        page = await self.tenants.newest(below=below, limit=limit)
        return page.rows, self.cursors.after("tenants", _DEPLOYMENT, page.end)


class ListTenantKeys(msgspec.Struct, frozen=True):
    """List the tenant keys of a tenant, including revoked keys."""

    tenants: Tenants
    cursors: Cursors

    async def __call__(
        self, caller: Caller, tenant: str, cursor: str | None, limit: int
    ) -> tuple[list[TenantKey], str | None]:
        """Return a page of tenant keys, newest first, and the cursor of the next page."""
        owner = await listing_owner(self.tenants, caller, tenant)
        below = self.cursors.position("tenant keys", owner, cursor)
        page = await self.tenants.newest_keys(tenant, below=below, limit=limit)
        return page.rows, self.cursors.after("tenant keys", owner, page.end)


class MakeTenantKey(msgspec.Struct, frozen=True):
    """Make a tenant key, which is shown once; only its digest is stored."""

    tenants: Tenants
    clock: Clock
    chance: Chance

    async def __call__(self, caller: Caller, tenant: str) -> NewTenantKey:
        """Return the new tenant key."""
        require_root(caller, tenant)
        key_id, key, digest = new_tenant_key(self.chance)
        is_added = await self.tenants.add_key(
            TenantKey(key_id=key_id, tenant=tenant, digest=digest, created_at=self.clock.now())
        )
        if not is_added:
            raise TenantNotFound
        return NewTenantKey(key_id, key)


class RevokeTenantKey(msgspec.Struct, frozen=True):
    """Revoke a tenant key, so that the next request with it is refused."""

    tenants: Tenants
    clock: Clock

    async def __call__(self, caller: Caller, tenant: str, key_id: str) -> None:
        """Revoke the tenant key with this id."""
        require_root(caller, tenant)
        may_exist = TENANT_KEY_ID.fullmatch(key_id) is not None
        if not may_exist or not await self.tenants.revoke_key(tenant, key_id, self.clock.now()):
            raise KeyNotFound


class MakeToken(msgspec.Struct, frozen=True):
    """Make a token for a user; create the user if there is none yet."""

    users: UserStore
    sessions: Sessions
    signing: SigningKeys
    clock: Clock
    quotas: TenantQuotas | None = None

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        user_id: str,
        device: str | None = None,
        expires_in: int = limits.TOKEN_SECONDS_DEFAULT,
    ) -> NewToken:
        """Return the token.

        Raises:
            UserDeactivated: The user is deactivated, so a token would not be valid.
            UserDeleted: The user is deleted.
            TenantNotFound: There is no such tenant.
        """
        require_tenant(caller, tenant)
        check_user_id(user_id)
        if device is not None:
            check_device(device)
        if not 1 <= expires_in <= limits.TOKEN_SECONDS_MAX:
            raise Invalid(
                f"expires_in must be between 1 and {limits.TOKEN_SECONDS_MAX}", "/expires_in"
            )
        key_id, key = await self.signing.signer(tenant)
        now = self.clock.now()
        user = user_key(tenant, user_id)
        stored_credentials = await self.sessions.stored_credentials(user, None)
        if stored_credentials.deleted_at is not None:
            raise UserDeleted
        if stored_credentials.deactivated_at is not None:
            raise UserDeactivated
        if not stored_credentials.is_known:
            await ensure_user(self.users, user, now, self.quotas)
        token = Token(
            user=user,
            device=device,
            issued_at=issue_time(now, stored_credentials.revoked_at),
            # Rounded up to whole seconds, the resolution of the times in a token.
            expires_at=(-(-now // limits.SECOND_MS) + expires_in) * limits.SECOND_MS,
            key_id=key_id,
            made_by=caller.key_id if isinstance(caller, TenantCaller) else None,
        )
        return NewToken(sign(key, token), token.expires_at)


def check_tenant(tenant: str) -> None:
    """Refuse a text that is not a tenant id."""
    if TENANT.fullmatch(tenant) is None:
        raise Invalid(
            "tenant must be 1 to 40 characters of a-z 0-9 -, not starting with -", "/tenant"
        )
