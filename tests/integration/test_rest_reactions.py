# SPDX-License-Identifier: Apache-2.0
"""Reactions and receipts over REST: a repeat changes nothing, a mark never goes back."""

from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Json, Rest
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = (400, "request.invalid")


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> tuple[str, Actor, Actor]:
    """A fresh group of two with one message, at sequence 2."""
    ann, ben = await rest.users("ann", "ben")
    chat = await ann.group("ben")
    await ann.send(chat, "m1")
    return chat, ann, ben


Talk = tuple[str, Actor, Actor]


def place(chat: str) -> str:
    return f"/v1/chats/{chat}/messages/2"


async def test_reactions_are_counted_and_listed(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    for actor, emoji in ((ann, "👍"), (ben, "👍"), (ben, "🎉"), (ben, "👍")):
        rest.clock.time += 1
        answer = await actor.call("PUT", f"{place(chat)}/reactions/{emoji}")
        assert (answer.status_code, answer.content) == (204, b"")

    listed = await ann.ok("GET", f"{place(chat)}/reactions")

    assert [(row["emoji"], row["user_id"]) for row in listed["data"]] == [
        ("👍", "ann"),
        ("👍", "ben"),
        ("🎉", "ben"),
    ]
    assert listed["next_cursor"] is None
    counts = (await ann.ok("GET", place(chat)))["reactions"]
    assert sorted(counts, key=lambda count: -count["count"]) == [
        {"emoji": "👍", "count": 2, "mine": True},
        {"emoji": "🎉", "count": 1, "mine": False},
    ]


async def test_only_ones_own_reaction_is_taken_back(talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"{place(chat)}/reactions/👍"
    await ann.ok("PUT", path)
    head = (await ann.ok("GET", f"/v1/chats/{chat}/entries"))["head"]
    assert (await ben.call("DELETE", path)).status_code == 204
    assert (await ann.ok("GET", place(chat)))["reactions"][0]["count"] == 1
    assert (await ann.ok("GET", f"/v1/chats/{chat}/entries"))["head"] == head
    assert (await ann.call("DELETE", path)).status_code == 204
    assert "reactions" not in await ann.ok("GET", place(chat))


@pytest.mark.parametrize("emoji", [" ", "a b", "\x00", "\n", "x" * 65, "😀" * 17])
async def test_a_reaction_is_short_and_without_spaces(talk: Talk, emoji: str) -> None:
    chat, ann, _ = talk
    path = f"{place(chat)}/reactions/{quote(emoji)}"
    assert await ann.refused("PUT", path) == INVALID
    assert await ann.refused("DELETE", path) == INVALID


@pytest.mark.parametrize("emoji", ["%FF", "%F0%9F%91", "%2F", "a%2Fb", ""])
async def test_a_reaction_is_one_part_of_a_path_in_utf8(talk: Talk, emoji: str) -> None:
    chat, ann, _ = talk
    status, _ = await ann.refused("PUT", f"{place(chat)}/reactions/{emoji}")
    assert status in (404, 405)
    assert "reactions" not in await ann.ok("GET", place(chat))


async def test_a_message_takes_so_many_different_reactions(talk: Talk) -> None:
    chat, ann, ben = talk
    for number in range(limits.REACTION_EMOJI_MAX):
        await ann.ok("PUT", f"{place(chat)}/reactions/r{number}")
    assert await ann.refused("PUT", f"{place(chat)}/reactions/more") == (409, "limit.reached")
    await ben.ok("PUT", f"{place(chat)}/reactions/r0")


async def test_a_tombstone_takes_no_reaction(talk: Talk) -> None:
    chat, ann, _ = talk
    await ann.ok("PUT", f"{place(chat)}/reactions/👍")
    await ann.ok("DELETE", place(chat))
    assert await ann.refused("PUT", f"{place(chat)}/reactions/x") == (409, "message.gone")
    assert "reactions" not in await ann.ok("GET", place(chat))


async def marked(actor: Actor, chat: str, **marks: int) -> Json:
    state: Json = await actor.ok("PUT", f"/v1/chats/{chat}/receipt", marks)
    return state


@pytest.mark.attack("C12")
async def test_marks_only_move_forward(talk: Talk) -> None:
    chat, ann, ben = talk
    for number in range(3):
        await ann.send(chat, f"more{number}")
    assert await marked(ben, chat, delivered=4) == {
        "delivered": 4,
        "read": 1,
        "unread": 4,
        "unread_exact": True,
    }
    assert (await marked(ben, chat, read=3))["unread"] == 2
    assert await marked(ben, chat, delivered=1, read=2) == await marked(ben, chat)
    assert await marked(ben, chat) == {
        "delivered": 4,
        "read": 3,
        "unread": 2,
        "unread_exact": True,
    }
    rows = (await ann.ok("GET", f"/v1/chats/{chat}/receipts"))["data"]
    assert {row["user_id"]: (row["delivered"], row["read"]) for row in rows}["ben"] == (4, 3)
    assert (await ben.ok("GET", f"/v1/chats/{chat}"))["unread"] == 2


async def receipt_of(reader: Actor, chat: str, user: str) -> Json:
    """One member's receipt: the writer's own moves by itself, some time after each message."""
    receipts = await reader.ok("GET", f"/v1/chats/{chat}/receipts")
    (found,) = [receipt for receipt in receipts["data"] if receipt["user_id"] == user]
    return dict(found)


@pytest.mark.attack("C11", "D24")
async def test_a_mark_is_never_beyond_the_head(talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/receipt"
    before = await receipt_of(ann, chat, "ben")
    for body in ({"read": 3}, {"delivered": 3}, {"read": 2**53 - 1}):
        assert await ben.refused("PUT", path, body) == (400, "receipt.beyond_head")
    for mark in (-1, 2**53, "2", None, 1.5):
        assert await ben.refused("PUT", path, {"read": mark}) == INVALID
    assert await ben.refused("PUT", path, {"read": 2, "user_id": "ann"}) == INVALID
    assert await receipt_of(ann, chat, "ben") == before
