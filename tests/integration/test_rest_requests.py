# SPDX-License-Identifier: Apache-2.0
"""How requests are read apart from their bodies: credentials, queries, paths, methods, headers."""

from typing import Final

import pytest
import pytest_asyncio

from tests.integration.rest_world import NOWHERE, Actor, Rest, address, problem
from tidings.api.app import OPERATIONS
from tidings.api.operations import Operation

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHOUT_QUERY: Final = [one for one in OPERATIONS if one.query is None]
WITH_KEY: Final = [one for one in OPERATIONS if one.key is not None]


@pytest_asyncio.fixture(loop_scope="module")
async def alice(rest: Rest) -> Actor:
    return await rest.user("alice")


@pytest.mark.attack("D15")
@pytest.mark.parametrize("one", WITHOUT_QUERY, ids=lambda one: one.name)
async def test_an_unknown_query_parameter_is_refused(rest: Rest, one: Operation) -> None:
    actor = await rest.caller_of(one)
    answer = await actor.call(one.method, f"{address(one)}?admin=1")
    if one.method == "HEAD":
        assert problem(answer) == (400, "")
        return
    assert problem(answer) == (400, "request.invalid")
    assert answer.json()["errors"] == [
        {"pointer": "/admin", "message": "admin is not a known parameter"}
    ]


@pytest.mark.parametrize("one", WITH_KEY, ids=lambda one: one.name)
async def test_a_credential_comes_before_everything_else(rest: Rest, one: Operation) -> None:
    answers = [
        await rest.nobody.call(one.method, address(one), {"unknown": 1}),
        await Actor(rest.http, "forger", "eyJhbGciOiJub25lIn0.e30.").call(one.method, address(one)),
        await Actor(rest.http, "guesser", f"sk_{'0' * 16}_{'A' * 43}").call(
            one.method, address(one)
        ),
        await rest.nobody.call(one.method, address(one), headers={"authorization": "Basic eDp5"}),
    ]
    for answer in answers:
        assert problem(answer) == (401, "" if one.method == "HEAD" else "auth.required")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_two_credentials_are_none(rest: Rest, alice: Actor) -> None:
    twice = [("Authorization", f"Bearer {alice.credential}")] * 2
    answer = await rest.http.get("/v1/me", headers=twice)
    assert problem(answer) == (401, "auth.required")


async def test_the_scheme_is_read_without_regard_to_case(rest: Rest, alice: Actor) -> None:
    answer = await rest.http.get("/v1/me", headers={"Authorization": f"bEARER {alice.credential}"})
    assert answer.json()["user_id"] == "alice"


async def test_a_host_that_cannot_be_one_is_refused(rest: Rest) -> None:
    answer = await rest.nobody.call("GET", "/healthz", headers={"Host": "a b/c"})
    assert problem(answer) == (400, "request.invalid")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "limit=1e1", "limit=5.0",
        "limit=%2B5", "limit=05", "limit=null", "limit=1&limit=2", "limit", "limit=%FF",
        "limit=" + "9" * 400, "offset=1", "&".join(f"p{n}=1" for n in range(30)),
    ],
)  # fmt: skip
async def test_a_query_is_read_strictly(alice: Actor, query: str) -> None:
    chat = await alice.group()
    for path in ("/v1/chats", f"/v1/chats/{chat}/messages", f"/v1/chats/{chat}/entries"):
        assert await alice.refused("GET", f"{path}?{query}") == (400, "request.invalid")


@pytest.mark.parametrize("name", ["before", "after"])
@pytest.mark.parametrize("value", ["-1", "x", "1.0", "null", str(2**53), ""])
async def test_a_sequence_in_a_query_is_bounded(alice: Actor, name: str, value: str) -> None:
    path = f"/v1/chats/{await alice.group()}/messages"
    assert await alice.refused("GET", f"{path}?{name}={value}") == (400, "request.invalid")
    assert (await alice.call("GET", f"{path}?{name}={2**53 - 1}")).status_code == 200


