# SPDX-License-Identifier: Apache-2.0
"""Tenants and their inboxes: settings, other paths, and that nobody sees anything of another."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import delivering as delivering
from tests.integration.inbox_world import (
    open_newsroom,
    to_everyone,
    to_users,
)
from tests.integration.rest_world import Json, Rest, problem
from tests.support.canary import canary
from tidings.model import limits
from tidings.model.ids import rfc3339
from tidings.model.retention import RULE_AGE_MS_MAX

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = (400, "request.invalid")


async def test_an_inbox_is_what_was_put(rest: Rest) -> None:
    acme = await rest.tenant()
    path = "/v1/tenants/acme/inboxes/put"
    assert await acme.refused("GET", path) == (404, "inbox.not_found")
    made = await acme.call("PUT", path, {"title": "News"})
    assert made.status_code == 201
    assert made.json() == {
        "inbox": "put", "title": "News", "description": "", "schema_version": "1.0",
        "categories": None, "late_joiners": None, "keep_days": None, "message_schema": None,
        "category_rules": None,
    }  # fmt: skip
    wish = {
        "title": "Other", "description": "Words", "schema_version": "3", "categories": ["a", "b"],
        "late_joiners": False, "keep_days": 7, "message_schema": {"type": "object"},
        "category_rules": {"a": {"required": True, "in_app": True, "push": True, "email": False}},
    }  # fmt: skip
    again = await acme.call("PUT", path, wish)
    assert (again.status_code, again.json()) == (200, {"inbox": "put", **wish})
    assert await acme.ok("GET", path) == again.json()
    assert await rest.root.ok("GET", path) == again.json()


@pytest.mark.attack("D12")
@pytest.mark.parametrize(
    ("wish", "pointer"),
    [
        ({}, "/title"),
        ({"title": " "}, "/title"),
        ({"title": "x", "color": 1}, "/color"),
        ({"title": "x", "description": "x" * 2_001}, "/description"),
        ({"title": "x", "schema_version": ""}, "/schema_version"),
        ({"title": "x", "categories": ["a", "*"]}, "/categories/1"),
        ({"title": "x", "categories": ["a#b"]}, "/categories/0"),
        ({"title": "x", "categories": [f"c{n}" for n in range(101)]}, "/categories"),
        ({"title": "x", "keep_days": 0}, "/keep_days"),
        ({"title": "x", "keep_days": 91}, "/keep_days"),
        ({"title": "x", "late_joiners": "yes"}, "/late_joiners"),
        ({"title": "x", "message_schema": {"type": "nope"}}, "/message_schema"),
        ({"title": "x", "message_schema": {"$ref": "https://a.example/s"}}, "/message_schema"),
        ({"title": "x", "message_schema": {"$ref": "file:///etc/passwd"}}, "/message_schema"),
        ({"title": "x", "message_schema": {"pattern": "(a+)+\\1"}}, "/message_schema"),
        ({"title": "x", "message_schema": {"title": "x" * 9_000}}, "/message_schema"),
        ({"title": "x", "message_schema": True}, "/message_schema"),
    ],
)
async def test_an_inbox_that_cannot_be(rest: Rest, wish: Json, pointer: str) -> None:
    acme = await rest.tenant()
    answer = await acme.call("PUT", "/v1/tenants/acme/inboxes/never", wish)
    assert problem(answer) == INVALID
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert await acme.refused("GET", "/v1/tenants/acme/inboxes/never") == (404, "inbox.not_found")


@pytest.mark.attack("D12")
@pytest.mark.parametrize(
    "name", ["a%23b", "U%23x", "*", "a%3Ab", "%C3%A9", "e%CC%81", "x" * 65, "a%20b", "a%00"]
)
async def test_a_name_that_no_inbox_can_have(rest: Rest, name: str) -> None:
    acme = await rest.tenant()
    answer = await acme.call("PUT", f"/v1/tenants/acme/inboxes/{name}", {"title": "x"})
    assert problem(answer) == INVALID


async def test_settings_are_kept_as_they_are_and_count_where_an_inbox_is_silent(
    rest: Rest,
) -> None:
    acme = await rest.tenant("settled")
    path = "/v1/tenants/settled/settings"
    assert await acme.ok("GET", path) == {}
    wish = {"inbox": {"keep_days": 3, "late_joiners": False}, "own": {"deep": [1, None, "x"]}}
    assert await acme.ok("PUT", path, wish) == wish
    assert await acme.ok("GET", path) == wish
    silent = await open_newsroom(rest, "silent", "settled")
    spoken = await open_newsroom(rest, "spoken", "settled", keep_days=1, late_joiners=True)
    for news in (silent, spoken):
        await news.tell_everyone("x")
    rest.clock.time += 1_000
    late = await silent.user("late")
    assert await late.all_ids(10) == []
    assert await (await spoken.user("late")).all_ids(10) == ["b1"]
    rest.clock.time += 3 * limits.DAY_MS - 1_001
    assert (await silent.progress("b1"))["status"] == "done"
    gone = f"{spoken.path}/notifications/b1"
    assert await acme.refused("GET", gone) == (404, "notification.not_found")
    rest.clock.time += 1
    gone = f"{silent.path}/notifications/b1"
    assert await acme.refused("GET", gone) == (404, "notification.not_found")


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"inbox": 7}, INVALID),
        ({"inbox": {"keep_days": 0}}, INVALID),
        ({"inbox": {"keep_days": "9"}}, INVALID),
        ({"inbox": {"late_joiners": 1}}, INVALID),
        ({"inbox": {"keep_day": 9}}, INVALID),
        ({"own": "x" * limits.TENANT_SETTINGS_BYTES_MAX}, (413, "request.too_large")),
        ([], INVALID),
    ],
)
async def test_settings_that_cannot_be(rest: Rest, wish: Any, expected: tuple[int, str]) -> None:
    acme = await rest.tenant()
    assert await acme.refused("PUT", "/v1/tenants/acme/settings", wish) == expected


async def test_settings_of_no_tenant_and_nested_too_deeply(rest: Rest) -> None:
    acme = await rest.tenant()
    for deep in (b'{"a":' * 40 + b"1" + b"}" * 40, b'{"a":' * 50_000):
        answer = await acme.call(
            "PUT",
            "/v1/tenants/acme/settings",
            headers={"content-type": "application/json"},
            content=deep,
        )
        assert problem(answer) == INVALID
    for method, path, body in (
        ("GET", "/v1/tenants/nobody/settings", None),
        ("PUT", "/v1/tenants/nobody/settings", {}),
        ("PUT", "/v1/tenants/nobody/inboxes/x", {"title": "x"}),
    ):
        assert await rest.root.refused(method, path, body) == (404, "tenant.not_found")


@pytest.mark.attack("D13")
async def test_inboxes_that_differ_in_case_are_two(rest: Rest) -> None:
    upper, lower = await open_newsroom(rest, "A"), await open_newsroom(rest, "a")
    listed = [await upper.tell(["ann"], "upper"), await lower.tell(["ann"], "lower")]
    told = [await upper.tell_everyone("UPPER"), await lower.tell_everyone("LOWER")]
    assert told == ["b1", "b1"]
    anns = await upper.user("ann"), await lower.user("ann")
    Anns = await upper.user("Ann"), await lower.user("Ann")
    assert sorted(await anns[0].titles()) == ["UPPER", "upper"]
    assert sorted(await anns[1].titles()) == ["LOWER", "lower"]
    assert await Anns[0].titles() == ["UPPER"]
    await upper.redact("b1")
    await anns[1].read(ids=[listed[1], listed[0]])
    assert await anns[0].titles() == ["upper"]
    assert (await anns[0].unread())["total"] == 1
    assert await anns[1].unread() == {"total": 1, "categories": {}}
    assert sorted(await anns[1].titles()) == ["LOWER", "lower"]


@pytest.mark.attack("D10")
async def test_two_tenants_with_the_same_names_see_nothing_of_each_other(rest: Rest) -> None:
    """Same user, same inbox, same notification ids: no canary of one in any answer of the other."""
    ours = await open_newsroom(rest, "same", "left")
    theirs = await open_newsroom(rest, "same", "right")
    key = {"Idempotency-Key": "same"}
    secrets = {"left": canary("left secret"), "right": canary("right secret")}
    told = {}
    for news in (ours, theirs):
        secret = secrets[news.tenant]
        body = to_users(["ann"], secret, category="same", sender=secret, host_system_id=secret)
        told[news.tenant] = [
            (await news.post(body, key))["id"],
            await news.tell_everyone(secret, category="same"),
        ]
        await news.delivered(told[news.tenant][0])
    assert told["left"][1] == told["right"][1] == "b1"
    for news, other in ((ours, theirs), (theirs, ours)):
        ann = await news.user("ann")
        foreign = told[other.tenant][0]
        answers = [
            await ann.page(),
            await ann.page("?category=same&unread=true"),
            await ann.read(ids=[foreign]),
            await ann.unread(),
            (await news.actor.call("GET", f"{news.path}/notifications/{foreign}")).text,
            (await news.actor.call("GET", f"{other.path}/notifications/{foreign}")).text,
            (await news.actor.call("GET", other.path)).text,
        ]
        assert secrets[news.tenant] in str(answers[0])
        assert all(secrets[other.tenant] not in str(answer) for answer in answers)
        assert (await ann.unread())["total"] == 2
    # Taking back here what has the same name there takes nothing away there.
    await ours.redact("b1")
    path = f"{ours.path}/notifications/{told['right'][0]}"
    assert await ours.actor.refused("DELETE", path) == (404, "notification.not_found")
    assert len((await (await theirs.user("ann")).page())["data"]) == 2


@pytest.mark.attack("D10")
async def test_another_tenants_key_and_a_users_token_open_nothing(rest: Rest) -> None:
    news = await open_newsroom(rest, "closed")
    await news.tell_everyone("x")
    stranger = await rest.tenant("stranger")
    ann = await news.user("ann")
    admin = "/stack/admin/v1/acme/closed/messages"
    for method, path, body in (
        ("GET", "/v1/tenants/acme/settings", None),
        ("PUT", "/v1/tenants/acme/settings", {}),
        ("GET", news.path, None),
        ("PUT", news.path, {"title": "Taken over"}),
        ("POST", f"{news.path}/notifications", to_everyone("y")),
        ("GET", f"{news.path}/notifications/b1", None),
        ("DELETE", f"{news.path}/notifications/b1", None),
        ("POST", f"{admin}/post", to_everyone("y")),
        ("DELETE", f"{admin}/redact", {"id": "b1"}),
    ):
        assert await stranger.refused(method, path, body) == (404, "tenant.not_found"), path
        assert await ann.actor.refused(method, path, body) == (403, "auth.forbidden"), path
    for method, path, body in (
        ("GET", "/v1/inboxes/closed/notifications", None),
        ("GET", "/v1/inboxes/closed/unread", None),
        ("PUT", "/v1/inboxes/closed/read", {"ids": ["b1"]}),
    ):
        assert await news.actor.refused(method, path, body) == (403, "auth.forbidden"), path
        assert await rest.root.refused(method, path, body) == (403, "auth.forbidden"), path
    assert await ann.titles() == ["x"]


async def test_the_other_paths_lead_to_the_same(rest: Rest) -> None:
    news = await open_newsroom(rest, "stack")
    ann = await news.user("ann")
    admin, users = "/stack/admin/v1/acme/stack/messages", "/stack/users/v1/acme/stack/messages"
    key = {"Idempotency-Key": "either way"}
    posted = await news.actor.call("POST", f"{admin}/post", to_users(["ann"], "one"), key)
    assert posted.status_code == 202
    again = await news.try_post(to_users(["ann"], "one"), key)
    assert (again.json(), again.headers["idempotent-replay"]) == (posted.json(), "true")
    one = posted.json()["id"]
    await news.delivered(one)
    rest.clock.time += 1
    two = (await news.actor.call("POST", f"{admin}/post", to_everyone("two"))).json()["id"]
    both = await ann.actor.ok("GET", f"{users}/last/100"), await ann.page()
    assert [[one["id"] for one in page["data"]] for page in both] == [[two, one]] * 2
    first = await ann.actor.ok("GET", f"{users}/last/1")
    assert [got["id"] for got in first["data"]] == [two]
    rest_of_it = await ann.actor.ok("GET", f"{users}/last/1?cursor={first['next_cursor']}")
    assert [got["id"] for got in rest_of_it["data"]] == [one]
    assert await ann.actor.ok("GET", f"{users}/unread") == {"total": 2, "categories": {}}
    assert (await ann.actor.ok("PUT", f"{users}/read/", {"ids": [one]}))["total"] == 1
    assert (await ann.actor.ok("PUT", f"{users}/read", {"ids": [two]}))["total"] == 0
    assert await ann.actor.ok("GET", f"{users}/last/9?unread=true") == {
        "data": [],
        "next_cursor": None,
    }
    redacted = await news.actor.call("DELETE", f"{admin}/redact", {"id": two})
    assert (redacted.status_code, redacted.content) == (204, b"")
    assert await ann.all_ids(10) == [one]
    for limit in ("0", "101", "x", "1.0", "%201"):
        assert await ann.actor.refused("GET", f"{users}/last/{limit}") == INVALID
    for twisted in (f"{users}/read//", f"{users}//read/", "/v1/inboxes/stack/read/"):
        answer = await ann.actor.call("PUT", twisted, {"ids": [one]})
        assert problem(answer)[0] == 404, twisted
    elsewhere = "/stack/users/v1/other/stack/messages"
    for method, path, body in (
        ("GET", f"{elsewhere}/last/5", None),
        ("GET", f"{elsewhere}/unread", None),
        ("PUT", f"{elsewhere}/read/", {"ids": [one]}),
    ):
        assert await ann.actor.refused(method, path, body) == (404, "tenant.not_found")


async def test_messages_are_kept_as_the_tenant_says(rest: Rest) -> None:
    backend = await rest.tenant()
    path = "/v1/tenants/acme/settings"
    wrong = await backend.call("PUT", path, {"chats": {"keep_days": 0}})
    assert problem(wrong) == INVALID
    assert wrong.json()["errors"][0]["pointer"] == "/chats/keep_days"
    ann, _ = await rest.users("keeper", "kept")
    chat = await ann.group("kept")
    for chats, days in (({"keep_days": 2}, 2), ({}, None)):
        await backend.ok("PUT", path, {"chats": chats})
        rest.clock.time += RULE_AGE_MS_MAX
        body = {"client_message_id": f"m{days}", "content": canary("hi")}
        sent = await ann.ok("POST", f"/v1/chats/{chat}/messages", body)
        until = None if days is None else rest.clock.time + days * limits.DAY_MS
        kept = await ann.ok("GET", f"/v1/chats/{chat}/messages/{sent['sequence']}")
        assert kept.get("expires_at") == (None if until is None else rfc3339(until))
