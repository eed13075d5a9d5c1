# SPDX-License-Identifier: Apache-2.0
"""Messages over REST: posting once, content at its limits, editing, redacting, expiring."""

import asyncio

import pytest
import pytest_asyncio

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Actor, Rest, problem
from tests.support.canary import MARK, canary
from tidings.model import limits
from tidings.model.ids import rfc3339

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = (400, "request.invalid")
NO_MESSAGE = (404, "message.not_found")
SMILE = "😀"


@pytest_asyncio.fixture(loop_scope="module")
async def group(rest: Rest) -> tuple[str, Actor, Actor, Actor]:
    """A fresh group of an owner, an admin and a member."""
    owner, admin, member = await rest.users("owner", "admin", "member")
    chat = await owner.group("admin", "member")
    await owner.ok("PUT", f"/v1/chats/{chat}/members/admin", {"role": "admin"})
    return chat, owner, admin, member


Group = tuple[str, Actor, Actor, Actor]


async def test_a_message_is_posted(rest: Rest, group: Group) -> None:
    chat, owner, _, member = group
    body = {"client_message_id": "m1", "content": canary("m1"), "content_type": "text/markdown"}
    answer = await owner.call("POST", f"/v1/chats/{chat}/messages", body)
    assert answer.status_code == 201
    assert "idempotent-replay" not in answer.headers
    message = answer.json()
    assert message == {
        "chat_id": chat,
        "sequence": 3,
        "message_id": f"{chat}.3",
        "sender_id": "owner",
        "client_message_id": "m1",
        "content": canary("m1"),
        "content_type": "text/markdown",
        "created_at": rfc3339(rest.clock.time),
        "status": "sent",
        "reply_count": 0,
    }
    assert await member.ok("GET", f"/v1/chats/{chat}/messages/3") == message
    assert await member.ok("GET", f"/v1/messages/{chat}.3") == message


@pytest.mark.attack("C15", "D23")
async def test_the_same_again_is_the_same_message_as_it_is_now(group: Group) -> None:
    chat, owner, _, member = group
    sent = await owner.send(chat, "once")
    await member.ok("PUT", f"/v1/chats/{chat}/messages/{sent['sequence']}/reactions/👍")
    path = f"/v1/chats/{chat}/messages"
    body = {"client_message_id": "once", "content": canary("once")}

    again = await owner.call("POST", path, body)

    assert (again.status_code, again.headers["idempotent-replay"]) == (200, "true")
    reactions = [{"emoji": "👍", "count": 1, "mine": False}]
    assert again.json() == {**sent, "reactions": reactions}
    for change in ({"content": canary("other")}, {"content_type": "a/b"}, {"ttl_seconds": 5}):
        assert await owner.refused("POST", path, {**body, **change}) == (409, "send.conflict")
    assert (await member.send(chat, "once"))["sequence"] > sent["sequence"]
    await owner.ok("DELETE", f"{path}/{sent['sequence']}")
    redacted = (await owner.call("POST", path, body)).json()
    assert redacted["redacted"] is True
    assert "content" not in redacted


async def test_five_at_once_make_one_message(group: Group) -> None:
    chat, owner, _, _ = group
    body = {"client_message_id": "race", "content": canary("race")}
    async with asyncio.TaskGroup() as tasks:
        calls = [
            tasks.create_task(owner.call("POST", f"/v1/chats/{chat}/messages", body))
            for _ in range(5)
        ]
    answers = [call.result() for call in calls]
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 201]
    assert len({answer.json()["sequence"] for answer in answers}) == 1


