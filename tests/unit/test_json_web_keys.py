# SPDX-License-Identifier: Apache-2.0
"""Which public keys a tenant may register, and what it is told about the others."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa

from tests.unit.forgery import ABSENT, OwnForge, encode
from tidings.actions.identity.json_web_keys import BadKey, ed25519_key, read_key

EDWARDS = OwnForge(Ed25519PrivateKey.generate()).jwk
ELLIPTIC = OwnForge(generate_private_key(SECP256R1())).jwk
RSA = OwnForge(generate_rsa(65_537, 2_048)).jwk


def changed(key: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {name: value for name, value in {**key, **fields}.items() if value is not ABSENT}


@pytest.mark.parametrize("given", [EDWARDS, ELLIPTIC, RSA], ids=lambda key: str(key["alg"]))
def test_a_key_is_kept_with_its_one_algorithm(given: dict[str, str]) -> None:
    for spelled in (given, changed(given, alg=ABSENT), changed(given, use="sig", x5t="abc")):
        key = read_key(spelled)
        assert (key.kid, key.alg, key.use) == ("one", given["alg"], "sig")
        assert key == read_key(given)


def test_one_of_ours_is_written_the_same_way() -> None:
    public = Ed25519PrivateKey.generate().public_key()
    key = ed25519_key("acme.0123456789abcdef", public)
    raw = key.public()
    assert raw.public_bytes_raw() == public.public_bytes_raw()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (changed(EDWARDS, d="AAAA"), "private"),
        (changed(ELLIPTIC, d="AAAA"), "private"),
        (changed(RSA, d="AAAA", p="AAAA", q="AAAA"), "private"),
        ({"kid": "one", "kty": "oct", "k": "AAAA", "alg": "HS256"}, "private"),
        ({"kid": "one", "kty": "oct", "alg": "HS256"}, "kty"),
        (changed(EDWARDS, kty=ABSENT), "kty"),
        (changed(EDWARDS, kty=["OKP"]), "kty"),
        (changed(EDWARDS, kid=ABSENT), "kid"),
        (changed(EDWARDS, kid="a/b"), "kid"),
        (changed(EDWARDS, kid="a" * 65), "kid"),
        (changed(EDWARDS, kid=7), "kid"),
        (changed(EDWARDS, crv="Ed448"), "crv"),
        (changed(EDWARDS, crv=ABSENT), "crv"),
        (changed(ELLIPTIC, crv="P-384"), "crv"),
        (changed(ELLIPTIC, crv="secp256k1"), "crv"),
        (changed(RSA, crv="P-256"), "crv"),
        (changed(EDWARDS, alg="HS256"), "alg"),
        (changed(RSA, alg="PS256"), "alg"),
        (changed(RSA, alg="none"), "alg"),
        (changed(EDWARDS, use="enc"), "use"),
        (changed(EDWARDS, x=ABSENT), "x must be present"),
        (changed(EDWARDS, x=7), "x must be present"),
        (changed(EDWARDS, x="AAAA"), "32 bytes"),
        (changed(EDWARDS, x="!" * 43), "base64url"),
        (changed(EDWARDS, x=f"{EDWARDS['x']}="), "base64url"),
        (changed(ELLIPTIC, y=ELLIPTIC["x"]), "numbers"),
        (changed(ELLIPTIC, x=encode(bytes(32)), y=encode(bytes(32))), "numbers"),
        (changed(ELLIPTIC, y=ABSENT), "x and y must be present"),
        (OwnForge(generate_rsa(65_537, 1_024)).jwk, "2048"),
        (changed(RSA, n=encode(b"\xff" * 513)), "4096"),
        (changed(RSA, n=""), "base64url"),
        (changed(RSA, e=encode(b"\x01")), "odd"),
        (changed(RSA, e=encode(b"\x03")), "odd"),
        (changed(RSA, e=encode(b"\x01\x00\x02")), "odd"),
        (changed(RSA, e=encode(b"\xff" * 5)), "odd"),
    ],
)
def test_other_keys_are_refused_with_a_word_why(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadKey, match=reason):
        read_key(given)
