# SPDX-License-Identifier: Apache-2.0
"""Attacks on chats, messages and names over REST, on every engine."""

import json
from typing import Any, Final

import pytest

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Rest
from tests.support.canary import canary
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID: Final = (400, "request.invalid")


@pytest.mark.attack("D06", "D07")
@pytest.mark.parametrize(
    "field",
    [
        {"sender": "bob"}, {"sender_id": "bob"}, {"user_id": "bob"}, {"tenant": "other"},
        {"tenant_id": "other"}, {"sequence": 1}, {"message_id": "x"}, {"status": "read"},
        {"created_at": "2020-01-01T00:00:00Z"}, {"edited_at": None}, {"redacted": True},
        {"reactions": []}, {"chat_id": "x"}, {"role": "owner"}, {"expires_at": None},
    ],
    ids=lambda field: next(iter(field)),
)  # fmt: skip
async def test_what_only_the_server_says_is_not_taken(rest: Rest, field: dict[str, Any]) -> None:
    alice, _ = await rest.users("alice", "bob")
    chat = await alice.group("bob")
    path = f"/v1/chats/{chat}"
    sent = await alice.send(chat, "mine")
    body = {"client_message_id": "forged", "content": "forged", **field}
    assert await alice.refused("POST", f"{path}/messages", body) == INVALID
    changed = {"content": "forged", **field}
    assert await alice.refused("PATCH", f"{path}/messages/2", changed) == INVALID
    wish = {"type": "group", "name": "Forged", "members": ["bob"], **field}
    assert await alice.refused("POST", "/v1/chats", wish) == INVALID
    if "role" not in field:
        assert await alice.refused("PUT", f"{path}/members/bob", field) == INVALID
    assert await alice.refused("PATCH", "/v1/me", {"display_name": "A", **field}) == INVALID
    assert await alice.ok("GET", f"{path}/messages/2") == sent
    assert sent["sender_id"] == "alice"
    assert len((await alice.ok("GET", f"{path}/entries"))["data"]) == 2


@pytest.mark.attack("D22")
@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        ("", 400, "content.empty"),
        ("x" * (limits.CONTENT_BYTES_MAX + 1), 413, "content.too_large"),
        ("é" * (limits.CONTENT_BYTES_MAX // 2) + "x", 413, "content.too_large"),
        (None, 400, "request.invalid"),
        (5, 400, "request.invalid"),
        (["x"], 400, "request.invalid"),
    ],
    ids=["empty", "long", "long in bytes", "null", "number", "list"],
)
async def test_an_edit_is_held_to_what_a_post_is(
    rest: Rest, content: object, status: int, code: str
) -> None:
    alice, _ = await rest.users("alice", "bob")
    chat = await alice.group("bob")
    sent = await alice.send(chat, "m1")
    path = f"/v1/chats/{chat}/messages"
    posted = {"client_message_id": "m2", "content": content}
    assert await alice.refused("POST", path, posted) == (status, code)
    assert await alice.refused("PATCH", f"{path}/2", {"content": content}) == (status, code)
    for more in ({"content_type": "text/html"}, {"ttl_seconds": 5}):
        assert await alice.refused("PATCH", f"{path}/2", {"content": "x", **more}) == INVALID
    assert await alice.ok("GET", f"{path}/2") == sent


@pytest.mark.attack("D22")
async def test_an_entry_that_is_no_message_is_not_edited_into_one(rest: Rest) -> None:
    alice, _ = await rest.users("alice", "bob")
    chat = await alice.group("bob")
    await alice.ok("PATCH", f"/v1/chats/{chat}", {"name": "New"})
    for sequence in (1, 2, 3):
        path = f"/v1/chats/{chat}/messages/{sequence}"
        refused = await alice.refused("PATCH", path, {"content": "x"})
        assert refused == (404, "message.not_found")


@pytest.mark.attack("D23")
async def test_a_redacted_message_is_nowhere_any_more(rest: Rest) -> None:
    """Not in any list, nor by any id, nor in a preview, a repeat, or a page begun before."""
    alice, bob = await rest.users("alice", "bob")
    chat = await alice.group("bob")
    path = f"/v1/chats/{chat}"
    await alice.send(chat, "first", "plain")
    body = {"client_message_id": "secret", "content": canary("taken back")}
    sent = await alice.ok("POST", f"{path}/messages", body)
    await alice.ok("PATCH", f"{path}/messages/3", {"content": canary("taken back, edited")})
    await alice.send(chat, "last", "plain")
    begun = await bob.ok("GET", f"{path}/messages?limit=1")
    await alice.ok("DELETE", f"{path}/messages/3")
    await alice.ok("DELETE", f"{path}/messages/5")

    for actor in (alice, bob):
        for where in (
            f"{path}/messages",
            f"{path}/messages?after=0",
            f"{path}/messages?before={begun['next_before']}",
            f"{path}/entries",
            f"{path}/messages/3",
            f"{path}/messages/3/reactions",
            f"/v1/messages/{sent['message_id']}",
            "/v1/chats",
            path,
        ):
            answer = await actor.call("GET", where)
            assert answer.is_success
            assert "taken back" not in answer.text, where
    again = await alice.call("POST", f"{path}/messages", body)
    assert (again.status_code, again.json()["redacted"]) == (200, True)
    assert "taken back" not in again.text
    refused = await alice.refused("PATCH", f"{path}/messages/3", {"content": canary("back")})
    assert refused == (409, "message.gone")