@pytest.mark.attack("E07")
@pytest.mark.parametrize(
    "content",
    [
        "x" * limits.CONTENT_BYTES_MAX,
        SMILE * (limits.CONTENT_BYTES_MAX // 4),
        "é" * (limits.CONTENT_BYTES_MAX // 2),
        " ",
        "\u0000\u202e\u200b",
        "e" + "\u0301" * 1_000,
    ],
    ids=["ascii", "emoji", "two bytes", "space", "odd", "combining"],
)
async def test_content_up_to_the_limit_comes_back_unchanged(group: Group, content: str) -> None:
    chat, owner, _, member = group
    sequence = (await owner.send(chat, "full", content))["sequence"]
    path = f"/v1/chats/{chat}/messages/{sequence}"
    assert (await member.ok("GET", path))["content"] == content
    assert (await owner.ok("PATCH", path, {"content": content}))["content"] == content


@pytest.mark.attack("D22", "E07")
@pytest.mark.parametrize(
    "content",
    [
        "x" * (limits.CONTENT_BYTES_MAX + 1),
        SMILE * (limits.CONTENT_BYTES_MAX // 4) + "x",
        "xxx" + SMILE * (limits.CONTENT_BYTES_MAX // 4),
        "é" * (limits.CONTENT_BYTES_MAX // 2) + "x",
    ],
    ids=["ascii", "emoji then one", "emoji across", "two bytes"],
)
async def test_content_one_byte_beyond_is_refused(group: Group, content: str) -> None:
    chat, owner, _, _ = group
    first = (await owner.send(chat, "first"))["sequence"]
    path = f"/v1/chats/{chat}/messages"
    body = {"client_message_id": "beyond", "content": content}
    assert await owner.refused("POST", path, body) == (413, "content.too_large")
    assert await owner.refused("PATCH", f"{path}/{first}", {"content": content}) == (
        413,
        "content.too_large",
    )
    assert (await owner.ok("GET", path))["data"][0]["content"] == canary("first")


@pytest.mark.attack("E07", "E13", "E14")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"content": ""}, (400, "content.empty")),
        ({"content": None}, INVALID),
        ({"client_message_id": ""}, INVALID),
        ({"client_message_id": "a b"}, INVALID),
        ({"client_message_id": "m\n"}, INVALID),
        ({"client_message_id": "x" * 65}, INVALID),
        ({"content_type": "text"}, INVALID),
        ({"content_type": "text/" + "x" * 100}, INVALID),
        ({"ttl_seconds": 0}, INVALID),
        ({"ttl_seconds": limits.TTL_SECONDS_MAX + 1}, INVALID),
        ({"ttl_seconds": "60"}, INVALID),
        ({"ttl_seconds": 1.5}, INVALID),
        ({"sender_id": "member"}, INVALID),
        ({"sequence": 1}, INVALID),
        ({"created_at": "1970-01-01T00:00:00Z"}, INVALID),
    ],
    ids=str,
)
async def test_a_message_out_of_form_leaves_no_trace(
    group: Group, change: dict[str, object], expected: tuple[int, str]
) -> None:
    chat, owner, _, _ = group
    body = {"client_message_id": "m1", "content": canary("m1"), **change}
    answer = await owner.call("POST", f"/v1/chats/{chat}/messages", body)
    assert problem(answer) == expected
    assert (await owner.ok("GET", f"/v1/chats/{chat}/messages"))["data"] == []


@pytest.mark.attack("E14")
async def test_an_expired_message_vanishes_from_every_read(rest: Rest, group: Group) -> None:
    chat, owner, _, member = group
    path = f"/v1/chats/{chat}/messages"
    sent = await owner.send(chat, "brief", ttl_seconds=60)
    sequence = sent["sequence"]
    assert sent["expires_at"] == rfc3339(rest.clock.time + 60_000)
    rest.clock.time += 59_999
    assert (await member.ok("GET", f"{path}/{sequence}"))["content"] == canary("brief")

    rest.clock.time += 1

    gone = await member.ok("GET", f"{path}/{sequence}")
    assert (gone["expired"], "content" in gone) == (True, False)
    for query in ("", "?after=0"):
        assert (await member.ok("GET", path + query))["data"] == []
    entry = (await member.ok("GET", f"/v1/chats/{chat}/entries?after={sequence - 1}"))["data"][0]
    assert (entry["expired"], "content" in entry) == (True, False)
    row = await member.ok("GET", f"/v1/chats/{chat}")
    assert (row["unread"], row["last_message"]["preview"]) == (0, None)
    assert await owner.refused("PATCH", f"{path}/{sequence}", {"content": "late"}) == (
        409,
        "message.gone",
    )
    again = {"client_message_id": "brief", "content": canary("brief"), "ttl_seconds": 60}
    replay = await owner.call("POST", path, again)
    assert (replay.status_code, replay.json()["expired"]) == (200, True)
    assert MARK not in replay.text


@pytest.mark.attack("D05")
async def test_a_message_is_edited_by_its_sender_only(rest: Rest, group: Group) -> None:
    chat, owner, admin, member = group
    path = f"/v1/chats/{chat}/messages/{(await member.send(chat, 'm1'))['sequence']}"
    rest.clock.time += 5
    edited = await member.ok("PATCH", path, {"content": canary("better")})
    assert (edited["content"], edited["edited_at"]) == (
        canary("better"),
        rfc3339(rest.clock.time),
    )
    for actor in (owner, admin):
        assert await actor.refused("PATCH", path, {"content": "x"}) == (403, "auth.forbidden")
    assert await member.refused("PATCH", path, {"content": ""}) == (400, "content.empty")
    assert await owner.ok("GET", path) == edited


@pytest.mark.attack("D23")
@pytest.mark.parametrize("who", ["sender", "admin", "owner"])
async def test_a_message_is_redacted(rest: Rest, group: Group, who: str) -> None:
    chat, owner, admin, member = group
    actor = {"sender": member, "admin": admin, "owner": owner}[who]
    path = f"/v1/chats/{chat}/messages/{(await member.send(chat, 'm1'))['sequence']}"
    for _ in range(2):
        assert (await actor.call("DELETE", path)).status_code == 204
    answer = await owner.call("GET", path)
    assert (answer.json()["redacted"], MARK in answer.text) == (True, False)
    listed = await owner.call("GET", f"/v1/chats/{chat}/messages")
    assert ([m["redacted"] for m in listed.json()["data"]], MARK in listed.text) == ([True], False)
    assert await member.refused("PATCH", path, {"content": "back"}) == (409, "message.gone")


@pytest.mark.attack("D05")
async def test_a_member_does_not_redact_others(group: Group) -> None:
    chat, owner, admin, member = group
    for sender in (owner, admin):
        path = f"/v1/chats/{chat}/messages/{(await sender.send(chat, 'm1'))['sequence']}"
        assert await member.refused("DELETE", path) == (403, "auth.forbidden")
        assert (await member.ok("GET", path))["content"] == canary("m1")


@pytest.mark.parametrize(
    "sequence", ["1", "999", "0", "-1", "x", "01", "9" * 17, str(2**53), "1.0"]
)
async def test_what_is_not_a_message_is_not_found(group: Group, sequence: str) -> None:
    chat, owner, _, _ = group
    path = f"/v1/chats/{chat}/messages/{sequence}"
    assert await owner.refused("GET", path) == NO_MESSAGE
    assert await owner.refused("PATCH", path, {"content": "x"}) == NO_MESSAGE
    assert await owner.refused("DELETE", path) == NO_MESSAGE
    assert await owner.refused("GET", f"{path}/reactions") == NO_MESSAGE
    assert await owner.refused("PUT", f"{path}/reactions/x") == NO_MESSAGE
    assert await owner.refused("GET", f"/v1/messages/{chat}.{sequence}") == NO_MESSAGE
