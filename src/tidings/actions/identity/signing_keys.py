# SPDX-License-Identifier: Apache-2.0
"""Manage the signing keys of tenants, which are Ed25519 keys and sign the tokens of users.

Contains the cache of the keys, and the verbs with which a tenant lists, adds and removes keys.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tidings.actions.content.wrapping import CannotUnwrap, Wrapping, signing_key_purpose
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.identity.credential_status import FeedBackedCache
from tidings.actions.identity.json_web_keys import JsonWebKey, ed25519_key
from tidings.actions.identity.revocation_watch import RevocationIndex, RevocationWatch
from tidings.model import limits
from tidings.model.ids import TENANT
from tidings.model.refusals import (
    Conflict,
    KeyNotFound,
    LimitReached,
    StoreUnavailable,
    TenantNotFound,
)
from tidings.ports.people import SigningKey, Tenants
from tidings.ports.sessions import Revocation
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.identity")

KEY_ID: Final = re.compile(rf"({TENANT.pattern})\.[0-9a-f]{{16}}")
CACHED_TENANTS_MAX: Final = 10_000
STALE_MS: Final = 1_000
"""Minimum time between two reads of a tenant's keys that are caused by unknown key ids."""
SIGNS_MS_MAX: Final = 60_000
"""Time after which a process that signs tokens checks whether there is a newer key."""


class _TenantSigningKeys(msgspec.Struct, frozen=True):
    """Cached signing keys of a tenant; empty if the tenant does not exist."""

    public: dict[str, Ed25519PublicKey]
    newest: SigningKey | None
    loaded_at: int


class SigningKeys:
    """Caches the signing keys of a bounded number of tenants."""

    def __init__(
        self, tenants: Tenants, wrapping: Wrapping, clock: Clock, watch: RevocationWatch
    ) -> None:
        self._tenants = tenants
        self._wrapping = wrapping
        self._clock = clock
        self._watch = watch
        self._cached: FeedBackedCache[_TenantSigningKeys] = FeedBackedCache(
            watch, CACHED_TENANTS_MAX
        )
        watch.listen(self._revoked)
        self._private: FeedBackedCache[Ed25519PrivateKey] = FeedBackedCache(
            watch, CACHED_TENANTS_MAX
        )

    async def public(self, key_id: str) -> Ed25519PublicKey | None:
        """Return the public half of the signing key with this id; None if there is no such key."""
        match = KEY_ID.fullmatch(key_id)
        return None if match is None else (await self._of(match[1], key_id)).get(key_id)

    async def all_public(self, tenant: str) -> dict[str, Ed25519PublicKey]:
        """Return all keys that verify the tenant's tokens, by id; empty for an unknown tenant."""
        return await self._of(tenant, None)

    async def _of(self, tenant: str, key_id: str | None) -> dict[str, Ed25519PublicKey]:
        cached = self._cached.peek(tenant)
        if cached is not None:
            if self._watch.sees if key_id in cached.public else self._age(cached) < STALE_MS:
                return cached.public
        return (await self._load(tenant)).public

    async def signer(self, tenant: str) -> tuple[str, Ed25519PrivateKey]:
        """Return the id and the private half of the tenant's newest key, which signs tokens.

        Raises:
            TenantNotFound: There is no such tenant.
            StoreUnavailable: The key cannot be read or decrypted now.
        """
        cached = self._cached.get(tenant)
        if cached is None or cached.newest is None or self._age(cached) >= SIGNS_MS_MAX:
            cached = await self._load(tenant)
        if cached.newest is None:
            raise TenantNotFound
        key_id = cached.newest.key_id
        private = self._private.peek(key_id)
        if private is None:
            private = await self._unwrap(cached.newest)
            self._private.keep(key_id, private, self._watch.position)
        return key_id, private

    def forget(self, tenant: str) -> None:
        """Remove the tenant's signing keys from the cache, because they may have changed."""
        self._cached.forget(tenant)

    def _revoked(self, revocations: Sequence[Revocation]) -> None:
        """Remove the signing keys of a tenant from the cache if one of them was revoked."""
        for key_id in RevocationIndex(revocations).signing_keys:
            match = KEY_ID.fullmatch(key_id)
            if match is not None:
                self._cached.forget(match[1])
                self._private.forget(key_id)

    def _age(self, cached: _TenantSigningKeys) -> int:
        return abs(self._clock.now() - cached.loaded_at)

    async def _load(self, tenant: str) -> _TenantSigningKeys:
        position, loaded_at = self._watch.position, self._clock.now()
        keys = await self._tenants.signing_keys(tenant)
        public = {key.key_id: Ed25519PublicKey.from_public_bytes(key.public) for key in keys}
        cached = _TenantSigningKeys(public, keys[0] if keys else None, loaded_at)
        self._cached.keep(tenant, cached, position)
        return cached

    async def _unwrap(self, key: SigningKey) -> Ed25519PrivateKey:
        if not self._wrapping.holds(key.master_key_id):
            # The cached key was wrapped before a master key rotation that has ended since.
            key = (await self._load(key.tenant)).newest or key
        try:
            secret = self._wrapping.unwrap(
                signing_key_purpose(key.key_id), key.master_key_id, key.sealed_private
            )
        except CannotUnwrap as reason:
            log.critical(
                "signing key cannot be decrypted",
                extra={"action": "signing_key_unusable", "key": key.key_id, "reason": str(reason)},
            )
            raise StoreUnavailable("the tenant's signing key cannot be decrypted") from None
        return Ed25519PrivateKey.from_private_bytes(secret)


