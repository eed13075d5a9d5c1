# SPDX-License-Identifier: Apache-2.0
"""Tokens as an attacker, or a mistaken issuer, would write them."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from tests.support.clock import NOW
from tests.unit.small_deployment import SmallDeployment
from tidings.actions.identity.caller import TenantCaller, UserCaller
from tidings.model.refusals import Unauthenticated

SECONDS: Final = NOW // 1_000
ABSENT: Final = object()
"""In place of a value: leave the field out."""


def encode(part: bytes | Mapping[str, Any]) -> str:
    """One part of a token."""
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(raw).decode().rstrip("=")


PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey | RSAPrivateKey


def sign_as(key: PrivateKey, signed: bytes) -> bytes:
    """A signature in the form that tokens have for this kind of key."""
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(signed)
    if isinstance(key, RSAPrivateKey):
        return key.sign(signed, PKCS1v15(), SHA256())
    r, s = decode_dss_signature(key.sign(signed, ECDSA(SHA256())))
    return r.to_bytes(32) + s.to_bytes(32)


class Forge:
    """Makes tokens around one signing key, right in all that is not asked to be wrong."""

    def __init__(self, key_id: str, key: PrivateKey) -> None:
        self._key = key
        self.header: dict[str, Any] = {"alg": "EdDSA", "typ": "tidings+jwt", "kid": key_id}
        self.claims: dict[str, Any] = {
            "iss": "tidings",
            "aud": "tidings:user",
            "tid": "acme",
            "sub": "alice",
            "iat": SECONDS,
            "nbf": SECONDS,
            "exp": SECONDS + 60,
        }

    def with_header(self, **changed: Any) -> str:
        """A signed token whose header is changed."""
        return self.sign(_change(self.header, changed), self.claims)

    def with_claims(self, **changed: Any) -> str:
        """A signed token whose claims are changed."""
        return self.sign(self.header, _change(self.claims, changed))

    def sign(self, header: bytes | Mapping[str, Any], claims: bytes | Mapping[str, Any]) -> str:
        """A token with the right signature."""
        signed = f"{encode(header)}.{encode(claims)}"
        return f"{signed}.{encode(self._signature(signed.encode()))}"

    def _signature(self, signed: bytes) -> bytes:
        return sign_as(self._key, signed)

    def unsigned(self, alg: str) -> str:
        """A token that says it needs no signature, and has none."""
        return f"{encode(self.header | {'alg': alg})}.{encode(self.claims)}."

    def with_hmac(self, secret: bytes) -> str:
        """A token signed with HMAC under something everybody may know."""
        signed = f"{encode(self.header | {'alg': 'HS256'})}.{encode(self.claims)}"
        return f"{signed}.{encode(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


class OwnForge(Forge):
    """Makes tokens around a key that a tenant has registered under the name `one`."""

    def __init__(self, key: PrivateKey) -> None:
        super().__init__("one", key)
        self.key = key
        self.header = {"alg": self.jwk["alg"], "kid": "one"}
        del self.claims["iss"], self.claims["nbf"]

    @property
    def jwk(self) -> dict[str, str]:
        """The public key, as a tenant would register it."""
        public = self.key.public_key()
        if isinstance(public, Ed25519PublicKey):
            x = encode(public.public_bytes_raw())
            return {"kid": "one", "kty": "OKP", "crv": "Ed25519", "x": x, "alg": "EdDSA"}
        if isinstance(public, RSAPublicKey):
            n, e = public.public_numbers().n, public.public_numbers().e
            parts = {"n": encode(n.to_bytes((n.bit_length() + 7) // 8)), "e": encode(e.to_bytes(3))}
            return {"kid": "one", "kty": "RSA", "alg": "RS256", **parts}
        point = public.public_numbers()
        parts = {"x": encode(point.x.to_bytes(32)), "y": encode(point.y.to_bytes(32))}
        return {"kid": "one", "kty": "EC", "crv": "P-256", "alg": "ES256", **parts}


def _change(fields: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**fields, **changed}.items() if value is not ABSENT}


async def refused(world: SmallDeployment, bearer: str) -> bool:
    """Whether the credential is refused, and counted."""
    before = world.authenticate.refused
    with pytest.raises(Unauthenticated) as caught:
        await world.authenticate(bearer)
    assert str(caught.value) == Unauthenticated.title, "a refusal gives no reason away"
    return world.authenticate.refused == before + 1


async def accepted(world: SmallDeployment, bearer: str) -> bool:
    """Whether the credential is taken for one of a tenant or a user."""
    return isinstance(await world.authenticate(bearer), TenantCaller | UserCaller)
