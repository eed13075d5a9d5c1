# SPDX-License-Identifier: Apache-2.0
"""The public keys with which tenants sign their users' tokens themselves, as far as at hand."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.ended import Ended
from tidings.actions.json_web_keys import KID, Algorithm, JsonWebKey, JsonWebKeySet, PublicKey
from tidings.actions.remembered import Remembered
from tidings.actions.revocation_watch import RevocationWatch
from tidings.actions.signing_keys import CACHED_TENANTS_MAX, STALE_MS
from tidings.model.ids import TENANT
from tidings.ports.people import Tenants, TokenIssuer
from tidings.ports.revocations import Revocation
from tidings.ports.world import Clock

KNOWN_MS_MAX: Final = 60_000
"""Keys that were replaced twice at once may be missing in the feed: so long they go on counting."""

_KEY_ID: Final = re.compile(rf"({TENANT.pattern})\.own\.{KID.pattern}")
_documents = msgspec.json.Decoder(JsonWebKeySet)


class OwnKey(msgspec.Struct, frozen=True):
    """A key, and what a token it signed has to say."""

    key: PublicKey
    algorithm: Algorithm
    issuer: str | None
    """None: nothing in particular."""


class _Tenant(msgspec.Struct, frozen=True):
    """A tenant's own keys at hand, by their kids; none if it has registered none."""

    keys: dict[str, OwnKey]
    loaded_at: int


class OwnKeys:
    """The tenants' own keys, of a bounded number of tenants in memory."""

    def __init__(self, tenants: Tenants, clock: Clock, watch: RevocationWatch) -> None:
        self._tenants = tenants
        self._clock = clock
        self._watch = watch
        self._held: Remembered[_Tenant] = Remembered(watch, CACHED_TENANTS_MAX)
        watch.listen(self._revoked)

    async def find(self, tenant: str, kid: str) -> OwnKey | None:
        """The tenant's key of this name; None if there is none.

        Raises:
            StoreUnavailable: The store cannot tell now.
        """
        if TENANT.fullmatch(tenant) is None or KID.fullmatch(kid) is None:
            return None
        held = self._held.peek(tenant)
        if held is not None:
            age = abs(self._clock.now() - held.loaded_at)
            is_known = kid in held.keys
            if age < STALE_MS if not is_known else age < KNOWN_MS_MAX and self._watch.sees:
                return held.keys.get(kid)
        return (await self._load(tenant)).keys.get(kid)

    async def _load(self, tenant: str) -> _Tenant:
        place, loaded_at = self._watch.place, self._clock.now()
        found = await self._tenants.issuer(tenant)
        keys = {} if found is None else {key.kid: _own(key, found) for key in registered(found)}
        held = _Tenant(keys, loaded_at)
        self._held.keep(tenant, held, place)
        return held

    def forget(self, tenant: str) -> None:
        """Look the tenant's keys up anew: they may have changed."""
        self._held.forget(tenant)

    def _revoked(self, revocations: Sequence[Revocation]) -> None:
        """Look the keys of tenants up anew that lost one."""
        for key_id in Ended(revocations).signing_keys:
            match = _KEY_ID.fullmatch(key_id)
            if match is not None:
                self._held.forget(match[1])


def own_key_id(tenant: str, kid: str) -> str:
    """What the tenant's key is called in the feed: never the name of one of ours."""
    return f"{tenant}.own.{kid}"


def registered(issuer: TokenIssuer) -> list[JsonWebKey]:
    """The keys that a tenant has registered."""
    return _documents.decode(issuer.document).keys


def _own(key: JsonWebKey, issuer: TokenIssuer) -> OwnKey:
    return OwnKey(key.public(), key.alg, issuer.issuer)
