# SPDX-License-Identifier: Apache-2.0
"""Registering the public keys with which a tenant signs its users' tokens itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.identity.feed_cache import FeedBackedCache
from tidings.actions.identity.json_web_keys import (
    KID,
    Algorithm,
    BadKey,
    JsonWebKey,
    JsonWebKeySet,
    PublicKey,
    read_key,
)
from tidings.actions.identity.revocation_watch import RevocationIndex, RevocationWatch
from tidings.actions.identity.signing_keys import CACHED_TENANTS_MAX, KEY_ID, STALE_MS
from tidings.actions.identity.users import check_visible_text
from tidings.model import limits
from tidings.model.ids import TENANT
from tidings.model.refusals import Invalid, KeyNotFound, TenantNotFound, TooLarge
from tidings.ports.people import Tenants, TokenIssuer
from tidings.ports.sessions import Revocation
from tidings.ports.world import Clock

KNOWN_MS_MAX: Final = 60_000
"""Keys that were replaced twice at once may be missing in the feed: so long they go on counting."""

_KEY_ID: Final = re.compile(rf"({TENANT.pattern})\.own\.{KID.pattern}")
_documents = msgspec.json.Decoder(JsonWebKeySet)


class TenantIssuerKey(msgspec.Struct, frozen=True):
    """A key, and what a token it signed has to say."""

    key: PublicKey
    algorithm: Algorithm
    issuer: str | None
    """None: nothing in particular."""


class _TenantIssuerKeys(msgspec.Struct, frozen=True):
    """A tenant's own keys at hand, by their kids; none if it has registered none."""

    keys: dict[str, TenantIssuerKey]
    loaded_at: int


class TenantIssuerKeys:
    """The tenants' own keys, of a bounded number of tenants in memory."""

    def __init__(self, tenants: Tenants, clock: Clock, watch: RevocationWatch) -> None:
        self._tenants = tenants
        self._clock = clock
        self._watch = watch
        self._held: FeedBackedCache[_TenantIssuerKeys] = FeedBackedCache(watch, CACHED_TENANTS_MAX)
        watch.listen(self._revoked)

    async def find(self, tenant: str, kid: str) -> TenantIssuerKey | None:
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

    async def _load(self, tenant: str) -> _TenantIssuerKeys:
        place, loaded_at = self._watch.place, self._clock.now()
        found = await self._tenants.issuer(tenant)
        keys = {} if found is None else {key.kid: _own(key, found) for key in registered(found)}
        held = _TenantIssuerKeys(keys, loaded_at)
        self._held.keep(tenant, held, place)
        return held

    def forget(self, tenant: str) -> None:
        """Look the tenant's keys up anew: they may have changed."""
        self._held.forget(tenant)

    def _revoked(self, revocations: Sequence[Revocation]) -> None:
        """Look the keys of tenants up anew that lost one."""
        for key_id in RevocationIndex(revocations).signing_keys:
            match = _KEY_ID.fullmatch(key_id)
            if match is not None:
                self._held.forget(match[1])


def own_key_id(tenant: str, kid: str) -> str:
    """What the tenant's key is called in the feed: never the name of one of ours."""
    return f"{tenant}.own.{kid}"


def registered(issuer: TokenIssuer) -> list[JsonWebKey]:
    """The keys that a tenant has registered."""
    return _documents.decode(issuer.document).keys


def _own(key: JsonWebKey, issuer: TokenIssuer) -> TenantIssuerKey:
    return TenantIssuerKey(key.public(), key.alg, issuer.issuer)


@dataclass(frozen=True, slots=True)
class TokenIssuerVerbs:
    """What a tenant does with its own keys. Those taken away or changed end their tokens."""

    tenants: Tenants
    own: TenantIssuerKeys
    clock: Clock

    async def get(self, caller: Caller, tenant: str) -> TokenIssuer:
        """What the tenant has registered.

        Raises:
            KeyNotFound: Nothing.
            TenantNotFound: No such tenant.
        """
        require_tenant(caller, tenant)
        found = await self.tenants.issuer(tenant)
        if found is not None:
            return found
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        raise KeyNotFound("no keys are registered")

    async def put(
        self, caller: Caller, tenant: str, issuer: str | None, keys: Sequence[Mapping[str, Any]]
    ) -> TokenIssuer:
        """Replace what is registered.

        Raises:
            Invalid: A key is none that we take.
            TenantNotFound: No such tenant.
        """
        require_tenant(caller, tenant)
        if issuer is not None:
            check_visible_text("issuer", issuer)
        document = msgspec.json.encode(JsonWebKeySet(_read(keys)))
        if len(document) > limits.ISSUER_BYTES_MAX:
            raise TooLarge(f"keys: at most {limits.ISSUER_BYTES_MAX} bytes")
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        now = self.clock.now()
        wanted = TokenIssuer(tenant=tenant, issuer=issuer, document=document, updated_at=now)
        before = await self.tenants.issuer(tenant)
        await self.tenants.put_issuer(wanted, _ended(before, wanted))
        self.own.forget(tenant)
        return wanted

    async def remove(self, caller: Caller, tenant: str) -> None:
        """Take them all away.

        Raises:
            KeyNotFound: There are none.
        """
        before = await self.get(caller, tenant)
        if not await self.tenants.remove_issuer(tenant, _ended(before, None), self.clock.now()):
            raise KeyNotFound("no keys are registered")
        self.own.forget(tenant)


def _read(keys: Sequence[Mapping[str, Any]]) -> list[JsonWebKey]:
    if not 1 <= len(keys) <= limits.ISSUER_KEYS_MAX:
        raise Invalid(f"keys: 1 to {limits.ISSUER_KEYS_MAX}", "/keys")
    found: dict[str, JsonWebKey] = {}
    for place, given in enumerate(keys):
        try:
            key = read_key(given)
        except BadKey as bad:
            raise Invalid(f"keys: {bad}", f"/keys/{place}") from None
        if key.kid in found:
            raise Invalid("keys: each has a kid of its own", f"/keys/{place}/kid")
        if KEY_ID.fullmatch(key.kid) is not None:
            raise Invalid("keys: this kid looks like one of ours", f"/keys/{place}/kid")
        found[key.kid] = key
    return list(found.values())


def _ended(before: TokenIssuer | None, after: TokenIssuer | None) -> list[str]:
    """The ids of keys whose tokens do not count any more, or have to say something else now."""
    if before is None:
        return []
    stays = registered(after) if after is not None and after.issuer == before.issuer else []
    gone = [key for key in registered(before) if key not in stays]
    return [own_key_id(before.tenant, key.kid) for key in gone]
