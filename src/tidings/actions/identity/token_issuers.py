# SPDX-License-Identifier: Apache-2.0
"""Register public keys for tenants that sign their users' tokens themselves.

Contains the cache of these keys, and the verbs with which a tenant reads and replaces them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidings.actions.identity.caller import Caller, require_tenant
from tidings.actions.identity.credential_status import FeedBackedCache
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
from tidings.model.refusals import (
    Invalid,
    KeyNotFound,
    StoreUnavailable,
    TenantNotFound,
    TooLarge,
)
from tidings.ports.people import Tenants, TokenIssuer
from tidings.ports.sessions import Revocation
from tidings.ports.world import Clock

KNOWN_MS_MAX: Final = 60_000
"""Maximum age of cached keys. It is needed because the revocation feed may not report every removed
key when two requests replace the keys at the same time."""

_CHANGES_MAX: Final = 5
"""Maximum number of attempts to change the keys of a tenant. A second one is needed only if another
request changes them at the same moment."""
_KEY_ID: Final = re.compile(rf"({TENANT.pattern})\.own\.{KID.pattern}")
_documents = msgspec.json.Decoder(JsonWebKeySet)


class TenantIssuerKey(msgspec.Struct, frozen=True):
    """A public key, and the issuer that tokens signed with it must name."""

    key: PublicKey
    algorithm: Algorithm
    issuer: str | None
    """None if a token may name any issuer."""


class _TenantIssuerKeys(msgspec.Struct, frozen=True):
    """The cached keys of a tenant, by kid; empty if the tenant has registered no keys."""

    keys: dict[str, TenantIssuerKey]
    loaded_at: int


class TenantIssuerKeys:
    """Caches the public keys that tenants have registered, for a bounded number of tenants."""

    def __init__(self, tenants: Tenants, clock: Clock, watch: RevocationWatch) -> None:
        self._tenants = tenants
        self._clock = clock
        self._watch = watch
        self._cached: FeedBackedCache[_TenantIssuerKeys] = FeedBackedCache(
            watch, CACHED_TENANTS_MAX
        )
        watch.listen(self._revoked)

    async def find(self, tenant: str, kid: str) -> TenantIssuerKey | None:
        """Return the key with this id (`kid`) that the tenant has registered, or None.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        if TENANT.fullmatch(tenant) is None or KID.fullmatch(kid) is None:
            return None
        cached = self._cached.peek(tenant)
        if cached is not None:
            age = abs(self._clock.now() - cached.loaded_at)
            is_known = kid in cached.keys
            if age < STALE_MS if not is_known else age < KNOWN_MS_MAX and self._watch.sees:
                return cached.keys.get(kid)
        return (await self._load(tenant)).keys.get(kid)

    async def _load(self, tenant: str) -> _TenantIssuerKeys:
        position, loaded_at = self._watch.position, self._clock.now()
        found = await self._tenants.issuer(tenant)
        keys = {} if found is None else {key.kid: _own(key, found) for key in registered(found)}
        cached = _TenantIssuerKeys(keys, loaded_at)
        self._cached.keep(tenant, cached, position)
        return cached

    def forget(self, tenant: str) -> None:
        """Remove the tenant's registered keys from the cache, because they may have changed."""
        self._cached.forget(tenant)

    def _revoked(self, revocations: Sequence[Revocation]) -> None:
        """Remove the registered keys of a tenant from the cache if one of them was revoked."""
        for key_id in RevocationIndex(revocations).signing_keys:
            match = _KEY_ID.fullmatch(key_id)
            if match is not None:
                self._cached.forget(match[1])


def own_key_id(tenant: str, kid: str) -> str:
    """Return the id by which the revocation feed names a public key that a tenant has registered.

    No signing key that Tidings makes for a tenant has such an id.
    """
    return f"{tenant}.own.{kid}"


def registered(issuer: TokenIssuer) -> list[JsonWebKey]:
    """Return the keys that a tenant has registered."""
    return _documents.decode(issuer.document).keys


def _own(key: JsonWebKey, issuer: TokenIssuer) -> TenantIssuerKey:
    return TenantIssuerKey(key.public(), key.alg, issuer.issuer)


class TokenIssuerVerbs(msgspec.Struct, frozen=True):
    """Returns, replaces and removes the keys that a tenant has registered. Changing or removing a
    key revokes the tokens that it signed."""

    tenants: Tenants
    own: TenantIssuerKeys
    clock: Clock

    async def get(self, caller: Caller, tenant: str) -> TokenIssuer:
        """Return the tenant's issuer and the keys that the tenant has registered.

        Raises:
            KeyNotFound: The tenant has registered no keys.
            TenantNotFound: There is no such tenant.
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
        """Replace the tenant's issuer and keys.

        Raises:
            Invalid: A key is not acceptable.
            TenantNotFound: There is no such tenant.
        """
        require_tenant(caller, tenant)
        if issuer is not None:
            check_visible_text("issuer", issuer)
        document = msgspec.json.encode(JsonWebKeySet(_read(keys)))
        if len(document) > limits.ISSUER_BYTES_MAX:
            raise TooLarge(f"keys: must have at most {limits.ISSUER_BYTES_MAX} bytes")
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        now = self.clock.now()
        wanted = TokenIssuer(tenant=tenant, issuer=issuer, document=document, updated_at=now)
        for _ in range(_CHANGES_MAX):
            before = await self.tenants.issuer(tenant)
            # The feed must name the keys that this really replaces.
            if await self.tenants.put_issuer(wanted, before, _ended(before, wanted)):
                self.own.forget(tenant)
                return wanted
        raise StoreUnavailable("the keys are changed by other requests")

    async def remove(self, caller: Caller, tenant: str) -> None:
        """Remove the tenant's issuer and all its keys.

        Raises:
            KeyNotFound: The tenant has registered no keys.
        """
        for _ in range(_CHANGES_MAX):
            before = await self.get(caller, tenant)
            if await self.tenants.remove_issuer(before, _ended(before, None), self.clock.now()):
                self.own.forget(tenant)
                return
        raise StoreUnavailable("the keys are changed by other requests")


def _read(keys: Sequence[Mapping[str, Any]]) -> list[JsonWebKey]:
    if not 1 <= len(keys) <= limits.ISSUER_KEYS_MAX:
        raise Invalid(f"keys must contain 1 to {limits.ISSUER_KEYS_MAX} keys", "/keys")
    found: dict[str, JsonWebKey] = {}
    for index, given in enumerate(keys):
        try:
            key = read_key(given)
        except BadKey as bad:
            raise Invalid(f"keys: {bad}", f"/keys/{index}") from None
        if key.kid in found:
            raise Invalid("keys: every kid must be unique", f"/keys/{index}/kid")
        if KEY_ID.fullmatch(key.kid) is not None:
            raise Invalid(
                "keys: this kid has the form of the server's own key ids", f"/keys/{index}/kid"
            )
        found[key.kid] = key
    return list(found.values())


def _ended(before: TokenIssuer | None, after: TokenIssuer | None) -> list[str]:
    """Return the ids of registered keys that were removed or changed, or whose issuer changed."""
    if before is None:
        return []
    stays = registered(after) if after is not None and after.issuer == before.issuer else []
    gone = [key for key in registered(before) if key not in stays]
    return [own_key_id(before.tenant, key.kid) for key in gone]
