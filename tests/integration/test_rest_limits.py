# SPDX-License-Identifier: Apache-2.0
"""Rate limits over REST: what is counted, what answers tell, and what a flood gets."""

import ipaddress
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.integration.rest_world import TENANT, Actor, Rest, open_rest, problem
from tidings.actions.rate_limits import RateLimits
from tidings.api.access import Access
from tidings.limiters import InProcessBuckets
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOME = "203.0.113.9"
OTHER = "198.51.100.7"
SMALL = {
    "USER_REQUESTS_PER_SECOND": 20,
    "USER_REQUESTS_BURST": 200,
    "USER_SENDS_PER_SECOND": 20,
    "USER_SENDS_BURST": 200,
    "TENANT_KEY_REQUESTS_PER_SECOND": 500,
    "TENANT_KEY_REQUESTS_BURST": 5_000,
    "ADDRESS_REQUESTS_PER_SECOND": 100,
    "ADDRESS_REQUESTS_BURST": 1_000,
    "UNKNOWN_WRONG_CREDENTIALS_BURST": 80,
}


@dataclass
class LimitTime:
    """Stands still until it is moved."""

    now_us: int = 0


@dataclass
class LimitedRest:
    """An application behind a proxy, and the time of its limits."""

    rest: Rest
    time: LimitTime

    def fill(self) -> None:
        """Let all buckets fill again."""
        self.time.now_us += 3_600 * 1_000_000


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def _world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LimitedRest]:
    time_of_limits = LimitTime()
    buckets = InProcessBuckets(lambda: time_of_limits.now_us * 1_000)
    proxies = (ipaddress.ip_network("127.0.0.1"),)
    access = Access(RateLimits(buckets, buckets), proxies)
    async with open_rest(tmp_path_factory.mktemp("rest"), access=access) as rest:
        with pytest.MonkeyPatch.context() as patch:
            # Small ones, which few requests empty.
            for name, rate in SMALL.items():
                patch.setattr(limits, name, rate)
            yield LimitedRest(rest, time_of_limits)


@pytest_asyncio.fixture(loop_scope="module")
async def world(_world: LimitedRest) -> LimitedRest:
    _world.fill()
    return _world


def at(address: str) -> dict[str, str]:
    """The headers with which the proxy passes on who calls."""
    return {"X-Forwarded-For": address}


async def me(user: Actor, address: str = HOME) -> httpx.Response:
    return await user.call("GET", "/v1/me", headers=at(address))


async def test_every_answer_tells_what_is_left(world: LimitedRest) -> None:
    alice = await world.rest.user("alice")
    world.fill()
    answer = await me(alice)
    assert answer.headers["ratelimit-policy"] == '"user";q=200;w=10, "address";q=1000;w=10'
    assert answer.headers["ratelimit"] == '"user";r=199;t=1'
    answer = await me(alice)
    assert answer.headers["ratelimit"] == '"user";r=198;t=1'
    missing = await alice.call("GET", "/v1/users/nobody", headers=at(HOME))
    assert (missing.status_code, missing.headers["ratelimit"]) == (404, '"user";r=197;t=1')


async def test_who_is_neither_counted_nor_told(world: LimitedRest) -> None:
    root = await world.rest.root.call("GET", f"/v1/tenants/{TENANT}")
    assert "ratelimit" not in root.headers, "root, from this machine itself"
    for _ in range(limits.ADDRESS_REQUESTS_BURST + 10):
        health = await world.rest.nobody.call("GET", "/healthz", headers=at(HOME))
        assert (health.status_code, "ratelimit" in health.headers) == (200, False)


@pytest.mark.attack("F01")
async def test_a_flood_of_one_user_gets_429_and_nobody_else_does(world: LimitedRest) -> None:
    alice, bob = await world.rest.users("alice", "bob")
    world.fill()
    for _ in range(limits.USER_REQUESTS_BURST):
        assert (await me(alice)).status_code == 200
    refused = await me(alice)
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["ratelimit"] == '"user";r=0;t=10'
    assert (await me(bob)).status_code == 200
    world.time.now_us += 50_000
    assert (await me(alice)).status_code == 200
    assert problem(await me(alice)) == (429, "rate.limited")


@pytest.mark.attack("F01")
async def test_messages_have_a_bucket_of_their_own(world: LimitedRest) -> None:
    alice, _ = await world.rest.users("alice", "bob")
    chat = await alice.direct("bob")
    world.fill()
    body = {"client_message_id": "m1", "content": "hello"}
    sent = await alice.call("POST", f"/v1/chats/{chat}/messages", body, headers=at(HOME))
    policies = sent.headers["ratelimit-policy"]
    assert policies == '"messages";q=200;w=10, "user";q=200;w=10, "address";q=1000;w=10'
    assert sent.headers["ratelimit"] == '"messages";r=199;t=1'


