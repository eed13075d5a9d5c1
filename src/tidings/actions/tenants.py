# SPDX-License-Identifier: Apache-2.0
"""Tenants: making them, their keys, and the tokens they give to their users."""

from dataclasses import dataclass

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidings.actions.identity import Caller, new_tenant_key, require_root, require_tenant
from tidings.actions.tokens import SigningKeys, Token, new_key_id, sign
from tidings.actions.users import check_user_id, check_visible_text, ensure_user
from tidings.actions.wrapping import Wrapping, signing_key_purpose
from tidings.model import limits
from tidings.model.ids import DEVICE, TENANT, user_key
from tidings.model.refusals import Invalid, KeyNotFound, TenantNotFound
from tidings.ports.people import SigningKey, Tenant, TenantKey, Tenants, Users
from tidings.ports.world import Chance, Clock


class NewTenantKey(msgspec.Struct, frozen=True):
    """A tenant key, shown this once."""

    key_id: str
    key: str


class NewToken(msgspec.Struct, frozen=True):
    """A user token and when it ends."""

    token: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class PutTenant:
    """Create a tenant, or give it another name."""

    tenants: Tenants
    signing: SigningKeys
    wrapping: Wrapping
    clock: Clock
    chance: Chance

    async def __call__(self, caller: Caller, tenant: str, name: str | None) -> tuple[Tenant, bool]:
        """The tenant as it is now, and whether it is new. A name of None changes nothing."""
        require_root(caller, tenant)
        if TENANT.fullmatch(tenant) is None:
            raise Invalid("tenant: 1 to 40 of a-z 0-9 -, not beginning with -", "/tenant")
        if name is not None:
            check_visible_text("name", name)
        put = await self._put(tenant, name)
        self.signing.forget(tenant)
        return put

    async def _put(self, tenant: str, name: str | None) -> tuple[Tenant, bool]:
        now = self.clock.now()
        key_id = new_key_id(tenant, self.chance)
        secret = self.chance.token(32)
        public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        return await self.wrapping.keep(
            signing_key_purpose(key_id),
            secret,
            lambda master_key_id, sealed: self.tenants.put(
                Tenant(tenant=tenant, name=name, created_at=now),
                SigningKey(
                    key_id=key_id,
                    tenant=tenant,
                    public=public,
                    sealed_private=sealed,
                    master_key_id=master_key_id,
                    created_at=now,
                ),
            ),
        )


@dataclass(frozen=True, slots=True)
class MakeTenantKey:
    """Make a key for a tenant. It is shown once; kept is only its digest."""

    tenants: Tenants
    clock: Clock
    chance: Chance

    async def __call__(self, caller: Caller, tenant: str) -> NewTenantKey:
        """The new key."""
        require_root(caller, tenant)
        key_id, key, digest = new_tenant_key(self.chance)
        kept = await self.tenants.add_key(
            TenantKey(key_id=key_id, tenant=tenant, digest=digest, created_at=self.clock.now())
        )
        if not kept:
            raise TenantNotFound
        return NewTenantKey(key_id, key)


@dataclass(frozen=True, slots=True)
class RevokeTenantKey:
    """Make a tenant key useless, from the next call on."""

    tenants: Tenants
    clock: Clock

    async def __call__(self, caller: Caller, tenant: str, key_id: str) -> None:
        """Revoke the key."""
        require_root(caller, tenant)
        if not await self.tenants.revoke_key(tenant, key_id, self.clock.now()):
            raise KeyNotFound


@dataclass(frozen=True, slots=True)
class MakeToken:
    """Make a token for a user, who is created if there is none."""

    users: Users
    signing: SigningKeys
    clock: Clock

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        user_id: str,
        device: str | None = None,
        expires_in: int = limits.TOKEN_SECONDS_DEFAULT,
    ) -> NewToken:
        """The token."""
        require_tenant(caller, tenant)
        check_user_id(user_id)
        if device is not None and DEVICE.fullmatch(device) is None:
            raise Invalid("device: 1 to 64 of A-Z a-z 0-9 . _ @ + -", "/device")
        if not 1 <= expires_in <= limits.TOKEN_SECONDS_MAX:
            raise Invalid(f"expires_in: 1 to {limits.TOKEN_SECONDS_MAX} seconds", "/expires_in")
        key_id, key = await self.signing.signer(tenant)
        now = self.clock.now()
        user = user_key(tenant, user_id)
        await ensure_user(self.users, user, now)
        # Rounded up to the second, which is as fine as a token's times are.
        expires_at = -(-now // limits.SECOND_MS) + expires_in
        token = Token(user, device, expires_at * limits.SECOND_MS)
        return NewToken(sign(key_id, key, token, now), token.expires_at)
