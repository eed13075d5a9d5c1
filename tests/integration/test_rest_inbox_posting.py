# SPDX-License-Identifier: Apache-2.0
"""Posting to an inbox: what is taken, what is refused, and what a repeat does."""

import json
from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import (
    Newsroom,
    open_newsroom,
    to_everyone,
    to_users,
)
from tests.integration.inbox_world import delivering as delivering
from tests.integration.rest_world import Json, Rest, problem
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = (400, "request.invalid")
TOO_LARGE = (413, "request.too_large")


def message(**fields: Any) -> Json:
    """A request whose message has these fields."""
    return {**to_everyone("x"), "message": {"title": "x", "body": "y", **fields}}


def audience(**fields: Any) -> Json:
    """A request for this audience."""
    return {**to_everyone("x"), "audience": fields}


@pytest.mark.attack("D12")
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (audience(kind="users", uids=[]), "/audience/uids"),
        (audience(kind="users"), "/audience/uids"),
        (audience(kind="nobody"), "/audience/kind"),
        (audience(), "/audience/kind"),
        (audience(kind="everyone", uids=["ann"]), "/audience/uids"),
        (audience(kind="users", uids=["ann", "b#b"]), "/audience/uids/1"),
        (audience(kind="users", uids=["ann", "U#ann"]), "/audience/uids/1"),
        (audience(kind="users", uids=["*"]), "/audience/uids/0"),
        (audience(kind="users", uids=["acme:ann"]), "/audience/uids/0"),
        (audience(kind="users", uids=["ann\n"]), "/audience/uids/0"),
        (audience(kind="users", uids=["Ａnn"]), "/audience/uids/0"),
        (audience(kind="users", uids=["e\u0301"]), "/audience/uids/0"),
        (audience(kind="users", uids=["\u00e9"]), "/audience/uids/0"),
        (audience(kind="users", uids=["x" * 65]), "/audience/uids/0"),
        (audience(kind="users", uids=[7]), "/audience/uids/0"),
        (audience(kind="everyone", label="x" * 201), "/audience/label"),
        ({"audience": {"kind": "everyone"}}, "/message"),
        (message(title=""), "/message/title"),
        (message(title="  "), "/message/title"),
        (message(title=7), "/message/title"),
        (message(body=None), "/message/body"),
        (message(color="red"), "/message/color"),
        ({**to_everyone("x"), "category": "*"}, "/category"),
        ({**to_everyone("x"), "category": "a#b"}, "/category"),
        ({**to_everyone("x"), "category": ""}, "/category"),
        ({**to_everyone("x"), "sender": "x" * 201}, "/sender"),
        ({**to_everyone("x"), "host_system_id": "x" * 256}, "/host_system_id"),
        ({**to_everyone("x"), "extra": 1}, "/extra"),
    ],
)
async def test_what_cannot_be_posted(rest: Rest, body: Json, pointer: str) -> None:
    news = await open_newsroom(rest, "refusing")
    answer = await news.try_post(body)
    assert problem(answer) == INVALID
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    ann = await news.user("ann")
    assert (await ann.page())["data"] == []


@pytest.mark.attack("E08")
@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)", " JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "JAVASCRIPT:x",
        "javascript\n:alert(1)", "\x01javascript:alert(1)", "\u00a0javascript:x", "data:,x",
        "DATA:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:x", "about:blank", "http://a.example/",
        "HTTP://a.example/", "//a.example/", "/path", "path", "https:", "https:///x", "https:x",
        "https://a.example/ x", "https://a.example/\n", "https://a.example/\u200b", ":x", "1a:x",
        "app:", "", 7,
    ],
)  # fmt: skip
async def test_links_that_are_better_not_followed(rest: Rest, link: object) -> None:
    news = await open_newsroom(rest, "refusing")
    answer = await news.try_post(message(cta_uri=link))
    assert problem(answer) == INVALID
    assert answer.json()["errors"][0]["pointer"] == "/message/cta_uri"


