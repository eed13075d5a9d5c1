# SPDX-License-Identifier: Apache-2.0
"""Replies over REST and the socket: what they answer, who may, and what a repeat gets."""

import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = (409, "send.reply_unknown")

Talk = tuple[str, Actor, Actor]


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> Talk:
    """A fresh group of two with one message, at sequence 2."""
    ann, ben = await rest.users("ann", "ben")
    chat = await ann.group("ben")
    await ann.send(chat, "m1")
    return chat, ann, ben


def body(cmid: str, target: int) -> dict[str, object]:
    return {"client_message_id": cmid, "content": "yes", "reply_to": target}


async def test_a_reply_names_its_target_which_counts_it(talk: Talk) -> None:
    chat, ann, ben = talk
    sent = await ben.send(chat, "r1", reply_to=2)
    assert (sent["sequence"], sent["reply_to"], sent["reply_count"]) == (3, 2, 0)
    await ann.send(chat, "r2", reply_to=3)
    await ann.send(chat, "r3", reply_to=2)

    page = await ann.ok("GET", f"/v1/chats/{chat}/messages")
    assert [(one["sequence"], one.get("reply_to"), one["reply_count"]) for one in page["data"]] == [
        (5, 2, 0),
        (4, 3, 0),
        (3, 2, 1),
        (2, None, 2),
    ]
    path = f"/v1/chats/{chat}/messages/2/replies"
    first = await ann.ok("GET", f"{path}?limit=1")
    assert ([one["sequence"] for one in first["data"]], first["next_after"]) == ([3], 3)
    rest = await ann.ok("GET", f"{path}?after=3")
    assert ([one["sequence"] for one in rest["data"]], rest["next_after"]) == ([5], None)
    entries = (await ann.ok("GET", f"/v1/chats/{chat}/entries"))["data"]
    assert [one.get("reply_to") for one in entries] == [None, None, 2, 3, 2]


async def test_what_is_not_there_is_not_answered(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    await ann.send(chat, "m2", ttl_seconds=1)
    await ann.send(chat, "m3")
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/4")
    rest.clock.time += 1_000
    path = f"/v1/chats/{chat}/messages"

    for target in (0, 1, 3, 4, 5, 6, 99):
        assert await ben.refused("POST", path, body(f"r{target}", target)) == UNKNOWN, target
    assert await ann.refused("GET", f"{path}/1/replies") == (404, "message.not_found")
    [stranger] = await rest.users("cat")
    assert await stranger.refused("POST", path, body("r", 2)) == (404, "chat.not_found")
    assert await stranger.refused("GET", f"{path}/2/replies") == (404, "chat.not_found")


async def test_a_repeat_gets_the_reply_although_its_target_is_gone(talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/messages"
    await ben.ok("POST", path, body("r1", 2))
    await ann.ok("DELETE", f"{path}/2")

    again = await ben.call("POST", path, body("r1", 2))
    assert (again.status_code, again.json()["reply_to"]) == (200, 2)
    assert await ben.refused("POST", path, body("r1", 3)) == (409, "send.conflict")
    plain = {"client_message_id": "r1", "content": "yes"}
    assert await ben.refused("POST", path, plain) == (409, "send.conflict")
    replies = await ben.ok("GET", f"{path}/2/replies")
    assert [one["sequence"] for one in replies["data"]] == [3], "of a tombstone, too"


async def test_an_erased_message_is_not_answered(rest: Rest, talk: Talk) -> None:
    chat, _, ben = talk
    backend = await rest.tenant()
    await backend.ok("DELETE", "/v1/tenants/acme/users/ann/content")

    refused = await ben.refused("POST", f"/v1/chats/{chat}/messages", body("r1", 2))
    assert refused == UNKNOWN
