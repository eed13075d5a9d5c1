# SPDX-License-Identifier: Apache-2.0
"""The Ed25519 keys with which we sign a tenant's user tokens, and which of them are at hand."""

import logging
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tidings.actions.ended import Ended
from tidings.actions.remembered import Remembered
from tidings.actions.revocation_watch import RevocationWatch
from tidings.actions.wrapping import CannotUnwrap, Wrapping, signing_key_purpose
from tidings.model.ids import TENANT
from tidings.model.refusals import StoreUnavailable, TenantNotFound
from tidings.ports.people import SigningKey, Tenants
from tidings.ports.revocations import Revocation
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.identity")

KEY_ID: Final = re.compile(rf"({TENANT.pattern})\.[0-9a-f]{{16}}")
CACHED_TENANTS_MAX: Final = 10_000
STALE_MS: Final = 1_000
"""A key id that is not among the keys at hand is looked up again, but no more often than this."""
SIGNS_MS_MAX: Final = 60_000
"""Who has signed with a key for so long looks whether there is a newer one."""


class _Tenant(msgspec.Struct, frozen=True):
    """A tenant's signing keys at hand; none at all if there is no such tenant."""

    public: dict[str, Ed25519PublicKey]
    newest: SigningKey | None
    loaded_at: int


class SigningKeys:
    """The tenants' signing keys, a bounded number of them in memory."""

    def __init__(
        self, tenants: Tenants, wrapping: Wrapping, clock: Clock, watch: RevocationWatch
    ) -> None:
        self._tenants = tenants
        self._wrapping = wrapping
        self._clock = clock
        self._watch = watch
        self._held: Remembered[_Tenant] = Remembered(watch, CACHED_TENANTS_MAX)
        watch.listen(self._revoked)
        self._private: Remembered[Ed25519PrivateKey] = Remembered(watch, CACHED_TENANTS_MAX)

    async def public(self, key_id: str) -> Ed25519PublicKey | None:
        """The key that verifies what the key with this id signed; None if there is no such key."""
        match = KEY_ID.fullmatch(key_id)
        return None if match is None else (await self._of(match[1], key_id)).get(key_id)

    async def all_public(self, tenant: str) -> dict[str, Ed25519PublicKey]:
        """All keys that verify the tenant's tokens, by their ids; none if there is no tenant."""
        return await self._of(tenant, None)

    async def _of(self, tenant: str, key_id: str | None) -> dict[str, Ed25519PublicKey]:
        held = self._held.peek(tenant)
        if held is not None:
            if self._watch.sees if key_id in held.public else self._age(held) < STALE_MS:
                return held.public
        return (await self._load(tenant)).public

    async def signer(self, tenant: str) -> tuple[str, Ed25519PrivateKey]:
        """The id and private half of the tenant's newest key.

        Raises:
            TenantNotFound: No such tenant.
            StoreUnavailable: The key cannot be had now.
        """
        held = self._held.get(tenant)
        if held is None or held.newest is None or self._age(held) >= SIGNS_MS_MAX:
            held = await self._load(tenant)
        if held.newest is None:
            raise TenantNotFound
        key_id = held.newest.key_id
        private = self._private.peek(key_id)
        if private is None:
            private = await self._unwrap(held.newest)
            self._private.keep(key_id, private, self._watch.place)
        return key_id, private

    def forget(self, tenant: str) -> None:
        """Look the tenant's keys up anew: they may have changed."""
        self._held.forget(tenant)

    def _revoked(self, revocations: Sequence[Revocation]) -> None:
        """Look the keys of tenants up anew that lost one."""
        for key_id in Ended(revocations).signing_keys:
            match = KEY_ID.fullmatch(key_id)
            if match is not None:
                self._held.forget(match[1])
                self._private.forget(key_id)

    def _age(self, held: _Tenant) -> int:
        return abs(self._clock.now() - held.loaded_at)

    async def _load(self, tenant: str) -> _Tenant:
        place, loaded_at = self._watch.place, self._clock.now()
        keys = await self._tenants.signing_keys(tenant)
        public = {key.key_id: Ed25519PublicKey.from_public_bytes(key.public) for key in keys}
        held = _Tenant(public, keys[0] if keys else None, loaded_at)
        self._held.keep(tenant, held, place)
        return held

    async def _unwrap(self, key: SigningKey) -> Ed25519PrivateKey:
        if not self._wrapping.holds(key.master_key_id):
            # What is at hand was wrapped before a rotation that has ended since.
            key = (await self._load(key.tenant)).newest or key
        try:
            secret = self._wrapping.unwrap(
                signing_key_purpose(key.key_id), key.master_key_id, key.sealed_private
            )
        except CannotUnwrap as reason:
            log.critical(
                "signing key does not open",
                extra={"action": "signing_key_unusable", "key": key.key_id, "reason": str(reason)},
            )
            raise StoreUnavailable("the tenant's signing key cannot be opened") from None
        return Ed25519PrivateKey.from_private_bytes(secret)


def new_key_id(tenant: str, chance: Chance) -> str:
    """The id of a new signing key: it names its tenant, so that a token need not be believed."""
    return f"{tenant}.{chance.token(8).hex()}"