@pytest.mark.attack("D24")
async def test_nobody_marks_for_another_or_what_was_never_sent(rest: Rest) -> None:
    alice, bob, eve = await rest.users("alice", "bob", "eve")
    chat = await alice.group("bob")
    await alice.send(chat, "m1")
    path = f"/v1/chats/{chat}/receipt"
    for forged in ({"read": 2, "user_id": "bob"}, {"read": 2, "user": "bob"}, {"read": -1}):
        assert await alice.refused("PUT", path, forged) == INVALID
    assert await bob.refused("PUT", path, {"read": 3}) == (400, "receipt.beyond_head")
    assert await bob.refused("PUT", path, {"delivered": 2**53 - 1}) == (400, "receipt.beyond_head")
    assert await eve.refused("PUT", path, {"read": 2}) == (404, "chat.not_found")
    assert await alice.refused("PUT", f"{path}s/bob", {"read": 2}) == (404, "not_found")
    rows = (await alice.ok("GET", f"{path}s"))["data"]
    assert {"user_id": "bob", "delivered": 1, "read": 1} in rows


@pytest.mark.attack("D12")
async def test_names_that_could_run_together_name_different_things(rest: Rest) -> None:
    """Whatever the store puts between the parts of its keys, the parts stay apart."""
    named = [
        ("a", "b-c", "d"),
        ("a-b", "c", "d"),
        ("a", "b", "c-d"),
        ("a", "b.c", "c.d"),
        ("a", "b@c", "c@d"),
        ("a", "b+c", "c+d"),
    ]
    for number, (tenant, user, inbox) in enumerate(named):
        backend, where = await rest.tenant(tenant), f"/v1/tenants/{tenant}"
        await backend.ok("PUT", f"{where}/users/{user}", {"display_name": f"N{number}"})
        await backend.ok("PUT", f"{where}/inboxes/{inbox}", {"title": f"T{number}"})
        person = await rest.user(user, tenant)
        await person.group(name=f"G{number}")
    for number, (tenant, user, inbox) in enumerate(named):
        person = await rest.user(user, tenant)
        assert (await person.ok("GET", "/v1/me"))["display_name"] == f"N{number}"
        chats = (await person.ok("GET", "/v1/chats"))["data"]
        assert [chat["name"] for chat in chats] == [f"G{number}"]
        shown = await rest.root.ok("GET", f"/v1/tenants/{tenant}/inboxes/{inbox}")
        assert shown["title"] == f"T{number}"


@pytest.mark.attack("D14", "D15")
async def test_the_same_address_answers_each_with_their_own(rest: Rest) -> None:
    """Asked by turns, so that whatever is kept in memory is met by the next caller."""
    callers = [("ivy", "acme"), ("ivy", "other"), ("jon", "acme")]  # who share no chat
    people = {}
    for user, tenant in callers:
        backend = await rest.tenant(tenant)
        name = f"{user} of {tenant}"
        await backend.ok("PUT", f"/v1/tenants/{tenant}/users/{user}", {"display_name": name})
        await backend.ok("PUT", f"/v1/tenants/{tenant}/inboxes/own", {"title": tenant})
        people[name] = await rest.user(user, tenant)
        chat = await people[name].group(name=name)
        await people[name].send(chat, "m1", f"content of {name}")
    headers = {"X-Tenant-ID": "other", "X-Tenant": "other", "X-Forwarded-Host": "other"}
    for _ in range(3):
        for name, person in people.items():
            for path in ("/v1/me", "/v1/chats", "/v1/inboxes/own/notifications"):
                answer = await person.call("GET", path, headers=headers)
                assert answer.headers["cache-control"] == "no-store"
                others = [other for other in people if other != name]
                assert not [other for other in others if other in json.dumps(answer.json())]
            assert (await person.ok("GET", "/v1/me"))["display_name"] == name
