# SPDX-License-Identifier: Apache-2.0
"""Tokens over REST: who may ask for what about keys, and when tokens stop counting."""

from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.integration.engines import long_engine as long_engine
from tests.integration.login_world import holder, log_in
from tests.integration.login_world import phones as phones
from tests.integration.login_world import rest as rest
from tests.integration.rest_world import Actor, Rest
from tests.support.phones import Phones
from tests.unit.forgery import OwnForge
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_AUTHENTICATED = (401, "auth.required")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def watching(rest: Rest) -> AsyncIterator[None]:
    """The process watches the feed, as a server does."""
    await rest.core.watch.start()
    yield
    await rest.core.watch.close()


@dataclass(frozen=True)
class Case:
    """Somebody with a token, how it ends, and how it can count again, if it can."""

    who: Actor
    end: Callable[[], Awaitable[object]]
    undo: Callable[[], Awaitable[object]] | None = None


def own_forge(rest: Rest, tenant: str) -> OwnForge:
    forge = OwnForge(Ed25519PrivateKey.generate())
    seconds = rest.clock.now() // 1_000
    forge.claims |= {"tid": tenant, "iat": seconds, "exp": seconds + 600}
    return forge


async def suspended(rest: Rest, _phones: Phones) -> Case:
    path = "/v1/tenants/s1"
    who = await rest.user("ann", "s1")
    return Case(
        who,
        lambda: rest.root.ok("PUT", path, {"suspended": True}),
        lambda: rest.root.ok("PUT", path, {"suspended": False}),
    )


async def deactivated(rest: Rest, _phones: Phones) -> Case:
    backend, path = await rest.tenant(), "/v1/tenants/acme/users/dora"
    return Case(await rest.user("dora"), lambda: backend.ok("PUT", path, {"deactivated": True}))


async def all_revoked(rest: Rest, _phones: Phones) -> Case:
    backend = await rest.tenant()
    path = "/v1/tenants/acme/users/rita/sessions"
    return Case(await rest.user("rita"), lambda: backend.ok("DELETE", path))


async def session_revoked(rest: Rest, phones: Phones) -> Case:
    tokens = await log_in(rest, phones)
    who = holder(rest, tokens)
    path = f"/v1/sessions/{tokens['session_id']}"
    return Case(who, lambda: who.ok("DELETE", path))


async def tenant_key_revoked(rest: Rest, _phones: Phones) -> Case:
    await rest.tenant()
    made = await rest.root.ok("POST", "/v1/tenants/acme/keys")
    backend = Actor(rest.http, "acme", made["key"])
    token = await backend.ok("POST", "/v1/tenants/acme/tokens", {"user_id": "kim"})
    path = f"/v1/tenants/acme/keys/{made['key_id']}"
    return Case(Actor(rest.http, "kim", token["token"]), lambda: rest.root.ok("DELETE", path))


async def signing_key_removed(rest: Rest, _phones: Phones) -> Case:
    who, backend = await rest.user("sid", "s2"), await rest.tenant("s2")
    path = "/v1/tenants/s2/signing-keys"
    [old] = (await backend.ok("GET", path))["data"]
    await backend.ok("POST", path)
    return Case(who, lambda: backend.ok("DELETE", f"{path}/{old['key_id']}"))


async def own_key_removed(rest: Rest, _phones: Phones) -> Case:
    forge, backend = own_forge(rest, "s3"), await rest.tenant("s3")
    path = "/v1/tenants/s3/token-issuer"
    await backend.ok("PUT", path, {"keys": [forge.jwk]})
    who = Actor(rest.http, "alice", forge.with_claims())
    return Case(who, lambda: backend.ok("DELETE", path))


async def own_key_replaced(rest: Rest, _phones: Phones) -> Case:
    forge, backend = own_forge(rest, "s4"), await rest.tenant("s4")
    path = "/v1/tenants/s4/token-issuer"
    await backend.ok("PUT", path, {"keys": [forge.jwk]})
    who = Actor(rest.http, "alice", forge.with_claims())
    other = own_forge(rest, "s4")
    return Case(who, lambda: backend.ok("PUT", path, {"keys": [other.jwk]}))