@pytest.mark.parametrize(
    "link",
    ["https://a.example", "HTTPS://a.example/x?y#z", "myapp://open/7", "tel:+4912345", None],
)
async def test_links_that_are_taken(rest: Rest, link: str | None) -> None:
    news = await open_newsroom(rest, "links")
    posted = await news.post(message(cta_uri=link))
    ann = await news.user("ann")
    (shown,) = [one for one in (await ann.page())["data"] if one["id"] == posted["id"]]
    assert shown["message"]["cta_uri"] == link


@pytest.mark.attack("E07")
@pytest.mark.parametrize(
    "field", [("title", limits.TITLE_BYTES_MAX), ("body", limits.BODY_BYTES_MAX)]
)
async def test_texts_have_a_longest_length_in_bytes(rest: Rest, field: tuple[str, int]) -> None:
    news = await open_newsroom(rest, "lengths")
    name, most = field
    await news.post(message(**{name: "x" * most}))
    await news.post(message(**{name: "é" * (most // 2)}))
    for text in ("x" * (most + 1), "é" * (most // 2) + "x"):
        answer = await news.try_post(message(**{name: text}))
        assert problem(answer) == (413, "content.too_large")
    link = "https://a.example/" + "x" * (limits.LINK_BYTES_MAX - 18)
    await news.post(message(cta_uri=link))
    assert problem(await news.try_post(message(cta_uri=link + "x"))) == (413, "content.too_large")
    await news.post(message(body=""))


async def raw(news: Newsroom, body: bytes) -> tuple[int, str]:
    headers = {"content-type": "application/json"}
    path = f"{news.path}/notifications"
    return problem(await news.actor.call("POST", path, headers=headers, content=body))


@pytest.mark.attack("E04")
async def test_a_request_has_at_most_so_many_uids_and_bytes(rest: Rest) -> None:
    news = await open_newsroom(rest, "crowded")
    most = limits.AUDIENCE_USERS_MAX
    many = to_users([f"u{number}" for number in range(most + 1)], "x")
    assert problem(await news.try_post(many)) == TOO_LARGE
    million = to_users([f"u{number}" for number in range(1_000_000)], "x")
    assert problem(await news.try_post(million)) == TOO_LARGE
    small = json.dumps(to_users(["a"] * 1_000_000, "x"), separators=(",", ":")).encode()
    assert len(small) < limits.POST_BODY_BYTES_MAX
    assert await raw(news, small) == TOO_LARGE
    long = json.dumps(to_everyone("x")).encode().ljust(limits.POST_BODY_BYTES_MAX + 1)
    assert await raw(news, long) == TOO_LARGE
    # What all other routes take is not more than before.
    answer = await news.actor.call(
        "PUT",
        news.path,
        headers={"content-type": "application/json"},
        content=b'{"title": "x"}'.ljust(limits.REQUEST_BODY_BYTES_MAX + 1),
    )
    assert problem(answer) == TOO_LARGE


def crowded(uids: list[str], text: str = "") -> bytes:
    """A post to these users with this text, as small as it can be written."""
    body = to_users(uids, "x", message={"title": "x", "body": text})
    return json.dumps(body, separators=(",", ":")).encode()


async def test_as_many_users_as_there_may_be_pass_with_any_text(rest: Rest) -> None:
    news = await open_newsroom(rest, "crowded")
    uids = [f"{number:064}" for number in range(limits.AUDIENCE_USERS_MAX - 1)]
    for text in ("," * limits.BODY_BYTES_MAX, '"' * limits.BODY_BYTES_MAX):
        # The last one is refused by name: all before it were read, and nothing is delivered.
        assert await raw(news, crowded([*uids, "b#b"], text)) == INVALID
    more = ["a"] * (limits.BODY_PARTS_MAX - limits.AUDIENCE_USERS_MAX)
    assert await raw(news, crowded([*uids, *more, "b#b"])) == TOO_LARGE


@pytest.mark.attack("E04")
@pytest.mark.parametrize("part", [b"{},", b"[],", b"1,", b'{"a":1},', b'"",'])
async def test_a_body_of_many_small_parts_is_refused_unread(rest: Rest, part: bytes) -> None:
    news = await open_newsroom(rest, "crowded")
    start = b'{"audience":{"kind":"everyone"},"message":{"title":"x","body":"","x":['
    assert await raw(news, start + part * limits.BODY_PARTS_MAX + b"1]}}") == TOO_LARGE


@pytest.mark.attack("E04")
async def test_names_count_as_well(rest: Rest) -> None:
    news = await open_newsroom(rest, "crowded")
    own_fields = {f"n{number}": "" for number in range(limits.BODY_PARTS_MAX // 2)}
    assert problem(await news.try_post(message(**own_fields))) == TOO_LARGE


@pytest.mark.parametrize(
    "path", ["/v1/tenants/{}/inboxes/{}/notifications", "/stack/admin/v1/{}/{}/messages/post"]
)
async def test_a_body_is_read_only_for_who_may_post(rest: Rest, path: str) -> None:
    news = await open_newsroom(rest, "crowded")
    own, ann, other = news.actor, await rest.user("ann"), await rest.tenant("others")
    bodies = (b"{", b'{"message":{"x":[' + b"{}," * limits.BODY_PARTS_MAX)
    for body, read in zip(bodies, (INVALID, TOO_LARGE), strict=True):
        for actor, expected in (
            (own, read),
            (rest.root, read),
            (ann, (403, "auth.forbidden")),
            (other, (404, "tenant.not_found")),
        ):
            answer = await actor.call(
                "POST",
                path.format("acme", "crowded"),
                headers={"content-type": "application/json"},
                content=body,
            )
            assert problem(answer) == expected


async def test_a_body_of_the_largest_size_is_taken(rest: Rest) -> None:
    news = await open_newsroom(rest, "largest")
    body = json.dumps(to_users(["ann"], "x")).encode().ljust(limits.POST_BODY_BYTES_MAX)
    answer = await news.actor.call(
        "POST",
        f"{news.path}/notifications",
        headers={"content-type": "application/json"},
        content=body,
    )
    assert answer.status_code == 202


@pytest.mark.attack("E03")
async def test_names_given_twice_are_refused_at_any_depth(rest: Rest) -> None:
    news = await open_newsroom(rest, "twice")
    for body in (
        b'{"audience":{"kind":"users","uids":["a"],"uids":["b"]},"message":{"title":"x","body":""}}',
        b'{"audience":{"kind":"everyone"},"message":{"title":"x","title":"y","body":""}}',
    ):
        assert await raw(news, body) == INVALID
    for deep in (b"[" * 100_000, b'{"a":' * 100_000):
        start = b'{"audience":{"kind":"everyone"},"message":{"title":"x","body":"","e":'
        assert await raw(news, start + deep) == INVALID


async def test_many_users_each_get_it_once_and_progress_is_exact(rest: Rest) -> None:
    news = await open_newsroom(rest, "portions")
    uids = [f"p{number}" for number in range(401)]
    body = to_users([*uids, *uids], "x")
    body["audience"]["label"] = "the lot"
    posted = await news.post(body)
    assert posted["recipients"] == 401
    progress = await news.delivered(posted["id"])
    assert (progress["status"], progress["label"]) == ("done", "the lot")
    assert (progress["recipients"], progress["delivered"]) == (401, 401)
    for uid in (uids[0], uids[99], uids[100], uids[400]):
        reader = await news.user(uid)
        assert await reader.all_ids(10) == [posted["id"]]


async def test_the_same_request_is_posted_once(rest: Rest) -> None:
    news = await open_newsroom(rest, "repeats")
    ann = await news.user("ann")
    for body in (to_users(["ann", "bob"], "once"), to_everyone("once for all")):
        key = {"Idempotency-Key": body["message"]["title"]}
        first = await news.try_post(body, key)
        again = await news.try_post(body, key)
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json() == again.json()
        assert "idempotent-replay" not in first.headers
        assert again.headers["idempotent-replay"] == "true"
        await news.delivered(first.json()["id"])
        third = await news.try_post(body, key)
        assert third.json() == first.json()

        other = {**body, "message": {"title": "other", "body": ""}}
        assert problem(await news.try_post(other, key)) == (409, "request.conflict")
        swapped = to_everyone("once") if "uids" in body["audience"] else to_users(["ann"], "x")
        assert problem(await news.try_post(swapped, key)) == (409, "request.conflict")
        fresh = await news.try_post(body)
        assert fresh.json()["id"] != first.json()["id"]
        await news.delivered(fresh.json()["id"])
    assert len(await ann.all_ids(10)) == 4


async def test_a_key_is_for_one_inbox_and_for_a_day(rest: Rest) -> None:
    news = await open_newsroom(rest, "keys")
    other = await open_newsroom(rest, "keys-2")
    key = {"Idempotency-Key": "k#*: '"}
    body = to_everyone("x")
    first = await news.post(body, key)
    assert (await other.post(to_everyone("y"), key))["id"] == "b1"
    rest.clock.time += limits.REQUEST_KEY_MS - 1
    assert await news.post(body, key) == first
    rest.clock.time += 1
    later = await news.post(to_everyone("z"), key)
    assert later["id"] != first["id"]
    for bad in ("", "x" * 256, "a\tb"):
        answer = await news.try_post(body, {"Idempotency-Key": bad})
        assert problem(answer) == INVALID, bad


@pytest.mark.attack("D23")
async def test_a_repeat_after_a_redaction_brings_nothing_back(rest: Rest) -> None:
    news = await open_newsroom(rest, "undone")
    ann = await news.user("ann")
    for body in (to_users(["ann"], "oops"), to_everyone("oops for all")):
        key = {"Idempotency-Key": body["message"]["title"]}
        first = await news.post(body, key)
        await news.redact(first["id"])
        assert await news.post(body, key) == first
        assert await ann.all_ids(10) == []


async def test_a_schema_decides_on_own_fields(rest: Rest) -> None:
    schema = {
        "type": "object",
        "properties": {"order": {"type": "integer"}, "code": {"pattern": "^[A-Z]+$"}},
        "required": ["order"],
        "additionalProperties": False,
    }
    news = await open_newsroom(rest, "orders", message_schema=schema, schema_version="2.1")
    ann = await news.user("ann")
    await news.post({**message(order=7, code="AB"), "schema_version": "2.1"})
    (shown,) = (await ann.page())["data"]
    assert shown["message"] == {"title": "x", "body": "y", "order": 7, "code": "AB"}
    for bad, pointer in (
        (message(order="7"), "/message/order"),
        (message(order=7, code="ab"), "/message/code"),
        (message(), "/message"),
        (message(order=7, more=1), "/message"),
    ):
        answer = await news.try_post(bad)
        assert problem(answer) == INVALID
        assert answer.json()["errors"][0]["pointer"] == pointer
    stale = {**message(order=7), "schema_version": "2.0"}
    assert problem(await news.try_post(stale)) == (409, "notification.schema_version")
    wide = await open_newsroom(rest, "wide", message_schema={})
    assert problem(await wide.try_post(message(x="y" * 5_000))) == (413, "content.too_large")
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    assert problem(await wide.try_post(message(x=deep))) == INVALID


async def test_a_category_is_one_of_the_inboxs(rest: Rest) -> None:
    news = await open_newsroom(rest, "sorted", categories=["a", "b"])
    await news.post({**to_everyone("x"), "category": "a"})
    await news.post(to_everyone("x"))
    for category in ("c", "A"):
        answer = await news.try_post({**to_everyone("x"), "category": category})
        assert problem(answer) == INVALID
