# SPDX-License-Identifier: Apache-2.0
"""Sign and verify user tokens: JWTs that Tidings signs, or a tenant with keys that it registered.

A token's header only selects which known key to try. Each key has one algorithm, and keys or key
URLs inside a token are ignored.
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
"""Algorithm of the tokens that Tidings signs."""
TYPE: Final = "tidings+jwt"
ISSUER: Final = "tidings"
AUDIENCE: Final = "tidings:user"
_NESTED_MAX: Final = 500
"""Maximum number of lists and objects in a part of a token. How deeply nested JSON may be differs
between versions of Python."""

_jws = PyJWS(algorithms=ALGORITHMS)


class Header(msgspec.Struct, frozen=True):
    """The fields of a token's header that are used; all others are ignored."""

    alg: str
    kid: str
    typ: str | None = None
    crit: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    zip: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


Seconds = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The claims of a token that a tenant signed; all others are ignored."""

    iss: str | None = None
    aud: str
    tid: str
    sub: str
    iat: Seconds
    nbf: Seconds | None = None
    exp: Seconds
    dev: str | None = None


class OurClaims(Claims, frozen=True, kw_only=True, omit_defaults=True):
    """The claims of a token that Tidings signed."""

    sid: str | None = None
    mk: str | None = None


class TokenSubject(msgspec.Struct, frozen=True):
    """The tenant that a token claims, which selects the keys to verify it with."""

    tid: str


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a verified token. Times are in milliseconds, with a resolution of one second."""

    user: UserKey
    device: str | None
    issued_at: int
    expires_at: int
    key_id: str
    """Id of the key that signed the token."""
    session: str | None = None
    """The session that the token belongs to, if any."""
    made_by: str | None = None
    """The tenant key that requested the token, if any."""


_headers = msgspec.json.Decoder(Header)
_subject = msgspec.json.Decoder(TokenSubject)
_claims = msgspec.json.Decoder(Claims)
_our_claims = msgspec.json.Decoder(OurClaims)


def issue_time(now: int, revoked_at: int | None) -> int:
    """Return the issue time for a new token, in full seconds: now, or the second after the user's
    last revocation, if that is later.

    Without this, a token that is made in the same second as a revocation would be revoked too.
    """
    seconds = now // limits.SECOND_MS
    if revoked_at is not None:
        seconds = max(seconds, revoked_at // limits.SECOND_MS + 1)
    return seconds * limits.SECOND_MS


def sign(key: Ed25519PrivateKey, token: Token) -> str:
    """Return the signed token; the same content always gives the same text."""
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
    """Verify the signature and times of a token; return its content.

    The caller must limit the length of the token.

    Raises:
        Unauthenticated: The token is malformed, changed, signed with an unknown key, expired or
            not valid yet.
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
    key_id = KEY_ID.fullmatch(header.kid)
    if claims.iss != ISSUER or claims.nbf is None or key_id is None or claims.tid != key_id[1]:
        raise Unauthenticated
    _check(claims, now // limits.SECOND_MS)
    return _token(claims, header.kid, claims.sid, claims.mk)


async def _verify_own(token: str, header: Header, own: TenantIssuerKeys, now: int) -> Token:
    """Verify a token that a tenant signed, with a key that this tenant registered.

    Only tokens that Tidings signed may name a session or a tenant key. If this token names one, the
    name is ignored.
    """
    if header.typ not in (None, "JWT", TYPE):
        raise Unauthenticated
    tenant = _read(_subject, _part(token, 1)).tid
    found = await own.find(tenant, header.kid)
    if found is None or header.alg != found.algorithm:
        raise Unauthenticated
    claims = _read(_claims, _signed(token, found.key, found.algorithm))
    if claims.tid != tenant or found.issuer not in (None, claims.iss):
        raise Unauthenticated
    _check(claims, now // limits.SECOND_MS)
    proven = _token(claims, own_key_id(tenant, header.kid))
    # The tenant's clock may be ahead by the leeway. Subtract it, so that a token that was signed
    # before a revocation never seems to be issued after it.
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
    """Return the payload of a token that was signed with this key and its algorithm."""
    try:
        signed: bytes = _jws.decode(token, key, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise Unauthenticated from None
    return signed


def _read(decoder: "msgspec.json.Decoder[T]", raw: bytes) -> T:
    if raw.count(b"[") + raw.count(b"{") > _NESTED_MAX:
        raise Unauthenticated
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
        # The expiry was rounded up to whole seconds, the issue time down.
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