async def own_issuer_renamed(rest: Rest, _phones: Phones) -> Case:
    forge, backend = own_forge(rest, "s5"), await rest.tenant("s5")
    path = "/v1/tenants/s5/token-issuer"
    await backend.ok("PUT", path, {"keys": [forge.jwk]})
    who = Actor(rest.http, "alice", forge.with_claims())
    return Case(who, lambda: backend.ok("PUT", path, {"keys": [forge.jwk], "issuer": "other"}))


@pytest.mark.attack("A12", "A13", "A18")
@pytest.mark.parametrize(
    "make",
    [
        suspended,
        deactivated,
        all_revoked,
        session_revoked,
        tenant_key_revoked,
        signing_key_removed,
        own_key_removed,
        own_key_replaced,
        own_issuer_renamed,
    ],
)
async def test_a_token_stops_counting_when_the_feed_was_read(
    rest: Rest, phones: Phones, make: Callable[[Rest, Phones], Awaitable[Case]]
) -> None:
    bystander = await rest.user("bystander")
    case = await make(rest, phones)
    await case.who.ok("GET", "/v1/me")
    await bystander.ok("GET", "/v1/me")
    await case.end()
    assert await rest.core.watch.look()
    assert await case.who.refused("GET", "/v1/me") == NOT_AUTHENTICATED
    await bystander.ok("GET", "/v1/me")
    if case.undo is not None:
        await case.undo()
        await case.who.ok("GET", "/v1/me")


@pytest.mark.attack("A13")
async def test_a_suspended_tenant_s_key_and_tokens_are_like_wrong_ones(rest: Rest) -> None:
    backend, ann = await rest.tenant("paused"), await rest.user("ann", "paused")
    await rest.root.ok("PUT", "/v1/tenants/paused", {"suspended": True})
    await rest.core.watch.look()
    wrong = await Actor(rest.http, "wrong", f"sk_{'0' * 16}_{'A' * 43}").call("GET", "/v1/me")
    for who in (backend, ann):
        answer = await who.call("GET", "/v1/me")
        assert (answer.status_code, answer.json()) == (wrong.status_code, wrong.json())
    seen = await rest.root.ok("GET", "/v1/tenants/paused")
    assert seen["suspended_at"] is not None
    # Root may go on: to look after the tenant's users.
    await rest.root.ok("PUT", "/v1/tenants/paused/users/ann", {"display_name": "Ann"})


@pytest.mark.attack("A12")
async def test_a_token_made_right_after_all_were_revoked_counts(rest: Rest) -> None:
    backend, old = await rest.tenant(), await rest.user("uma")
    rest.clock.time += 250
    await backend.ok("DELETE", "/v1/tenants/acme/users/uma/sessions")
    new = await rest.user("uma")
    for _ in range(2):
        await new.ok("GET", "/v1/me")
        await rest.core.watch.look()
        assert await old.refused("GET", "/v1/me") == NOT_AUTHENTICATED


# --- Tenants


async def test_quotas_are_replaced_as_a_whole(rest: Rest) -> None:
    path = "/v1/tenants/quoted"
    names = ("users", "chats_per_day", "messages_per_day", "attachment_bytes_per_day")
    none = dict.fromkeys(names)
    made = await rest.root.ok("PUT", path, {"name": "Q"})
    assert (made["quotas"], made["suspended_at"]) == (none, None)
    some = await rest.root.ok("PUT", path, {"quotas": {"users": 5, "chats_per_day": 0}})
    assert some["quotas"] == {**none, "users": 5, "chats_per_day": 0}
    assert (await rest.root.ok("PUT", path, {"name": "R"}))["quotas"] == some["quotas"]
    other = await rest.root.ok("PUT", path, {"quotas": {"messages_per_day": 7}})
    assert other["quotas"] == {**none, "messages_per_day": 7}
    backend = await rest.tenant("quoted")
    seen = await backend.ok("GET", path)
    used = {**none, "users": 0, "messages_per_day": 0}
    assert seen == {**other, "name": "quoted", "used": used}


@pytest.mark.parametrize(
    "body", [{"quotas": {"users": -1}}, {"quotas": {"more": 1}}, {"suspended": "yes"}]
)
async def test_what_a_tenant_cannot_be_told(rest: Rest, body: dict[str, Any]) -> None:
    assert await rest.root.refused("PUT", "/v1/tenants/acme", body) == (400, "request.invalid")


# --- Signing keys


