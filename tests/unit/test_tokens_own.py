# SPDX-License-Identifier: Apache-2.0
"""Tokens that a tenant signs with keys of its own, and the same attacks on them."""

from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.clock import NOW
from tests.unit.forgery import (
    ABSENT,
    SECONDS,
    Forge,
    OwnForge,
    PrivateKey,
    accepted,
    encode,
    refused,
)
from tests.unit.small_deployment import ALICE, ROOT, SmallDeployment, open_small_deployment
from tidings.actions.identity.caller import UserCaller
from tidings.actions.identity.signing_keys import STALE_MS
from tidings.model import limits


@cache
def private_key(algorithm: str) -> PrivateKey:
    if algorithm == "EdDSA":
        return Ed25519PrivateKey.generate()
    if algorithm == "ES256":
        return generate_private_key(SECP256R1())
    return generate_rsa(65_537, 2_048)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        await opened.put_tenant(ROOT, "acme", None)
        await opened.put_tenant(ROOT, "beta", None)
        yield opened


@pytest.fixture(params=["EdDSA", "ES256", "RS256"])
async def forge(request: pytest.FixtureRequest, world: SmallDeployment) -> OwnForge:
    """A key of acme's own, registered."""
    made = OwnForge(private_key(request.param))
    await world.token_issuers.put(ROOT, "acme", None, [made.jwk])
    return made


async def test_a_token_of_a_registered_key_proves_who_it_is_for(
    world: SmallDeployment, forge: OwnForge
) -> None:
    assert await world.store.users.get(ALICE) is None
    caller = await world.authenticate(forge.with_claims(dev="phone"))
    # Counted as signed as much earlier as the tenant's clock may be ahead.
    signed_at = NOW - limits.TOKEN_LEEWAY_SECONDS * 1_000
    assert caller == UserCaller(
        ALICE, "phone", NOW + 60_000, issued_at=signed_at, key_id="acme.own.one"
    )
    assert await world.store.users.get(ALICE) is not None, "the user is made at first sight"


@pytest.mark.parametrize("typ", [ABSENT, "JWT", "tidings+jwt"])
async def test_the_type_may_be_left_out(
    world: SmallDeployment, forge: OwnForge, typ: object
) -> None:
    assert await accepted(world, forge.with_header(typ=typ))


@pytest.mark.attack("A15")
async def test_sessions_and_keys_are_not_a_tenant_s_to_name(
    world: SmallDeployment, forge: OwnForge
) -> None:
    caller = await world.authenticate(forge.with_claims(sid="s1", mk="k1", more={"a": [1]}))
    assert isinstance(caller, UserCaller)
    assert (caller.session, caller.made_by) == (None, None)


@pytest.mark.attack("A01")
@pytest.mark.parametrize("alg", ["none", "None", "", "EdDSA", "ES256", "RS256"])
async def test_no_signature(world: SmallDeployment, forge: OwnForge, alg: str) -> None:
    assert await refused(world, forge.unsigned(alg))


@pytest.mark.attack("A02")
async def test_hmac_with_the_public_key(world: SmallDeployment, forge: OwnForge) -> None:
    public = forge.key.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, pem.strip(), der, str(forge.jwk).encode(), b""):
        assert await refused(world, forge.with_hmac(secret))


@pytest.mark.attack("A02")
async def test_another_algorithm_than_the_key_s(world: SmallDeployment, forge: OwnForge) -> None:
    others = {"EdDSA", "ES256", "RS256", "RS384", "PS256", "ES384", "HS256"} - {forge.jwk["alg"]}
    for alg in sorted(others):
        assert await refused(world, forge.with_header(alg=alg))
    for algorithm in others & {"EdDSA", "ES256", "RS256"}:
        other = Forge("one", private_key(algorithm))
        other.header, other.claims = {"alg": algorithm, "kid": "one"}, forge.claims
        assert await refused(world, other.with_claims())


@pytest.mark.attack("A03")
@pytest.mark.parametrize(
    "kid",
    [
        "../../dev/null",
        "one' OR '1'='1",
        "https://evil.example/jwks",
        "two",
        "acme.own.one",
        "one\0",
        "one ",
        "",
        "o" * 65,
        1,
        None,
        ["one"],
        {"kid": "one"},
        ABSENT,
    ],
)
async def test_names_of_keys_that_are_not_registered(
    world: SmallDeployment, forge: OwnForge, kid: object
) -> None:
    assert await refused(world, forge.with_header(kid=kid))


@pytest.mark.attack("A03")
async def test_keys_that_a_token_brings_along(world: SmallDeployment, forge: OwnForge) -> None:
    attacker = OwnForge(Ed25519PrivateKey.generate())
    evil = "https://evil.example/jwks"
    brought = {"jwk": attacker.jwk, "jku": evil, "x5u": evil, "x5c": ["AAAA"]}
    assert await refused(world, attacker.with_header(**brought))
    assert await accepted(world, forge.with_header(**brought)), "they are ignored"


@pytest.mark.attack("A03", "A07")
async def test_a_tenant_s_key_signs_for_no_other_tenant(
    world: SmallDeployment, forge: OwnForge
) -> None:
    assert await refused(world, forge.with_claims(tid="beta"))
    victim = OwnForge(Ed25519PrivateKey.generate())
    await world.token_issuers.put(ROOT, "beta", None, [victim.jwk])
    assert await refused(world, forge.with_claims(tid="beta"))
    assert await accepted(world, victim.with_claims(tid="beta"))


