# SPDX-License-Identifier: Apache-2.0
"""Attacks on user tokens, by their numbers in the list of attacks: A01 to A06, A08."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.unit.forgery import ABSENT, SECONDS, Forge, accepted, encode, refused
from tests.unit.small_deployment import ROOT, SmallDeployment, open_small_deployment
from tidings.model import limits


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        await opened.put_tenant(ROOT, "acme", None)
        await opened.put_tenant(ROOT, "beta", None)
        yield opened


@pytest.fixture
async def forge(world: SmallDeployment) -> Forge:
    return Forge(*await world.signing.signer("acme"))


# --- A01 to A03: algorithms and keys that a token chooses


@pytest.mark.attack("A01")
@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", "EdDSA"])
async def test_a01_no_signature(world: SmallDeployment, forge: Forge, alg: str) -> None:
    assert await refused(world, forge.unsigned(alg))


@pytest.mark.attack("A02")
async def test_a02_hmac_with_the_public_key(world: SmallDeployment, forge: Forge) -> None:
    public = (await world.signing.signer("acme"))[1].public_key()
    for secret in (
        public.public_bytes_raw(),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        b"",
    ):
        assert await refused(world, forge.with_hmac(secret))


@pytest.mark.attack("A03")
@pytest.mark.parametrize(
    "kid",
    [
        "../../etc/passwd",
        "' OR 1=1 --",
        "https://evil.example/key",
        "acme",
        "acme.",
        "acme.0123456789abcdef",
        "nobody.0123456789abcdef",
        "acme.0123456789abcdef\n",
        "",
        7,
        None,
        ["acme"],
        ABSENT,
    ],
)
async def test_a03_key_ids_that_are_none_of_ours(
    world: SmallDeployment, forge: Forge, kid: object
) -> None:
    assert await refused(world, forge.with_header(kid=kid))


@pytest.mark.attack("A03")
async def test_a03_keys_that_a_token_brings_along(world: SmallDeployment, forge: Forge) -> None:
    own = Ed25519PrivateKey.generate()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": encode(own.public_key().public_bytes_raw())}
    brought = {"jwk": jwk, "jku": "https://evil.example/jwks", "x5u": "https://evil.example/x"}
    attacker = Forge(forge.header["kid"], own)
    assert await refused(world, attacker.with_header(**brought))
    assert await accepted(world, forge.with_header(**brought)), "they are ignored"


@pytest.mark.attack("A03")
async def test_a03_another_tenant_s_key(world: SmallDeployment, forge: Forge) -> None:
    beta = Forge(*await world.signing.signer("beta"))
    assert await refused(world, beta.with_claims()), "beta signs for acme"
    assert await refused(world, beta.with_header(kid=forge.header["kid"]))
    assert await accepted(world, beta.with_claims(tid="beta"))


# --- A04 to A06: claims


@pytest.mark.attack("A04")
@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "tidings2"},
        {"iss": ABSENT},
        {"aud": "tidings:refresh"},
        {"aud": ["tidings:user"]},
        {"aud": ABSENT},
        {"tid": "beta"},
        {"tid": ABSENT},
        {"sub": ABSENT},
        {"sub": ""},
        {"sub": "al ice"},
        {"sub": "beta:alice"},
        {"sub": "a" * 65},
        {"sub": 7},
        {"dev": "not a device"},
        {"dev": ""},
    ],
)
async def test_a04_claims_that_are_not_ours(
    world: SmallDeployment, forge: Forge, claims: dict[str, Any]
) -> None:
    assert await refused(world, forge.with_claims(**claims))


@pytest.mark.attack("A05")
@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "tidings-refresh+jwt", "", None, ABSENT])
async def test_a05_tokens_of_another_type(
    world: SmallDeployment, forge: Forge, typ: object
) -> None:
    assert await refused(world, forge.with_header(typ=typ))


@pytest.mark.attack("A06")
@pytest.mark.parametrize(
    "claims",
    [
        {"exp": ABSENT},
        {"iat": ABSENT},
        {"nbf": ABSENT},
        {"exp": SECONDS - 10},
        {"exp": str(SECONDS + 60)},
        {"exp": 1e308},
        {"exp": -1},
        {"exp": 2**40},
        {"exp": 2**80},
        {"exp": True},
        {"exp": None},
        {"exp": SECONDS + limits.TOKEN_SECONDS_MAX + 2},
        {"nbf": SECONDS + 11},
        {"iat": SECONDS + 11},
    ],
)
async def test_a06_times_that_do_not_hold(
    world: SmallDeployment, forge: Forge, claims: dict[str, Any]
) -> None:
    assert await refused(world, forge.with_claims(**claims))


@pytest.mark.attack("A06", "H11")
@pytest.mark.parametrize("claims", [{"exp": SECONDS - 9}, {"nbf": SECONDS + 10, "iat": SECONDS}])
async def test_a06_clocks_may_differ_a_little(
    world: SmallDeployment, forge: Forge, claims: dict[str, Any]
) -> None:
    assert await accepted(world, forge.with_claims(**claims))


@pytest.mark.attack("A06")
async def test_a06_a_token_once_verified_expires_all_the_same(world: SmallDeployment) -> None:
    token = (await world.make_token(ROOT, "acme", "alice", None, 60)).token
    assert await accepted(world, token)
    world.clock.time += 60_000 + limits.TOKEN_LEEWAY_SECONDS * 1_000 - 1
    assert await accepted(world, token)
    world.clock.time += 1
    assert await refused(world, token)
    assert await refused(world, token)


# --- A08: too much of everything


@pytest.mark.attack("A08")
async def test_a08_large_and_deep_tokens(world: SmallDeployment, forge: Forge) -> None:
    deep = b'{"a":' + b"[" * 2_500 + b"]" * 2_500 + b"}"
    shallow = json.dumps(forge.header)[1:].encode()
    in_header = b'{"x":' + b"[" * 2_000 + b"]" * 2_000 + b"," + shallow
    for bearer in (
        "a" * 100_000,
        forge.with_claims(x="y" * 100_000),
        forge.sign(deep, forge.claims),
        forge.sign(forge.header, deep),
        forge.sign(in_header, forge.claims),
    ):
        assert await refused(world, bearer)


@pytest.mark.attack("A08")
@pytest.mark.parametrize(
    "header", [{"zip": "DEF"}, {"enc": "A256GCM", "alg": "dir"}, {"crit": ["b64"], "b64": False}]
)
async def test_a08_compression_and_extensions(
    world: SmallDeployment, forge: Forge, header: dict[str, Any]
) -> None:
    assert await refused(world, forge.with_header(**header))


@pytest.mark.attack("A08")
@pytest.mark.parametrize(
    "bearer",
    ["", " ", ".", "..", "...", "a.b.c", "é.é.é", "e30.e30.e30", "\ud800", "sk_", "sk_x_y", "a\0b"],
)
async def test_a08_no_token_at_all(world: SmallDeployment, bearer: str) -> None:
    assert await refused(world, bearer)


@pytest.mark.attack("A08")
async def test_a08_changed_or_cut_tokens(world: SmallDeployment, forge: Forge) -> None:
    good = forge.with_claims()
    header, claims, signature = good.split(".")
    other = forge.with_claims(sub="bob").split(".")[1]
    for bearer in (
        f"{header}.{other}.{signature}",
        f"{header}.{claims}",
        f"{header}.{claims}.",
        f"{good}.",
        f"{header}.{claims}.{signature[:-8]}",
        f"{header}.{claims}.{signature}.{signature}",
    ):
        assert await refused(world, bearer)
