# SPDX-License-Identifier: Apache-2.0
"""User tokens: JWTs signed with the tenant's Ed25519 key. One algorithm, one type, one issuer.

A token's header is believed in nothing but which of our own keys to try: the algorithm is fixed,
and keys or addresses of keys that a token brings along are never looked at.
"""

import logging
import re
from base64 import urlsafe_b64decode
from collections import OrderedDict
from typing import Annotated, Any, Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from jwt.api_jws import PyJWS

from tidings.actions.wrapping import CannotUnwrap, Wrapping, signing_key_purpose
from tidings.model import limits
from tidings.model.ids import DEVICE, TENANT, USER, UserKey, tenant_of, user_id, user_key
from tidings.model.refusals import StoreUnavailable, TenantNotFound, Unauthenticated
from tidings.ports.people import SigningKey, Tenants
from tidings.ports.world import Chance, Clock

log = logging.getLogger("tidings.identity")

ALGORITHM: Final = "EdDSA"
TYPE: Final = "tidings+jwt"
ISSUER: Final = "tidings"
AUDIENCE: Final = "tidings:user"

KEY_ID: Final = re.compile(rf"({TENANT.pattern})\.[0-9a-f]{{16}}")
CACHED_TENANTS_MAX: Final = 10_000
STALE_MS: Final = 1_000
"""A key id that is not among the keys at hand is looked up again, but no more often than this."""

_jws = PyJWS(algorithms=[ALGORITHM])


class Header(msgspec.Struct, frozen=True):
    """What is read of a token's header. Whatever else stands there is passed over."""

    alg: str
    typ: str
    kid: str
    crit: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    zip: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


Seconds = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token says."""

    iss: str
    aud: str
    tid: str
    sub: str
    iat: Seconds
    nbf: Seconds
    exp: Seconds
    dev: str | None = None


class Token(msgspec.Struct, frozen=True):
    """What a valid token proves."""

    user: UserKey
    device: str | None
    expires_at: int


_headers = msgspec.json.Decoder(Header)
_claims = msgspec.json.Decoder(Claims)


class _Tenant(msgspec.Struct, frozen=True):
    """A tenant's signing keys at hand; none at all if there is no such tenant."""

    public: dict[str, Ed25519PublicKey]
    newest: SigningKey | None
    loaded_at: int


class SigningKeys:
    """The tenants' signing keys, a bounded number of them in memory."""

    def __init__(self, tenants: Tenants, wrapping: Wrapping, clock: Clock) -> None:
        self._tenants = tenants
        self._wrapping = wrapping
        self._clock = clock
        self._held: OrderedDict[str, _Tenant] = OrderedDict()
        self._private: OrderedDict[str, Ed25519PrivateKey] = OrderedDict()

    async def public(self, key_id: str) -> Ed25519PublicKey | None:
        """The key that verifies what the key with this id signed; None if there is no such key."""
        match = KEY_ID.fullmatch(key_id)
        if match is None:
            return None
        tenant = match[1]
        held = self._held.get(tenant)
        if held is None or (key_id not in held.public and self._is_stale(held)):
            held = await self._load(tenant)
        return held.public.get(key_id)

    async def signer(self, tenant: str) -> tuple[str, Ed25519PrivateKey]:
        """The id and private half of the tenant's newest key.

        Raises:
            TenantNotFound: No such tenant.
            StoreUnavailable: The key cannot be had now.
        """
        held = self._held.get(tenant)
        if held is None or held.newest is None:
            held = await self._load(tenant)
        if held.newest is None:
            raise TenantNotFound
        key_id = held.newest.key_id
        private = self._private.get(key_id)
        if private is None:
            private = await self._unwrap(held.newest)
            _keep(self._private, key_id, private)
        return key_id, private

    def forget(self, tenant: str) -> None:
        """Look the tenant's keys up anew: they may have changed."""
        self._held.pop(tenant, None)

    def _is_stale(self, held: _Tenant) -> bool:
        return abs(self._clock.now() - held.loaded_at) >= STALE_MS

    async def _load(self, tenant: str) -> _Tenant:
        loaded_at = self._clock.now()
        keys = await self._tenants.signing_keys(tenant)
        public = {key.key_id: Ed25519PublicKey.from_public_bytes(key.public) for key in keys}
        held = _Tenant(public, keys[0] if keys else None, loaded_at)
        _keep(self._held, tenant, held)
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


def sign(key_id: str, key: Ed25519PrivateKey, token: Token, now: int) -> str:
    """A token as a client carries it."""
    seconds = now // limits.SECOND_MS
    claims = Claims(
        iss=ISSUER,
        aud=AUDIENCE,
        tid=tenant_of(token.user),
        sub=user_id(token.user),
        iat=seconds,
        nbf=seconds,
        exp=token.expires_at // limits.SECOND_MS,
        dev=token.device,
    )
    headers = {"typ": TYPE, "kid": key_id}
    return _jws.encode(msgspec.json.encode(claims), key, ALGORITHM, headers)


async def verify(token: str, keys: SigningKeys, now: int) -> Token:
    """What the token proves. Its length is the caller's to limit.

    Raises:
        Unauthenticated: Not one of ours, changed, not yet or no longer valid.
        StoreUnavailable: The keys cannot be read now.
    """
    key_id = _key_id(token)
    key = await keys.public(key_id)
    if key is None:
        raise Unauthenticated
    try:
        claims = _claims.decode(_jws.decode(token, key, algorithms=[ALGORITHM]))
    except (jwt.PyJWTError, msgspec.MsgspecError, ValueError, RecursionError):
        raise Unauthenticated from None
    _check(claims, key_id, now // limits.SECOND_MS)
    return Token(user_key(claims.tid, claims.sub), claims.dev, claims.exp * limits.SECOND_MS)


def _key_id(token: str) -> str:
    """Which key the token names; refused here is whatever could not be one of ours."""
    encoded, _, _ = token.partition(".")
    try:
        header = _headers.decode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Unauthenticated from None
    if header.alg != ALGORITHM or header.typ != TYPE:
        raise Unauthenticated
    if header.crit is not msgspec.UNSET or header.zip is not msgspec.UNSET:
        raise Unauthenticated
    return header.kid


def _check(claims: Claims, key_id: str, now: int) -> None:
    leeway = limits.TOKEN_LEEWAY_SECONDS
    match = KEY_ID.fullmatch(key_id)
    if not (
        claims.iss == ISSUER
        and claims.aud == AUDIENCE
        and match is not None
        and claims.tid == match[1]
        and USER.fullmatch(claims.sub)
        and (claims.dev is None or DEVICE.fullmatch(claims.dev))
        and max(claims.iat, claims.nbf) <= now + leeway
        and now < claims.exp + leeway
        # Whole seconds: the end is rounded up, the beginning down.
        and claims.exp - claims.iat <= limits.TOKEN_SECONDS_MAX + 1
    ):
        raise Unauthenticated


def _keep(cache: OrderedDict[str, Any], key: str, value: object) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > CACHED_TENANTS_MAX:
        cache.popitem(last=False)
