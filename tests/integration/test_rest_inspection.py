# SPDX-License-Identifier: Apache-2.0
"""What a tenant sees of its users and chats, and what it sees only with a reason."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import NOWHERE, Rest

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "meet me at the harbour"
SECOND_MS = 1_000


async def test_a_log_is_sealed_until_there_is_a_reason(rest: Rest) -> None:
    ann, bob = [await rest.user(name, "looked-at") for name in ("ann", "bob")]
    backend = await rest.tenant("looked-at")
    chat = await ann.group("bob", name="Boats")
    path = f"/v1/tenants/looked-at/chats/{chat}"
    await ann.send(chat, "m1", SECRET)
    await bob.send(chat, "m2", "gone soon")
    await bob.ok("DELETE", f"/v1/chats/{chat}/messages/3")
    await bob.ok("PUT", f"/v1/chats/{chat}/messages/2/reactions/%E2%9B%B5")
    await ann.ok("PATCH", f"/v1/chats/{chat}/messages/2", {"content": f"{SECRET} today"})

    answer = await backend.call("GET", f"{path}/entries")

    assert SECRET not in answer.text and "⛵" not in answer.text
    shown = [(one["sequence"], one["kind"], one["sender"]) for one in answer.json()["data"]]
    kinds = ["created", "message", "message", "redacted", "reacted", "edited"]
    assert [kind for _, kind, _ in shown] == kinds
    assert answer.json()["data"][2]["redacted"] is True
    assert (answer.json()["head"], answer.json()["next_after"]) == (6, None)

    reason = {"reason": "Ticket 4711"}
    unsealed = await backend.ok("POST", f"{path}/unseal", {**reason, "after": 1, "limit": 2})
    assert [one.get("content") for one in unsealed["data"]] == [f"{SECRET} today", None]
    assert unsealed["next_after"] == 3
    act = (await backend.ok("GET", "/v1/tenants/looked-at/audit?limit=1"))["data"][0]
    assert (act["action"], act["target"], act["outcome"]) == ("unseal_entries", chat, "done")
    assert act["fields"] == ["reason=Ticket 4711", "after=1", "limit=2"]
    assert act["actor"] == "tenant_key"


async def test_content_needs_a_reason_that_can_be_read(rest: Rest) -> None:
    ann = await rest.user("ann", "looked-at")
    backend = await rest.tenant("looked-at")
    chat = await ann.group(name="Quiet")
    path = f"/v1/tenants/looked-at/chats/{chat}/unseal"
    for body in ({}, {"reason": " "}, {"reason": "\u202e"}, {"reason": "x", "limit": 101}):
        assert await backend.refused("POST", path, body) == (400, "request.invalid")
    assert await backend.refused("GET", path) == (405, "method.not_allowed")


async def test_a_tenant_sees_who_is_behind(rest: Rest) -> None:
    ann, bob = [await rest.user(name, "looked-at") for name in ("ann", "bob")]
    backend = await rest.tenant("looked-at")
    chat = await ann.group("bob", name="Behind")
    path = f"/v1/tenants/looked-at/chats/{chat}"
    await ann.send(chat, "m1", SECRET)
    rest.clock.time += SECOND_MS
    await bob.ok("PUT", f"/v1/chats/{chat}/receipt", {"delivered": 2, "read": 1})

    found = await backend.ok("GET", path)

    row = await ann.ok("GET", f"/v1/chats/{chat}")
    assert found == {
        "last_activity_at": row["last_activity_at"],
        "frozen": False,
        "slow_mode_seconds": 0,
        "chat_id": chat,
        "type": "group",
        "name": "Behind",
        "member_count": 2,
        "message_count": 1,
        "head": 2,
    }
    members = (await rest.root.ok("GET", f"{path}/members"))["data"]
    assert members == (await ann.ok("GET", f"/v1/chats/{chat}/members"))["data"]
    marks = {one["user_id"]: (one["role"], one["delivered"], one["read"]) for one in members}
    assert marks["bob"] == ("member", 2, 1)


async def test_a_chat_of_others_or_of_nobody_is_not_found(rest: Rest) -> None:
    ann = await rest.user("ann", "looked-at")
    backend, other = await rest.tenant("looked-at"), await rest.tenant("looked-at-2")
    left = await ann.group(name="Left")
    await ann.ok("DELETE", f"/v1/chats/{left}/members/ann")
    deleted = await ann.group(name="Deleted")
    await ann.ok("DELETE", f"/v1/chats/{deleted}")
    mine = await ann.group(name="Mine")
    missing = (404, "chat.not_found")
    for rest_of_path in ("", "/members", "/entries"):
        for chat in (NOWHERE, deleted):
            path = f"/v1/tenants/looked-at/chats/{chat}{rest_of_path}"
            assert await backend.refused("GET", path) == missing
        foreign = f"/v1/tenants/looked-at-2/chats/{mine}{rest_of_path}"
        assert await other.refused("GET", foreign) == missing
    assert (await backend.ok("GET", f"/v1/tenants/looked-at/chats/{left}"))["member_count"] == 0
    assert await backend.refused("GET", f"/v1/tenants/looked-at/chats/{left}/entries") == missing


async def test_a_tenant_sees_a_user(rest: Rest) -> None:
    ann, bob = [await rest.user(name, "seen-by") for name in ("ann", "bob")]
    backend = await rest.tenant("seen-by")
    path = "/v1/tenants/seen-by/users/ann"
    changed = await backend.ok("PUT", path, {"display_name": "Ann", "email": "ann@example.org"})
    chat = await bob.direct("ann")
    await bob.send(chat, "m1", SECRET)

    assert await backend.ok("GET", path) == changed
    assert (await backend.ok("GET", f"{path}/sessions")) == {"data": []}
    counts = await backend.ok("GET", f"{path}/unread")
    assert counts == await ann.ok("GET", "/v1/unread")
    assert (counts["chats"], counts["messages"]) == (1, 1)
    for nobody in ("nobody", "a%3Ab", "%2E%2E"):
        for rest_of_path in ("", "/sessions", "/unread"):
            asked = f"/v1/tenants/seen-by/users/{nobody}{rest_of_path}"
            assert await backend.refused("GET", asked) == (404, "user.not_found")
    lost = "/v1/tenants/nowhere/users/ann"
    assert await rest.root.refused("GET", lost) == (404, "tenant.not_found")
