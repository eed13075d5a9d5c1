# SPDX-License-Identifier: Apache-2.0
"""Making signing keys, listing them, and taking old ones away."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidings.actions.identity import Caller, require_tenant
from tidings.actions.json_web_keys import JsonWebKey, ed25519_key
from tidings.actions.signing_keys import KEY_ID, SigningKeys, new_key_id
from tidings.actions.wrapping import Wrapping, signing_key_purpose
from tidings.model import limits
from tidings.model.refusals import Conflict, KeyNotFound, LimitReached, TenantNotFound
from tidings.ports.people import SigningKey, Tenants
from tidings.ports.world import Chance, Clock

T = TypeVar("T")


class SigningKeyRow(msgspec.Struct, frozen=True):
    """A signing key, without the key itself."""

    key_id: str
    created_at: int
    signs: bool
    """Whether new tokens are signed with it; all verify."""


@dataclass(frozen=True, slots=True)
class SigningKeyMaker:
    """Makes the keys; the private half is never kept bare."""

    wrapping: Wrapping
    chance: Chance

    async def make(self, tenant: str, now: int, store: Callable[[SigningKey], Awaitable[T]]) -> T:
        """Make a key and have it stored; returns what storing it returned."""
        key_id = new_key_id(tenant, self.chance)
        secret = self.chance.token(32)
        public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()

        async def keep(master_key_id: str, sealed: bytes) -> T:
            return await store(
                SigningKey(
                    key_id=key_id,
                    tenant=tenant,
                    public=public,
                    sealed_private=sealed,
                    master_key_id=master_key_id,
                    created_at=now,
                )
            )

        return await self.wrapping.keep(signing_key_purpose(key_id), secret, keep)


@dataclass(frozen=True, slots=True)
class SigningKeyVerbs:
    """What a tenant does with the keys that sign its users' tokens."""

    tenants: Tenants
    signing: SigningKeys
    maker: SigningKeyMaker
    clock: Clock

    async def all(self, caller: Caller, tenant: str) -> list[SigningKeyRow]:
        """The tenant's keys, newest first: the first one signs."""
        require_tenant(caller, tenant)
        return await self._rows(tenant)

    async def make(self, caller: Caller, tenant: str) -> SigningKeyRow:
        """Another key, which signs from now on; tokens of the one before still count.

        Raises:
            LimitReached: There are as many as there may be: take an old one away first.
            TenantNotFound: No such tenant.
        """
        require_tenant(caller, tenant)
        newest = (await self._rows(tenant))[0]
        # Never older than the one before, whatever the clock says: the newest one signs.
        now = max(self.clock.now(), newest.created_at + 1)
        made: list[SigningKey] = []

        async def add(key: SigningKey) -> bool:
            made.append(key)
            return await self.tenants.add_signing_key(key, limits.SIGNING_KEYS_MAX)

        if not await self.maker.make(tenant, now, add):
            raise LimitReached(f"a tenant has at most {limits.SIGNING_KEYS_MAX} signing keys")
        self.signing.forget(tenant)
        return SigningKeyRow(made[0].key_id, made[0].created_at, signs=True)

    async def remove(self, caller: Caller, tenant: str, key_id: str) -> None:
        """Take a key away that signs no more: what it signed counts no more, in seconds.

        Raises:
            Conflict: It is the one that signs.
            KeyNotFound: There is no such key.
            TenantNotFound: No such tenant.
        """
        require_tenant(caller, tenant)
        if KEY_ID.fullmatch(key_id) is None:
            raise KeyNotFound
        if not await self.tenants.remove_signing_key(tenant, key_id, self.clock.now()):
            if any(row.key_id == key_id for row in await self._rows(tenant)):
                raise Conflict("this key signs: make another one first")
            raise KeyNotFound
        self.signing.forget(tenant)

    async def published(self, tenant: str) -> list[JsonWebKey]:
        """The public halves, for everybody; none if there is no such tenant."""
        found = await self.signing.all_public(tenant)
        return [ed25519_key(key_id, key) for key_id, key in found.items()]

    async def _rows(self, tenant: str) -> list[SigningKeyRow]:
        keys = await self.tenants.signing_keys(tenant)
        if not keys:
            raise TenantNotFound
        return [
            SigningKeyRow(key.key_id, key.created_at, signs=place == 0)
            for place, key in enumerate(keys)
        ]
