# SPDX-License-Identifier: Apache-2.0
"""Tokens as an attacker, or a mistaken issuer, would write them."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.worlds import NOW, World
from tidings.actions.identity import TenantCaller, UserCaller
from tidings.model.refusals import Unauthenticated

SECONDS: Final = NOW // 1_000
ABSENT: Final = object()
"""In place of a value: leave the field out."""


def encode(part: bytes | Mapping[str, Any]) -> str:
    """One part of a token."""
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(raw).decode().rstrip("=")


class Forge:
    """Makes tokens around one signing key, right in all that is not asked to be wrong."""

    def __init__(self, key_id: str, key: Ed25519PrivateKey) -> None:
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
        return f"{signed}.{encode(self._key.sign(signed.encode()))}"

    def unsigned(self, alg: str) -> str:
        """A token that says it needs no signature, and has none."""
        return f"{encode(self.header | {'alg': alg})}.{encode(self.claims)}."

    def with_hmac(self, secret: bytes) -> str:
        """A token signed with HMAC under something everybody may know."""
        signed = f"{encode(self.header | {'alg': 'HS256'})}.{encode(self.claims)}"
        return f"{signed}.{encode(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def _change(fields: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**fields, **changed}.items() if value is not ABSENT}


async def refused(world: World, bearer: str) -> bool:
    """Whether the credential is refused, and counted."""
    before = world.authenticate.refused
    with pytest.raises(Unauthenticated) as caught:
        await world.authenticate(bearer)
    assert str(caught.value) == Unauthenticated.title, "a refusal gives no reason away"
    return world.authenticate.refused == before + 1


async def accepted(world: World, bearer: str) -> bool:
    """Whether the credential is taken for one of a tenant or a user."""
    return isinstance(await world.authenticate(bearer), TenantCaller | UserCaller)