async def test_one_address_of_many_users(world: LimitedRest) -> None:
    users = await world.rest.users(*(f"user-{number}" for number in range(6)))
    world.fill()
    for number in range(limits.ADDRESS_REQUESTS_BURST):
        assert (await me(users[number % 6])).status_code == 200
    refused = await me(users[0])
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["ratelimit"].startswith('"address";r=0;')
    assert (await me(users[0], OTHER)).status_code == 200


@pytest.mark.attack("D16")
async def test_an_address_that_the_caller_invents_counts_for_nothing(world: LimitedRest) -> None:
    for number in range(limits.ADDRESS_REQUESTS_BURST):
        spoofed = at(f"10.0.{number // 250}.{number % 250}, {HOME}")
        assert (await world.rest.nobody.call("GET", "/docs", headers=spoofed)).status_code == 200
    refused = await world.rest.nobody.call("GET", "/docs", headers=at(f"127.0.0.1, {HOME}"))
    assert refused.status_code == 429


@pytest.mark.attack("A16")
async def test_wrong_keys_get_429_and_right_ones_are_still_let_in(world: LimitedRest) -> None:
    alice = await world.rest.user("alice")
    world.fill()
    key = "sk_0123456789abcdef_" + "A" * 43
    for number in range(limits.ADDRESS_WRONG_CREDENTIALS_BURST):
        wrong = Actor(world.rest.http, "thief", key if number % 2 else f"guess-{number}")
        assert problem(await me(wrong)) == (401, "auth.required")
    refused = await me(Actor(world.rest.http, "thief", key))
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["retry-after"] == "1"
    policies = refused.headers["ratelimit-policy"]
    assert policies == '"credentials";q=60;w=60, "address";q=1000;w=10'
    assert refused.headers["ratelimit"].startswith('"credentials";r=0;')
    assert problem(await me(world.rest.nobody)) == (429, "rate.limited")
    assert problem(await me(world.rest.nobody, OTHER)) == (401, "auth.required")
    assert (await me(alice)).status_code == 200, "who has the right key does not suffer for others"


@pytest.mark.attack("S11", "A16")
async def test_wrong_keys_through_a_proxy_that_nobody_named_get_429_too(world: LimitedRest) -> None:
    async def call(key: str) -> httpx.Response:
        return await Actor(world.rest.http, "somebody", key).call("GET", f"/v1/tenants/{TENANT}")

    for number in range(limits.UNKNOWN_WRONG_CREDENTIALS_BURST):
        assert problem(await call(f"root-{number}")) == (401, "auth.required")
    refused = await call("root")
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["ratelimit-policy"] == '"credentials";q=80;w=8'
    assert world.rest.root.credential is not None
    assert (await call(world.rest.root.credential)).status_code == 200


@pytest.mark.attack("A16")
async def test_a_flood_of_made_up_keys_reaches_the_store_no_oftener_than_its_address_may_ask(
    world: LimitedRest,
) -> None:
    alice = await world.rest.user("alice")
    world.fill()
    authenticate = world.rest.core.authenticate
    looked_up_before = authenticate.refused

    async def guess(count: int) -> int:
        """How many credentials were looked up since the flood began."""
        for number in range(count):
            key = f"sk_{number:016x}_{'A' * 43}"
            assert (await me(Actor(world.rest.http, "thief", key))).status_code in (401, 429)
        return authenticate.refused - looked_up_before

    assert await guess(limits.ADDRESS_REQUESTS_BURST + 50) == limits.ADDRESS_REQUESTS_BURST
    refused = await me(alice)
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["ratelimit-policy"] == '"address";q=1000;w=10', "nobody asked who it is"
    world.time.now_us += 1_000_000
    most = limits.ADDRESS_REQUESTS_BURST + limits.ADDRESS_REQUESTS_PER_SECOND
    assert await guess(limits.ADDRESS_REQUESTS_PER_SECOND + 50) == most
    elsewhere = await me(alice, OTHER)
    assert elsewhere.headers["ratelimit"] == '"user";r=199;t=1'


@pytest.mark.attack("A16")
async def test_logging_in_is_for_people(world: LimitedRest) -> None:
    body = {"tenant": TENANT, "phone_number": "+41791234567", "code": "000000", "device": "phone"}

    async def log_in(address: str) -> httpx.Response:
        return await world.rest.nobody.call("POST", "/v1/auth/sessions", body, headers=at(address))

    for _ in range(limits.ADDRESS_LOGINS_BURST):
        assert (await log_in(HOME)).status_code == 401
    refused = await log_in(HOME)
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["ratelimit-policy"].startswith('"login";q=100;w=100')
    assert (await log_in(OTHER)).status_code == 401


async def test_an_office_full_of_people_can_refresh_at_once(world: LimitedRest) -> None:
    body = {"refresh_token": f"rt_{'0' * 26}_{'A' * 43}"}
    for _ in range(2 * limits.ADDRESS_LOGINS_BURST):
        answer = await world.rest.nobody.call("POST", "/v1/auth/refresh", body, headers=at(HOME))
        assert problem(answer) == (401, "session.ended")