def new_key_id(tenant: str, chance: Chance) -> str:
    """Return the id of a new signing key.

    The id contains the tenant, so that the key determines which tenant a token may name.
    """
    return f"{tenant}.{chance.token(8).hex()}"


T = TypeVar("T")


class SigningKeyRow(msgspec.Struct, frozen=True):
    """Description of a signing key, without the key itself."""

    key_id: str
    created_at: int
    signs: bool
    """Whether the key signs new tokens; every listed key verifies tokens."""


class SigningKeyMaker(msgspec.Struct, frozen=True):
    """Makes signing keys; the private half is stored only in encrypted form."""

    wrapping: Wrapping
    chance: Chance

    async def make(self, tenant: str, now: int, store: Callable[[SigningKey], Awaitable[T]]) -> T:
        """Make a signing key, pass it to `store`, and return the result of `store`."""
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


class SigningKeyVerbs(msgspec.Struct, frozen=True):
    """Lists, adds and removes the keys that sign the tokens of a tenant's users."""

    tenants: Tenants
    signing: SigningKeys
    maker: SigningKeyMaker
    clock: Clock

    async def all(self, caller: Caller, tenant: str) -> list[SigningKeyRow]:
        """Return the tenant's signing keys, newest first; the first signs new tokens."""
        require_tenant(caller, tenant)
        return await self._rows(tenant)

    async def make(self, caller: Caller, tenant: str) -> SigningKeyRow:
        """Add a signing key, which signs all new tokens; tokens of earlier keys stay valid.

        Raises:
            LimitReached: The tenant has too many keys, and must remove an old key first.
            TenantNotFound: There is no such tenant.
        """
        require_tenant(caller, tenant)
        newest = (await self._rows(tenant))[0]
        # The newest key signs, so its time must be later than the last key's, even if the clock is
        # behind.
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
        """Remove a signing key that is not the newest; within seconds its tokens become invalid.

        Raises:
            Conflict: The key is the newest, which signs new tokens.
            KeyNotFound: There is no such key.
            TenantNotFound: There is no such tenant.
        """
        require_tenant(caller, tenant)
        if KEY_ID.fullmatch(key_id) is None:
            raise KeyNotFound
        if not await self.tenants.remove_signing_key(tenant, key_id, self.clock.now()):
            if any(row.key_id == key_id for row in await self._rows(tenant)):
                raise Conflict("this key signs new tokens: add another key first")
            raise KeyNotFound
        self.signing.forget(tenant)

    async def published(self, tenant: str) -> list[JsonWebKey]:
        """Return the tenant's public keys for publication; empty if there is no such tenant."""
        found = await self.signing.all_public(tenant)
        return [ed25519_key(key_id, key) for key_id, key in found.items()]

    async def _rows(self, tenant: str) -> list[SigningKeyRow]:
        keys = await self.tenants.signing_keys(tenant)
        if not keys:
            raise TenantNotFound
        return [
            SigningKeyRow(key.key_id, key.created_at, signs=index == 0)
            for index, key in enumerate(keys)
        ]