async def test_a_signing_key_is_replaced(rest: Rest) -> None:
    before, backend = await rest.user("eve", "keyed"), await rest.tenant("keyed")
    path = "/v1/tenants/keyed/signing-keys"
    [first] = (await backend.ok("GET", path))["data"]
    assert first["signs"]
    second = await backend.ok("POST", path)
    assert [row["signs"] for row in (await backend.ok("GET", path))["data"]] == [True, False]
    assert await backend.refused("POST", path) == (409, "limit.reached")
    after = await rest.user("eve", "keyed")
    assert jwt.get_unverified_header(str(after.credential))["kid"] == second["key_id"]
    for who in (before, after):
        await who.ok("GET", "/v1/me")
    refused = await backend.refused("DELETE", f"{path}/{second['key_id']}")
    assert refused == (409, "conflict")
    await backend.ok("DELETE", f"{path}/{first['key_id']}")
    gone = await backend.refused("DELETE", f"{path}/{first['key_id']}")
    assert gone == (404, "key.not_found")
    assert await backend.refused("DELETE", f"{path}/nothing") == (404, "key.not_found")
    await after.ok("GET", "/v1/me")


async def test_anybody_can_check_our_tokens(rest: Rest) -> None:
    ann = await rest.user("ann", "published")
    answer = await rest.nobody.call("GET", "/.well-known/jwks.json?tenant=published")
    assert answer.headers["cache-control"] == "public, max-age=300"
    [key] = jwt.PyJWKSet.from_dict(answer.json()).keys
    claims = jwt.decode(
        str(ann.credential),
        key,
        algorithms=["EdDSA"],
        audience="tidings:user",
        issuer="tidings",
        options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
    )
    assert (claims["tid"], claims["sub"]) == ("published", "ann")
    assert "d" not in answer.json()["keys"][0]
    assert len(urlsafe_b64decode(answer.json()["keys"][0]["x"] + "=")) == 32


async def test_keys_of_nobody_are_none(rest: Rest) -> None:
    path = "/.well-known/jwks.json"
    assert await rest.nobody.ok("GET", f"{path}?tenant=nobody-here") == {"keys": []}
    for query in ("", "?tenant=", "?tenant=A", "?tenant=..%2Facme", "?tenant=a&tenant=b"):
        assert await rest.nobody.refused("GET", f"{path}{query}") == (400, "request.invalid")


# --- A tenant's own keys


async def test_own_keys_are_registered_shown_and_taken_away(rest: Rest) -> None:
    backend, path = await rest.tenant("own"), "/v1/tenants/own/token-issuer"
    assert await backend.refused("GET", path) == (404, "key.not_found")
    forge = own_forge(rest, "own")
    spelled = {**forge.jwk, "use": "sig", "x5t": "left out"}
    put = await backend.ok("PUT", path, {"keys": [spelled], "issuer": "https://own.example"})
    assert put["keys"] == [{**forge.jwk, "use": "sig"}]
    assert await backend.ok("GET", path) == put
    who = Actor(rest.http, "alice", forge.with_claims(iss="https://own.example"))
    assert (await who.ok("GET", "/v1/me"))["user_id"] == "alice"
    assert await who.refused("GET", path) == (403, "auth.forbidden")
    await backend.ok("DELETE", path)
    assert await backend.refused("DELETE", path) == (404, "key.not_found")


@pytest.mark.attack("A02")
async def test_other_keys_are_refused_with_a_pointer(rest: Rest) -> None:
    backend, path = await rest.tenant("own"), "/v1/tenants/own/token-issuer"
    good = own_forge(rest, "own").jwk
    secret = {"kid": "two", "kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}
    ours = {**good, "kid": "own.0123456789abcdef"}
    for keys, pointer in (
        ([], "/keys"),
        ([{**good, "kid": f"k{n}"} for n in range(limits.ISSUER_KEYS_MAX + 1)], "/keys"),
        ([good, secret], "/keys/1"),
        ([{**good, "d": good["x"]}], "/keys/0"),
        ([good, good], "/keys/1/kid"),
        ([ours], "/keys/0/kid"),
    ):
        answer = await backend.call("PUT", path, {"keys": keys})
        assert answer.status_code == 400, keys
        assert answer.json()["errors"][0]["pointer"] == pointer
        assert good["x"] not in answer.text