@pytest.mark.attack("D13")
async def test_a_path_means_one_thing(alice: Actor) -> None:
    chat = await alice.group()
    for twisted in (
        f"/v1/chats/{chat}%2Fmembers",
        f"/v1/chats/{chat}/",
        f"/v1/chats//{chat}",
        f"/v1//chats/{chat}",
        f"/v1/chats%2F{chat}",
        f"/v1/chats/{chat}%FF",
        "/v1/unknown",
        "/v1",
    ):
        answer = await alice.call("GET", twisted)
        assert answer.status_code in (404, 405), twisted
        problem(answer)
    assert (await alice.call("GET", f"/v1/chats/{chat}")).status_code == 200


async def test_a_line_feed_is_part_of_a_path(rest: Rest) -> None:
    """The router looks for the end of a path with a `$`, which is also found before a line feed."""
    for path in ("/healthz", "/docs", "/v1/chats", f"/v1/chats/{NOWHERE}/members"):
        assert await rest.nobody.refused("GET", f"{path}%0A") == (404, "not_found"), path


async def test_a_path_that_is_not_there_is_not_there_for_any_method(alice: Actor) -> None:
    for method in ("GET", "DELETE", "OPTIONS", "BREW"):
        for path in ("/v1/chats/", "//v1/chats", "/docs/", "/v1"):
            assert await alice.refused(method, path) == (404, "not_found"), (method, path)


async def test_a_fixed_name_in_a_path_goes_before_a_parameter(alice: Actor) -> None:
    answer = await alice.call("GET", "/v1/chats/leave")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_method_that_is_not_there_is_named_with_those_that_are(alice: Actor) -> None:
    answer = await alice.call("DELETE", "/v1/chats")
    assert problem(answer) == (405, "method.not_allowed")
    assert answer.headers["allow"] == "GET, POST"
    for method in ("BREW", "OPTIONS", "HEAD", "TRACE"):
        answer = await alice.call(method, "/v1/chats")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST"), method
    assert (await alice.call("OPTIONS", "/docs")).headers["allow"] == "GET, HEAD"


@pytest.mark.attack("D15")
async def test_nobody_is_who_a_header_says(alice: Actor) -> None:
    headers = {"X-Tenant-ID": "other", "X-User-Id": "bob", "X-Forwarded-User": "bob"}
    answer = await alice.call("GET", "/v1/me", headers=headers)
    assert answer.json()["user_id"] == "alice"


@pytest.mark.attack("D14")
async def test_every_answer_is_marked_as_private(rest: Rest, alice: Actor) -> None:
    answers = [
        await alice.call("GET", "/v1/chats"),
        await rest.nobody.call("GET", "/v1/chats"),
        await alice.call("GET", "/nowhere"),
        await alice.call("DELETE", "/v1/chats"),
        await rest.nobody.call("GET", "/docs"),
        await rest.nobody.call("OPTIONS", "/v1/chats"),
    ]
    for answer in answers:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)


async def test_a_plain_request_id_comes_back_and_another_is_replaced(rest: Rest) -> None:
    kept = await rest.nobody.call("GET", "/healthz", headers={"X-Request-Id": "trace-1.A_b"})
    assert kept.headers["x-request-id"] == "trace-1.A_b"
    for forged in ("", "a b", "x" * 65, "<script>"):
        answer = await rest.nobody.call("GET", "/healthz", headers={"X-Request-Id": forged})
        assert answer.headers["x-request-id"] != forged


async def test_a_line_in_the_log_has_the_id_of_its_request(
    rest: Rest, json_lines: list[dict[str, object]]
) -> None:
    acme, _ = await rest.tenant("acme"), await rest.tenant("globex")
    path = "/v1/tenants/globex/settings"
    answer = await acme.call("GET", path, headers={"X-Request-Id": "edge-7"})
    assert answer.status_code == 404
    (line,) = [told for told in json_lines if told["action"] == "cross_tenant"]
    assert (line["request"], line["wanted"]) == ("edge-7", "globex")
