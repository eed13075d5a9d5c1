# SPDX-License-Identifier: Apache-2.0
"""User tokens: JWTs that we sign for a tenant, or that a tenant signs with keys it registered.

A token's header is believed in nothing but which of the known keys to try: each key has its one
algorithm, and keys or addresses of keys that a token brings along are never looked at.
"""

from base64 import urlsafe_b64decode
from typing import Annotated, Final, TypeVar

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.api_jws import PyJWS

from tidings.actions.identity.json_web_keys import ALGORITHMS, Algorithm, PublicKey
from tidings.actions.identity.signing_keys import KEY_ID, SigningKeys
from tidings.actions.identity.token_issuers import TenantIssuerKeys, own_key_id
from tidings.model import limits
from tidings.model.ids import DEVICE, USER, UserKey, tenant_of, user_id, user_key
from tidings.model.refusals import Unauthenticated

T = TypeVar("T")

ALGORITHM: Final = "EdDSA"
"""Of the tokens that we sign."""
TYPE: Final = "tidings+jwt"
ISSUER: Final = "tidings"
AUDIENCE: Final = "tidings:user"

_jws = PyJWS(algorithms=ALGORITHMS)


class Header(msgspec.Struct, frozen=True):
    """What is read of a token's header. Whatever else stands there is passed over."""

    alg: str
    kid: str
    typ: str | None = None
    crit: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    zip: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


Seconds = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is read of a token that a tenant signed."""

    iss: str | None = None
    aud: str
    tid: str
    sub: str
    iat: Seconds
    nbf: Seconds | None = None
    exp: Seconds
    dev: str | None = None


class OurClaims(Claims, frozen=True, kw_only=True, omit_defaults=True):
    """What a token says that we signed."""

    sid: str | None = None
    mk: str | None = None


class TokenSubject(msgspec.Struct, frozen=True):
    """Whose keys a token has to be checked with, if it is in order."""

    tid: str


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What a valid token proves. Times are in milliseconds, as fine as whole seconds."""

    user: UserKey
    device: str | None
    issued_at: int
    expires_at: int
    key_id: str
    """Of the key that signed it."""
    session: str | None = None
    """The session it belongs to; None if it belongs to none."""
    made_by: str | None = None
    """The tenant key with which it was asked for; None if it was not by one."""


_headers = msgspec.json.Decoder(Header)
_whose = msgspec.json.Decoder(TokenSubject)
_claims = msgspec.json.Decoder(Claims)
_our_claims = msgspec.json.Decoder(OurClaims)


def issue_time(now: int, revoked_at: int | None) -> int:
    """When a token made now says that it was made: after the user's tokens were last revoked.

    What is made within the second of a revocation would else count as revoked with the rest.
    """
    seconds = now // limits.SECOND_MS
    if revoked_at is not None:
        seconds = max(seconds, revoked_at // limits.SECOND_MS + 1)
    return seconds * limits.SECOND_MS


def sign(key: Ed25519PrivateKey, token: Token) -> str:
    """A token as a client carries it: the same one each time it is asked for."""
    issued = token.issued_at // limits.SECOND_MS
    claims = OurClaims(
        iss=ISSUER,
        aud=AUDIENCE,
        tid=tenant_of(token.user),
        sub=user_id(token.user),
        iat=issued,
        nbf=issued,
        exp=token.expires_at // limits.SECOND_MS,
        dev=token.device,
        sid=token.session,
        mk=token.made_by,
    )
    headers = {"typ": TYPE, "kid": token.key_id}
    return _jws.encode(msgspec.json.encode(claims), key, ALGORITHM, headers)


async def verify(token: str, keys: SigningKeys, own: TenantIssuerKeys, now: int) -> Token:
    """What the token proves. Its length is the caller's to limit.

    Raises:
        Unauthenticated: Signed by none that may, changed, not yet or no longer valid.
        StoreUnavailable: The keys cannot be read now.
    """
    header = _read(_headers, _part(token, 0))
    if header.crit is not msgspec.UNSET or header.zip is not msgspec.UNSET:
        raise Unauthenticated
    if KEY_ID.fullmatch(header.kid) is not None:
        return await _verify_ours(token, header, keys, now)
    return await _verify_own(token, header, own, now)


async def _verify_ours(token: str, header: Header, keys: SigningKeys, now: int) -> Token:
    if header.alg != ALGORITHM or header.typ != TYPE:
        raise Unauthenticated
    key = await keys.public(header.kid)
    if key is None:
        raise Unauthenticated
    claims = _read(_our_claims, _signed(token, key, ALGORITHM))
    whose = KEY_ID.fullmatch(header.kid)
    if claims.iss != ISSUER or claims.nbf is None or whose is None or claims.tid != whose[1]:
        raise Unauthenticated
    _check(claims, now // limits.SECOND_MS)
    return _token(claims, header.kid, claims.sid, claims.mk)


async def _verify_own(token: str, header: Header, own: TenantIssuerKeys, now: int) -> Token:
    """A token that a tenant signed: it says whose keys to try, and then has to be signed so.

    Which session it belongs to or which key asked for it is ours to say: neither is looked at.
    """
    if header.typ not in (None, "JWT", TYPE):
        raise Unauthenticated
    tenant = _read(_whose, _part(token, 1)).tid
    found = await own.find(tenant, header.kid)
    if found is None or header.alg != found.algorithm:
        raise Unauthenticated
    claims = _read(_claims, _signed(token, found.key, found.algorithm))
    if claims.tid != tenant or found.issuer not in (None, claims.iss):
        raise Unauthenticated
    _check(claims, now // limits.SECOND_MS)
    proven = _token(claims, own_key_id(tenant, header.kid))
    # The tenant's clock may be ahead by as much as is let pass: a token that was signed before a
    # revocation must never look as if it came after it.
    issued_at = proven.issued_at - limits.TOKEN_LEEWAY_SECONDS * limits.SECOND_MS
    return msgspec.structs.replace(proven, issued_at=issued_at)


def _part(token: str, index: int) -> bytes:
    parts = token.split(".")
    try:
        encoded = parts[index]
        return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (IndexError, ValueError):
        raise Unauthenticated from None


def _signed(token: str, key: PublicKey, algorithm: Algorithm) -> bytes:
    """What was signed, if it was, by this key with its one algorithm."""
    try:
        signed: bytes = _jws.decode(token, key, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise Unauthenticated from None
    return signed


def _read(decoder: "msgspec.json.Decoder[T]", raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Unauthenticated from None


def _check(claims: Claims, now: int) -> None:
    leeway = limits.TOKEN_LEEWAY_SECONDS
    if not (
        claims.aud == AUDIENCE
        and USER.fullmatch(claims.sub)
        and (claims.dev is None or DEVICE.fullmatch(claims.dev))
        and max(claims.iat, claims.nbf or 0) <= now + leeway
        and now < claims.exp + leeway
        # Whole seconds: the end is rounded up, the beginning down.
        and claims.exp - claims.iat <= limits.TOKEN_SECONDS_MAX + 1
    ):
        raise Unauthenticated


def _token(
    claims: Claims, key_id: str, session: str | None = None, made_by: str | None = None
) -> Token:
    return Token(
        user=user_key(claims.tid, claims.sub),
        device=claims.dev,
        issued_at=claims.iat * limits.SECOND_MS,
        expires_at=claims.exp * limits.SECOND_MS,
        key_id=key_id,
        session=session,
        made_by=made_by,
    )
