# SPDX-License-Identifier: Apache-2.0
"""How bodies are read: JSON of the declared type and nothing else, within bounds."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio

from tests.integration.conformance import DOCUMENT
from tests.integration.rest_world import TENANT, Actor, Json, Rest, address, problem
from tidings.api.app import OPERATIONS
from tidings.api.operations import Operation
from tidings.api.requests import Body
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITH_BODY: Final = [one for one in OPERATIONS if one.body]
OF_KNOWN_FIELDS: Final = [
    one for one in WITH_BODY if isinstance(one.body, type) and issubclass(one.body, Body)
]
SERVER_FIELDS: Final = (
    "sender_id", "tenant_id", "sequence", "created_at", "message_id", "role_of", "unread", "status",
)  # fmt: skip


@pytest_asyncio.fixture(loop_scope="module")
async def alice(rest: Rest) -> Actor:
    return await rest.user("alice")


async def send_raw(actor: Actor, body: bytes, **headers: str) -> httpx.Response:
    given = {"content-type": "application/json", **headers}
    return await actor.call("POST", "/v1/chats", headers=given, content=body)


@pytest.mark.attack("D06", "E13")
@pytest.mark.parametrize("one", OF_KNOWN_FIELDS, ids=lambda one: one.name)
async def test_an_unknown_field_is_refused_by_name(rest: Rest, one: Operation) -> None:
    actor = await rest.caller_of(one)
    for name in SERVER_FIELDS:
        answer = await actor.call(one.method, address(one), {name: "mine"})
        assert problem(answer) == (400, "request.invalid"), one.name
        assert answer.json()["errors"][0]["pointer"] == f"/{name}"


@pytest.mark.attack("E05")
@pytest.mark.parametrize("one", WITH_BODY, ids=lambda one: one.name)
async def test_a_body_of_another_shape_is_refused(rest: Rest, one: Operation) -> None:
    actor = await rest.caller_of(one)
    fields = set(getattr(one.body, "__struct_fields__", ())) - {"metadata"}  # any object
    bodies: list[object] = [[], "text", 7, None, True, *({field: {"deep": []}} for field in fields)]
    for body in bodies:
        answer = await actor.call(
            one.method,
            address(one),
            headers={"content-type": "application/json"},
            content=json.dumps(body).encode(),
        )
        assert problem(answer) == (400, "request.invalid"), body


@pytest.mark.attack("A08", "E01")
async def test_however_deep_a_body_is_it_is_refused_and_never_a_failure(rest: Rest) -> None:
    backend = await rest.tenant()
    # Between those depths one reader gives up and another does not yet.
    for depth in (100, *range(900, 1_010), 100_000):
        answer = await backend.call(
            "PUT",
            f"/v1/tenants/{TENANT}/token-issuer",
            headers={"content-type": "application/json"},
            content=b'{"keys":[{"kid":' + b"[" * depth + b"]" * depth + b"}]}",
        )
        assert problem(answer) == (400, "request.invalid"), depth


@pytest.mark.parametrize("one", WITH_BODY, ids=lambda one: one.name)
async def test_a_body_may_be_left_out_only_where_the_document_says_so(
    rest: Rest, one: Operation
) -> None:
    actor = await rest.caller_of(one)
    answer = await actor.call(one.method, address(one))
    described = DOCUMENT["paths"][one.path][one.method.lower()]["requestBody"]
    is_refused = answer.status_code == 400
    assert is_refused == described["required"], answer.text


@pytest.mark.attack("E01", "E02", "E03")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b'{"type": "group", "members": [], "name": "\xff"}',
        b'{"type": "group", "members": [], "name": "\xed\xa0\x80"}',
        rb'{"type": "group", "members": [], "name": "\ud800"}',
        b'{"type": "group", "members": [], "name": NaN}',
        b'{"type": "group", "members": [], "name": 1e999999}',
        b'{"type": "group", "members": [], "name": ' + b"9" * 10_000 + b"}",
        b'{"type": "group", "type": "direct", "members": ["bob"]}',
        b'{"type": "direct", "members": ["bob"], "members": ["carol"]}',
        b"[" * 100_000,
        b'{"a":' * 40_000,
        b'{"members": ' + b"[" * 32 + b"]" * 32 + b"}",
        b'"' + rb"\"" * 120_000,
    ],
    ids=range(16),
)
async def test_what_is_not_one_json_object_is_refused(alice: Actor, body: bytes) -> None:
    assert problem(await send_raw(alice, body)) == (400, "request.invalid")


async def test_brackets_in_text_are_not_nesting(alice: Actor) -> None:
    name = "[{" * 40 + '"\\' + "[" * 40
    answer = await alice.call("POST", "/v1/chats", {"type": "group", "name": name, "members": []})
    assert answer.json()["name"] == name


async def test_a_body_is_json_in_utf8_and_not_compressed(rest: Rest, alice: Actor) -> None:
    body = json.dumps({"type": "group", "name": "Team", "members": []}).encode()
    refused: list[tuple[bytes, Json]] = [
        (body, {"content-type": "text/plain"}),
        (body, {"content-type": "application/x-www-form-urlencoded"}),
        (body, {"content-type": "multipart/form-data; boundary=x"}),
        (body, {"content-type": "application/json; charset=utf-16"}),
        (gzip.compress(body), {"content-encoding": "gzip"}),
    ]
    for content, headers in refused:
        answer = await send_raw(alice, content, **headers)
        assert problem(answer) == (415, "request.media_type"), headers
    for media_type in ("application/json;charset=UTF-8", "Application/JSON"):
        answer = await send_raw(alice, body, **{"content-type": media_type})
        assert answer.status_code == 201


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(alice: Actor) -> None:
    largest = b'{"type": "group", "name": "Team", "members": []}'.ljust(
        limits.REQUEST_BODY_BYTES_MAX
    )
    assert (await send_raw(alice, largest)).status_code == 201
    assert problem(await send_raw(alice, largest + b" ")) == (413, "request.too_large")

    async def in_chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * (limits.REQUEST_BODY_BYTES_MAX // 4)

    headers = {
        "authorization": f"Bearer {alice.credential}",
        "content-type": "application/json",
    }
    answer = await alice.http.post("/v1/chats", headers=headers, content=in_chunks())
    assert problem(answer) == (413, "request.too_large")


async def test_a_body_that_breaks_off_is_no_error_of_ours(rest: Rest, alice: Actor) -> None:
    arriving: list[Json] = [
        {"type": "http.request", "body": b'{"type":', "more_body": True},
        {"type": "http.disconnect"},
    ]
    answered: list[Json] = []

    async def receive() -> Json:
        return arriving.pop(0)

    async def send(message: Json) -> None:
        answered.append(message)

    headers = {
        b"authorization": f"Bearer {alice.credential}".encode(),
        b"content-type": b"application/json",
    }
    app: Any = rest.app
    await app(scope_of("POST", "/v1/chats", headers), receive, send)
    assert answered[0]["status"] == 400
    assert b"incomplete" in answered[1]["body"]


def scope_of(method: str, path: str, headers: dict[bytes, bytes]) -> Json:
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": list(headers.items()), "client": None, "server": None,
    }  # fmt: skip