@pytest.mark.attack("A03")
async def test_a_registered_key_never_passes_for_one_of_ours(
    world: SmallDeployment, forge: OwnForge
) -> None:
    key_id, _ = await world.signing.signer("acme")
    ours = {"typ": "tidings+jwt", "kid": key_id}
    claims = {**forge.claims, "iss": "tidings", "nbf": SECONDS, "sid": "s1"}
    for alg in ("EdDSA", forge.jwk["alg"]):
        assert await refused(world, forge.sign({"alg": alg, **ours}, claims))


@pytest.mark.attack("A04")
@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "tidings:refresh"},
        {"aud": ["tidings:user"]},
        {"aud": "https://acme.example"},
        {"aud": ABSENT},
        {"aud": None},
        {"tid": ABSENT},
        {"tid": 7},
        {"tid": "ACME"},
        {"tid": "acme:alice"},
        {"tid": "../acme"},
        {"sub": ABSENT},
        {"sub": "beta:alice"},
        {"sub": "al ice"},
        {"dev": "not a device"},
        {"iss": 7},
    ],
)
async def test_claims_out_of_order(
    world: SmallDeployment, forge: OwnForge, claims: dict[str, Any]
) -> None:
    assert await refused(world, forge.with_claims(**claims))


@pytest.mark.attack("A04")
async def test_the_issuer_is_the_one_registered(world: SmallDeployment, forge: OwnForge) -> None:
    await world.token_issuers.put(ROOT, "acme", "https://acme.example", [forge.jwk])
    for wrong in ("https://acme.example/", "tidings", "", ABSENT):
        assert await refused(world, forge.with_claims(iss=wrong))
    assert await accepted(world, forge.with_claims(iss="https://acme.example"))


@pytest.mark.attack("A05")
@pytest.mark.parametrize("typ", ["at+jwt", "dpop+jwt", "logout+jwt", "refresh", "", 7])
async def test_tokens_of_another_type(world: SmallDeployment, forge: OwnForge, typ: object) -> None:
    assert await refused(world, forge.with_header(typ=typ))


@pytest.mark.attack("A06")
@pytest.mark.parametrize(
    "claims",
    [
        {"exp": ABSENT},
        {"exp": str(SECONDS + 60)},
        {"exp": 1e308},
        {"exp": -1},
        {"exp": 2**80},
        {"exp": None},
        {"exp": True},
        {"exp": SECONDS - limits.TOKEN_LEEWAY_SECONDS},
        {"exp": SECONDS + limits.TOKEN_SECONDS_MAX + 2},
        {"iat": ABSENT},
        {"iat": SECONDS + limits.TOKEN_LEEWAY_SECONDS + 1},
        {"nbf": SECONDS + limits.TOKEN_LEEWAY_SECONDS + 1},
        {"nbf": "soon"},
    ],
)
async def test_times_that_do_not_hold(
    world: SmallDeployment, forge: OwnForge, claims: dict[str, Any]
) -> None:
    assert await refused(world, forge.with_claims(**claims))


@pytest.mark.attack("A08")
async def test_too_much_of_everything(world: SmallDeployment, forge: OwnForge) -> None:
    deep = b'{"a":' + b"[" * 2_500 + b"]" * 2_500 + b"}"
    whose = b'{"tid":"acme","a":' + b"[" * 2_500 + b"]" * 2_500 + b"}"
    head = encode(forge.header)
    for bearer in (
        forge.with_claims(x="y" * 100_000),
        forge.sign(deep, forge.claims),
        forge.sign(forge.header, deep),
        forge.sign(forge.header, whose),
        forge.with_header(zip="DEF"),
        forge.with_header(crit=["b64"], b64=False),
        head,
        f"{head}.",
        f"{head}..",
        f"{head}.!!!.",
        f"{head}.{encode(b'[]')}.",
    ):
        assert await refused(world, bearer)


@pytest.mark.attack("A08")
async def test_changed_or_cut_tokens(world: SmallDeployment, forge: OwnForge) -> None:
    header, claims, signature = forge.with_claims().split(".")
    other = forge.with_claims(sub="bob").split(".")[1]
    for bearer in (
        f"{header}.{other}.{signature}",
        f"{header}.{claims}.{signature[:-8]}",
        f"{header}.{claims}.{signature}.{signature}",
    ):
        assert await refused(world, bearer)


@pytest.mark.attack("A18")
async def test_a_flood_of_unknown_names_reaches_the_store_once(
    world: SmallDeployment, forge: OwnForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    real = world.store.tenants.issuer

    async def count(tenant: str) -> Any:
        reads.append(tenant)
        return await real(tenant)

    monkeypatch.setattr(world.store.tenants, "issuer", count)
    for n in range(100):
        assert await refused(world, forge.with_header(kid=f"k{n}"))
    assert reads == ["acme"]
    world.clock.time += STALE_MS
    assert await refused(world, forge.with_header(kid="k0"))
    assert reads == ["acme", "acme"], "later it may be there"