async def test_a_tenants_backend_may_ask_much_more(world: LimitedRest) -> None:
    backend = await world.rest.tenant()
    world.fill()
    answer = await backend.call("GET", f"/v1/tenants/{TENANT}/settings", headers=at(HOME))
    assert '"tenant-key";q=5000;w=10' in answer.headers["ratelimit-policy"]


async def test_without_limits_nothing_is_counted_or_told(tmp_path: Path) -> None:
    async with open_rest(tmp_path, access=Access()) as rest:
        alice = await rest.user("alice")
        for _ in range(limits.USER_REQUESTS_BURST + 20):
            answer = await me(alice)
            assert (answer.status_code, "ratelimit" in answer.headers) == (200, False)


async def left_after(user: Actor, method: str, path: str, body: object = None) -> int:
    """How many tokens an answer says are left."""
    answer = await user.call(method, path, body, headers=at(HOME))
    assert answer.status_code < 300, answer.text
    policies = answer.headers["ratelimit-policy"]
    assert policies.count('"user"') + policies.count('"tenant-key"') == 1
    return int(answer.headers["ratelimit"].split(";r=")[1].split(";")[0])


@pytest.mark.attack("F04")
async def test_requests_take_what_they_cost(world: LimitedRest) -> None:
    names = [f"member-{number}" for number in range(12)]
    alice, *_ = await world.rest.users("alice", *names)
    chat = await alice.direct("member-0")
    group = {"type": "group", "name": "Some", "members": names}
    contacts = {"phone_numbers": [f"+4179123{number:04}" for number in range(21)]}
    for method, path, body, cost in (
        ("GET", "/v1/me", None, 1),
        ("GET", f"/v1/chats/{chat}", None, 1),
        ("GET", f"/v1/chats/{chat}/messages", None, 1),
        ("GET", f"/v1/chats/{chat}/messages?limit=51", None, 2),
        ("GET", f"/v1/chats/{chat}/entries?limit=100", None, 2),
        ("GET", f"/v1/chats/{chat}/members", None, 4),
        ("GET", "/v1/chats?limit=5", None, 1),
        ("GET", "/v1/chats", None, 10),
        ("GET", "/v1/chats?limit=100", None, 20),
        ("POST", "/v1/chats", {"type": "direct", "members": ["member-0"]}, 1),
        ("POST", "/v1/chats", group, 3),
        ("POST", "/v1/contacts", contacts, 3),
    ):
        world.fill()
        left = await left_after(alice, method, path, body)
        assert (path, left) == (path, limits.USER_REQUESTS_BURST - cost)


@pytest.mark.attack("F06", "E04")
async def test_a_post_costs_by_the_users_it_is_for(world: LimitedRest) -> None:
    backend = await world.rest.tenant()
    await backend.call("PUT", f"/v1/tenants/{TENANT}/inboxes/news", {"title": "News"})
    path = f"/v1/tenants/{TENANT}/inboxes/news/notifications"
    full = limits.TENANT_KEY_REQUESTS_BURST
    for audience, cost in (
        ({"kind": "users", "uids": ["ann"]}, 1),
        ({"kind": "users", "uids": [f"u{number}" for number in range(950)]}, 10),
        ({"kind": "everyone"}, limits.BROADCAST_TOKENS),
    ):
        world.fill()
        # The address has fewer tokens than a tenant's key: from this machine it is not counted.
        answer = await backend.call(
            "POST", path, {"audience": audience, "message": {"title": "Hi", "body": "there"}}
        )
        assert answer.status_code == 202, answer.text
        assert answer.headers["ratelimit"].startswith(f'"tenant-key";r={full - cost};')


@pytest.mark.attack("F04")
async def test_what_costs_more_than_is_left_is_refused_and_told_when_to_come_back(
    world: LimitedRest,
) -> None:
    alice, _ = await world.rest.users("alice", "bob")
    world.fill()
    for _ in range(limits.USER_REQUESTS_BURST // 20):
        answer = await alice.call("GET", "/v1/chats?limit=100", headers=at(HOME))
        assert answer.status_code == 200
    refused = await alice.call("GET", "/v1/chats?limit=100", headers=at(HOME))
    assert problem(refused) == (429, "rate.limited")
    assert refused.headers["retry-after"] == "1", "20 tokens at 20 a second"
    world.time.now_us += 500_000
    assert problem(await alice.call("GET", "/v1/chats?limit=100")) == (429, "rate.limited")
    assert (await me(alice)).status_code == 200, "what is cheap is let through sooner"


async def test_a_query_that_makes_no_sense_costs_no_more_than_a_plain_request(
    world: LimitedRest,
) -> None:
    alice = await world.rest.user("alice")
    world.fill()
    answer = await alice.call("GET", "/v1/chats?limit=1e2", headers=at(HOME))
    assert problem(answer) == (400, "request.invalid")
    assert answer.headers["ratelimit"] == '"user";r=199;t=1'
