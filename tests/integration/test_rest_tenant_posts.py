# SPDX-License-Identifier: Apache-2.0
"""What a tenant creates and posts, in the names of users and in its own."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import NOWHERE, Actor, Json, Rest

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "posts"
CHATS = f"/v1/tenants/{TENANT}/chats"


def post(cmid: str, **more: Any) -> Json:
    return {"client_message_id": cmid, "content": f"text of {cmid}", **more}


async def crew(rest: Rest) -> tuple[Actor, Actor, Actor, str]:
    """Two users, their tenant, and the path of their group."""
    ann, bob = [await rest.user(name, TENANT) for name in ("ann", "bob")]
    chat = await ann.group("bob", name="Crew")
    return ann, bob, await rest.tenant(TENANT), chat


async def test_a_post_says_that_the_tenant_made_it(rest: Rest) -> None:
    ann, bob, backend, chat = await crew(rest)
    path = f"{CHATS}/{chat}/messages"

    named = await backend.ok("POST", path, post("m1", sender="ann"))
    own = await backend.ok("POST", path, post("m1", mentions=["*"]))

    assert (named["sender_id"], named["posted_by"]) == ("ann", "tenant")
    assert (own["sender_id"], own["posted_by"]) == ("~tenant", "tenant")
    await bob.send(chat, "m2")
    page = (await bob.ok("GET", f"/v1/chats/{chat}/entries"))["data"]
    shown = [(one["sender"], one.get("posted_by")) for one in page]
    assert shown == [("ann", None), ("ann", "tenant"), ("~tenant", "tenant"), ("bob", None)]
    record = await ann.ok("GET", f"/v1/chats/{chat}/messages/3")
    assert (record["content"], record["posted_by"]) == ("text of m1", "tenant")
    # What was posted in Ann's name is Ann's; what the tenant posted is unread for both.
    row = await ann.ok("GET", f"/v1/chats/{chat}")
    assert (row["unread"], row["unread_mentions"]) == (2, 1)
    assert (await ann.ok("GET", "/v1/unread"))["mentions"] >= 1
    answered = await bob.send(chat, "m3", reply_to=3)
    assert answered["reply_to"] == 3


async def test_a_post_is_kept_once(rest: Rest) -> None:
    ann, _, backend, chat = await crew(rest)
    path = f"{CHATS}/{chat}/messages"
    first = await backend.ok("POST", path, post("m1"))

    again = await backend.call("POST", path, post("m1", sender="~tenant", silent=None))

    assert (again.status_code, again.headers["Idempotent-Replay"]) == (200, "true")
    assert again.json() == first
    other = post("m1") | {"content": "something else"}
    assert await backend.refused("POST", path, other) == (409, "send.conflict")
    # A user who sends the same does not repeat what the tenant posted in the user's name.
    await backend.ok("POST", path, post("m2", sender="ann"))
    mine = await ann.refused("POST", f"/v1/chats/{chat}/messages", post("m2"))
    assert mine == (409, "send.conflict")
    assert (await backend.ok("GET", f"{CHATS}/{chat}"))["message_count"] == 2


async def test_a_repeat_shows_no_text_of_others(rest: Rest) -> None:
    ann, bob, backend, chat = await crew(rest)
    path = f"{CHATS}/{chat}/messages"
    await backend.ok("POST", path, post("m1", sender="ann"))
    await ann.ok("PATCH", f"/v1/chats/{chat}/messages/2", {"content": "my own words"})
    again = await backend.ok("POST", path, post("m1", sender="ann"))
    assert "content" not in again and again["edited_at"]
    await backend.ok("POST", path, post("m2"))
    message = f"/v1/chats/{chat}/messages/4"
    change = {"content": "not the tenant's"}
    for user in (ann, bob):
        assert await user.refused("PATCH", message, change) == (403, "auth.forbidden")
    assert await bob.refused("DELETE", message) == (403, "auth.forbidden")
    await ann.ok("DELETE", message)  # she owns the group
    assert (await backend.ok("POST", path, post("m2")))["redacted"] is True
    await backend.ok("DELETE", f"{CHATS}/{chat}")
    assert "content" not in await backend.ok("POST", path, post("m1", sender="ann"))


async def test_a_sender_is_a_member_of_a_chat_of_the_tenant(rest: Rest) -> None:
    _, _, backend, chat = await crew(rest)
    await rest.user("eve", TENANT)
    stranger = await rest.user("ann", "elsewhere")
    foreign = await stranger.group(name="Foreign")
    path = f"{CHATS}/{chat}/messages"
    for name in ("eve", "nobody"):
        wish = post("m1", sender=name)
        assert await backend.refused("POST", path, wish) == (404, "member.not_found")
    for where in (foreign, NOWHERE):
        for more in ({}, {"sender": "ann"}):
            wish = post("m1", **more)
            answer = await backend.refused("POST", f"{CHATS}/{where}/messages", wish)
            assert answer == (404, "chat.not_found")
    for wrong in ("~system", "a b", "", "~tenant\n", 7):
        answer = await backend.refused("POST", path, post("m1", sender=wrong))
        assert answer == (400, "request.invalid")
    assert await backend.refused("POST", path, post("m1") | {"content": ""}) == (
        400,
        "content.empty",
    )
    assert (await backend.ok("GET", f"{CHATS}/{chat}"))["message_count"] == 0


async def test_a_tenant_creates_chats(rest: Rest) -> None:
    ann, bob, backend, _ = await crew(rest)
    settings = f"/v1/tenants/{TENANT}/settings"
    await backend.ok("PUT", settings, {"invites": "ask"})

    wish = {"type": "group", "name": "Ours", "members": ["bob", "ann"]}
    own = await backend.call("POST", CHATS, wish, {"Idempotency-Key": "one"})
    again = await backend.call("POST", CHATS, wish, {"Idempotency-Key": "one"})
    named = await backend.ok("POST", CHATS, {**wish, "creator": "ann", "members": ["bob"]})

    assert (own.status_code, again.status_code) == (201, 200)
    chat = own.json()["chat_id"]
    assert (again.json()["chat_id"], own.json()["member_count"]) == (chat, 2)
    found = await bob.ok("GET", f"/v1/chats/{chat}")
    assert (found["created_by"], found["role"]) == ("~tenant", "owner")
    first = (await ann.ok("GET", f"/v1/chats/{chat}/entries"))["data"][0]
    assert (first["kind"], first["sender"]) == ("created", "~tenant")
    theirs = await ann.ok("GET", f"/v1/chats/{named['chat_id']}")
    assert (theirs["created_by"], theirs["role"]) == ("ann", "owner")
    clash = await backend.call("POST", CHATS, {**wish, "name": "X"}, {"Idempotency-Key": "one"})
    assert clash.status_code == 409
    listed = (await backend.ok("GET", CHATS))["data"]
    assert {one["created_by"] for one in listed if one["name"] == "Ours"} == {"~tenant", "ann"}
    await backend.ok("PUT", settings, {})


async def test_a_tenant_creates_direct_chats(rest: Rest) -> None:
    cat, dan = [await rest.user(name, TENANT) for name in ("cat", "dan")]
    backend = await rest.tenant(TENANT)
    wish = {"type": "direct", "members": ["cat", "dan"]}
    made = await backend.call("POST", CHATS, wish)
    chat = made.json()["chat_id"]
    assert made.status_code == 201
    for user in (cat, dan):
        row = await user.ok("GET", f"/v1/chats/{chat}")
        listed = (await user.ok("GET", "/v1/chats"))["data"][0]
        assert (row["created_by"], listed["created_by"]) == ("~tenant", "~tenant")
    assert await cat.direct("dan") == chat
    assert (await backend.call("POST", CHATS, wish)).status_code == 200
    await backend.ok("POST", f"{CHATS}/{chat}/messages", post("m1"))
    row = await dan.ok("GET", f"/v1/chats/{chat}")
    assert (row["last_message"]["sender_id"], row["unread"]) == ("~tenant", 1)


async def test_what_a_tenant_cannot_create(rest: Rest) -> None:
    _, _, backend, _ = await crew(rest)
    group = {"type": "group", "name": "Ours"}
    for wish, answer in (
        ({**group, "members": ["nobody"]}, (404, "user.not_found")),
        ({**group, "members": []}, (400, "request.invalid")),
        ({**group, "members": ["~tenant"]}, (400, "request.invalid")),
        ({**group, "members": ["ann", "~tenant"]}, (400, "request.invalid")),
        ({**group, "members": ["a b"]}, (400, "request.invalid")),
        ({**group, "members": ["ann"], "creator": "a b"}, (400, "request.invalid")),
        ({"type": "group", "members": ["ann"]}, (400, "request.invalid")),
        ({"type": "direct", "members": ["ann"]}, (400, "request.invalid")),
        ({"type": "direct", "members": ["ann", "bob", "cat"]}, (400, "request.invalid")),
    ):
        assert await backend.refused("POST", CHATS, wish) == answer


async def test_an_explanation_says_so(rest: Rest) -> None:
    _, _, backend, chat = await crew(rest)
    made = await backend.ok("POST", f"{CHATS}/{chat}/messages", post("m1", sender="ann"))
    query = f"user_id=bob&message_id={made['message_id']}"
    told = await backend.ok("GET", f"/v1/tenants/{TENANT}/explain?{query}")
    assert told["timeline"][0]["where"] == "log, sequence 2, posted by the tenant"


async def test_both_are_recorded(rest: Rest) -> None:
    _, _, backend, chat = await crew(rest)
    await backend.ok("POST", f"{CHATS}/{chat}/messages", post("m1", sender="ann"))
    await backend.refused("POST", f"{CHATS}/{chat}/messages", post("m1", sender="eve"))
    made = await backend.ok("POST", CHATS, {"type": "group", "name": "New", "members": ["ann"]})

    acts = (await backend.ok("GET", f"/v1/tenants/{TENANT}/audit?limit=3"))["data"]

    assert [(act["action"], act["target"], act["outcome"], act["code"]) for act in acts] == [
        ("create_tenant_chat", made["chat_id"], "done", None),
        ("post_tenant_message", chat, "refused", "member.not_found"),
        ("post_tenant_message", chat, "done", None),
    ]
    assert acts[2]["fields"] == ["client_message_id", "content", "sender=ann"]
