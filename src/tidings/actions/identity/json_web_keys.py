# SPDX-License-Identifier: Apache-2.0
"""Read and write public keys as JSON Web Keys; each accepted key type has one algorithm."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

Algorithm = Literal["EdDSA", "ES256", "RS256"]
PublicKey = Ed25519PublicKey | EllipticCurvePublicKey | RSAPublicKey

ALGORITHMS: Final[tuple[Algorithm, ...]] = ("EdDSA", "ES256", "RS256")
RSA_BITS_MIN: Final = 2_048
RSA_BITS_MAX: Final = 4_096
KID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
_ELLIPTIC_BYTES: Final = 32
_CURVE_OF: Final = {"OKP": "Ed25519", "EC": "P-256"}
_PARTS: Final = {"OKP": ("x",), "EC": ("x", "y"), "RSA": ("n", "e")}
_ALGORITHM_OF: Final[dict[str, Algorithm]] = {"OKP": "EdDSA", "EC": "ES256", "RSA": "RS256"}


class BadKey(ValueError):
    """A key that we do not accept. The message is shown to the sender, and gives the reason."""


class JsonWebKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A public key, reduced to the fields that we store."""

    kid: str
    kty: str
    alg: Algorithm
    crv: str | None = None
    x: str | None = None
    y: str | None = None
    n: str | None = None
    e: str | None = None
    use: Literal["sig"]

    def public(self) -> PublicKey:
        """Return the key as an object of the cryptography library.

        Raises:
            BadKey: The numbers do not form a key of this type.
        """
        try:
            if self.kty == "OKP":
                return Ed25519PublicKey.from_public_bytes(_raw(self.x, _ELLIPTIC_BYTES))
            if self.kty == "EC":
                x, y = (int.from_bytes(_raw(part, _ELLIPTIC_BYTES)) for part in (self.x, self.y))
                return EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
            return _rsa(int.from_bytes(_raw(self.n)), int.from_bytes(_raw(self.e)))
        except BadKey:
            raise
        except ValueError:
            raise BadKey("the numbers do not form a public key of this type") from None


class JsonWebKeySet(msgspec.Struct, frozen=True):
    """A set of public keys in the standard exchange format (JWKS)."""

    keys: list[JsonWebKey]


def read_key(given: Mapping[str, Any]) -> JsonWebKey:
    """Return the public key in a JSON object; other fields are dropped.

    Raises:
        BadKey: The key is private, symmetric, too weak, malformed or of an unsupported type.
    """
    if not _PRIVATE.isdisjoint(given):
        raise BadKey("contains private parts: send only the public key")
    kid, kty = given.get("kid"), given.get("kty")
    if not isinstance(kid, str) or KID.fullmatch(kid) is None:
        raise BadKey("kid must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
    if not isinstance(kty, str) or kty not in _ALGORITHM_OF:
        raise BadKey("kty must be OKP, EC or RSA")
    if given.get("crv") != _CURVE_OF.get(kty):
        raise BadKey(f"crv must be {_CURVE_OF.get(kty, 'absent')} for {kty}")
    if given.get("alg", _ALGORITHM_OF[kty]) != _ALGORITHM_OF[kty]:
        raise BadKey(f"alg must be {_ALGORITHM_OF[kty]} for {kty}, or absent")
    if given.get("use", "sig") != "sig":
        raise BadKey("use must be sig, or absent")
    parts = {name: given.get(name) for name in _PARTS[kty]}
    if not all(isinstance(part, str) for part in parts.values()):
        raise BadKey(f"{' and '.join(parts)} must be present as text")
    key = JsonWebKey(
        kid=kid, kty=kty, alg=_ALGORITHM_OF[kty], crv=given.get("crv"), use="sig", **parts
    )
    key.public()
    return key


def ed25519_key(key_id: str, key: Ed25519PublicKey) -> JsonWebKey:
    """Return the public half of a signing key as a JSON Web Key, with which others can verify
    tokens."""
    x = urlsafe_b64encode(key.public_bytes_raw()).decode().rstrip("=")
    return JsonWebKey(kid=key_id, kty="OKP", alg="EdDSA", crv="Ed25519", x=x, use="sig")


def _raw(text: str | None, size: int | None = None) -> bytes:
    if text is None or _BASE64URL.fullmatch(text) is None:
        raise BadKey("the numbers must be base64url without padding")
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if size is not None and len(raw) != size:
        raise BadKey(f"the coordinates must have {size} bytes")
    return raw


def _rsa(n: int, e: int) -> RSAPublicKey:
    if not RSA_BITS_MIN <= n.bit_length() <= RSA_BITS_MAX:
        raise BadKey(f"n must have {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")
    if not 2**16 < e < 2**32 or e % 2 == 0 or n % 2 == 0:
        raise BadKey("e must be odd, above 65536 and below 2 to the power of 32")
    return RSAPublicNumbers(e, n).public_key()
