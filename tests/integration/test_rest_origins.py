# SPDX-License-Identifier: Apache-2.0
"""Pages of other origins, and headers that keep browsers from harm."""

import ipaddress
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.integration.rest_world import Rest, open_rest
from tidings.api.access import Access

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "https://app.example.com"
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rest]:
    proxies = (ipaddress.ip_network("127.0.0.1"),)
    access = Access(None, proxies, frozenset({APP, "http://localhost:3000"}))
    async with open_rest(tmp_path_factory.mktemp("rest"), access=access) as opened:
        yield opened


async def options(rest: Rest, path: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await rest.http.request("OPTIONS", path, headers=named)


@pytest.mark.parametrize("path", ["/v1/chats", "/v1/me", "/v1/nowhere", "/healthz"])
async def test_a_page_on_the_list_may_ask(rest: Rest, path: str) -> None:
    answer = await options(rest, path, Origin=APP, **ASKS)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["vary"] == "Origin"
    assert "POST" in answer.headers["access-control-allow-methods"].split(", ")
    allowed = answer.headers["access-control-allow-headers"].lower().split(", ")
    assert {"authorization", "content-type", "idempotency-key"} <= set(allowed)
    assert int(answer.headers["access-control-max-age"]) > 0
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "*",
        "",
        "http://app.example.com",
        "https://app.example.com.evil.tld",
        "https://evil.tld/https://app.example.com",
        "https://evilapp.example.com",
        "https://sub.app.example.com",
        "https://app.example.com:443",
        "https://app.example.com/",
        "https://APP.example.com",
        "https://app.example.com, https://evil.tld",
    ],
)
async def test_no_other_page_may(rest: Rest, origin: str) -> None:
    preflight = await options(rest, "/v1/chats", Origin=origin, **ASKS)
    assert preflight.status_code == 405
    alice = await rest.user("alice")
    answer = await alice.call("GET", "/v1/me", headers={"Origin": origin})
    assert answer.status_code == 200
    for one in (preflight, answer):
        assert not [name for name in one.headers if name.startswith("access-control")]
        assert one.headers["vary"] == "Origin"


async def test_two_origins_are_none(rest: Rest) -> None:
    headers = [("Origin", APP), ("Origin", "https://evil.tld")]
    answer = await rest.http.get("/healthz", headers=headers)
    assert "access-control-allow-origin" not in answer.headers


async def test_answers_to_a_page_can_be_read_with_their_headers(rest: Rest) -> None:
    alice = await rest.user("alice")
    for path, status in (("/v1/me", 200), ("/v1/users/nobody", 404), ("/v1/nowhere", 404)):
        answer = await alice.call("GET", path, headers={"Origin": APP})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == APP
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        assert {"Retry-After", "RateLimit", "X-Request-Id", "Idempotent-Replay"} <= set(exposed)


async def test_an_answer_has_no_header_of_the_one_before(rest: Rest) -> None:
    """Pages and the answer to preflights are made once; each request completes their headers."""
    first = {"Origin": APP, "X-Forwarded-Proto": "https", "X-Request-Id": "first"}
    for method, path in (("GET", "/docs"), ("OPTIONS", "/v1/me")):
        await rest.http.request(method, path, headers={**first, **ASKS})
        again = {"Origin": APP, **ASKS} if method == "OPTIONS" else {}
        headers = (await rest.http.request(method, path, headers=again)).headers
        assert headers["x-request-id"] != "first"
        assert "strict-transport-security" not in headers
        assert ("access-control-allow-origin" in headers) == (method == "OPTIONS")


async def test_options_that_ask_for_nothing_are_refused_as_ever(rest: Rest) -> None:
    assert (await options(rest, "/v1/me", Origin=APP)).status_code == 405
    assert (await options(rest, "/v1/me", **ASKS)).status_code == 405


@pytest.mark.attack("E08")
async def test_every_answer_is_kept_out_of_frames_and_guesses(rest: Rest) -> None:
    for path in ("/about", "/docs", "/healthz", "/v1/me", "/nowhere"):
        headers = (await rest.http.get(path)).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


async def test_browsers_are_told_to_stay_with_https_where_it_was_used(rest: Rest) -> None:
    secure = await rest.http.get("/", headers={"X-Forwarded-Proto": "https"})
    assert secure.headers["strict-transport-security"] == "max-age=31536000"
    for said in ({}, {"X-Forwarded-Proto": "http"}, {"X-Forwarded-Proto": "https, http"}):
        assert "strict-transport-security" not in (await rest.http.get("/", headers=said)).headers


@pytest.mark.attack("D16")
async def test_only_a_trusted_proxy_can_say_that_it_was(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with open_rest(tmp_path_factory.mktemp("rest"), access=Access()) as rest:
        answer = await rest.http.get("/about", headers={"X-Forwarded-Proto": "https"})
        assert "strict-transport-security" not in answer.headers
        assert "vary" not in answer.headers


async def test_a_cache_is_told_of_all_that_an_answer_depends_on(rest: Rest) -> None:
    answer = await rest.http.get("/", headers={"Origin": APP})
    assert answer.headers["vary"] == "Accept-Encoding, Origin"
    assert answer.headers["access-control-allow-origin"] == APP
