# SPDX-License-Identifier: Apache-2.0
"""Pages over REST: history downwards, messages upwards, the log itself. Nothing twice, no hole."""

import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Json, Rest
from tests.support.canary import canary

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> tuple[str, Actor, Actor]:
    """A fresh group of two."""
    ann, ben = await rest.users("ann", "ben")
    return await ann.group("ben"), ann, ben


Talk = tuple[str, Actor, Actor]


def sequences(page: Json) -> list[int]:
    return [row["sequence"] for row in page["data"]]


async def test_history_goes_down_page_by_page(talk: Talk) -> None:
    chat, ann, ben = talk
    for number in range(7):
        await ann.send(chat, f"m{number}")
    path = f"/v1/chats/{chat}/messages"

    first = await ben.ok("GET", f"{path}?limit=3")
    second = await ben.ok("GET", f"{path}?limit=3&before={first['next_before']}")
    third = await ben.ok("GET", f"{path}?limit=3&before={second['next_before']}")

    assert [sequences(page) for page in (first, second, third)] == [[8, 7, 6], [5, 4, 3], [2]]
    assert third["next_before"] is None
    assert (await ben.ok("GET", path))["data"] == first["data"] + second["data"] + third["data"]
    assert first["data"][0]["content"] == canary("m6")
    for empty in ("before=0", "before=1", "before=2"):
        assert await ben.ok("GET", f"{path}?{empty}") == {"data": [], "next_before": None}


async def test_messages_go_up_until_there_is_no_next(talk: Talk) -> None:
    chat, ann, ben = talk
    for number in range(5):
        await ann.send(chat, f"m{number}")
    path = f"/v1/chats/{chat}/messages"
    seen, after = [], 0
    while True:
        page = await ben.ok("GET", f"{path}?limit=2&after={after}")
        assert page["head"] == 6
        seen += sequences(page)
        if page["next_after"] is None:
            break
        after = page["next_after"]
    assert seen == [2, 3, 4, 5, 6]
    assert await ben.ok("GET", f"{path}?after=999") == {"data": [], "next_after": None, "head": 6}


async def test_a_page_goes_up_or_down(talk: Talk) -> None:
    chat, ann, _ = talk
    path = f"/v1/chats/{chat}/messages?before=5&after=1"
    assert await ann.refused("GET", path) == (400, "request.invalid")


@pytest.mark.attack("E18")
async def test_an_empty_page_is_not_the_end(rest: Rest, talk: Talk) -> None:
    chat, ann, _ = talk
    await ann.send(chat, "brief", ttl_seconds=1)
    await ann.send(chat, "lasting")
    rest.clock.time += 1_000
    path = f"/v1/chats/{chat}/messages?limit=1&after=0"
    page = await ann.ok("GET", path)
    assert (page["data"], page["next_after"]) == ([], 2)
    page = await ann.ok("GET", path.replace("after=0", "after=2"))
    assert (sequences(page), page["next_after"]) == ([3], None)


@pytest.mark.attack("E18")
async def test_new_messages_do_not_shift_a_page(talk: Talk) -> None:
    chat, ann, _ = talk
    for number in range(4):
        await ann.send(chat, f"m{number}")
    path = f"/v1/chats/{chat}/messages?limit=2"
    first = await ann.ok("GET", path)
    await ann.send(chat, "late")
    second = await ann.ok("GET", f"{path}&before={first['next_before']}")
    assert sequences(first) + sequences(second) == [5, 4, 3, 2]


async def test_the_log_has_everything_without_a_hole(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    await rest.user("cid")
    await ann.send(chat, "m1")
    await ann.ok("PATCH", f"/v1/chats/{chat}/messages/2", {"content": canary("better")})
    await ben.ok("PUT", f"/v1/chats/{chat}/messages/2/reactions/👍")
    await ben.ok("DELETE", f"/v1/chats/{chat}/messages/2/reactions/👍")
    await ann.ok("PUT", f"/v1/chats/{chat}/members/cid")
    await ann.ok("PUT", f"/v1/chats/{chat}/members/cid", {"role": "admin"})
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/cid")
    await ann.ok("PATCH", f"/v1/chats/{chat}", {"name": "Renamed"})
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/2")

    path = f"/v1/chats/{chat}/entries"
    whole = await ben.ok("GET", path)

    assert sequences(whole) == list(range(1, 11))
    assert (whole["next_after"], whole["head"]) == (None, 10)
    kinds = [entry["kind"] for entry in whole["data"]]
    assert kinds == [
        "created", "message", "edited", "reacted", "unreacted", "added", "role", "removed",
        "renamed", "redacted",
    ]  # fmt: skip
    assert whole["data"][1]["redacted"] is True
    assert whole["data"][2]["target"] == 2
    assert "content" not in whole["data"][2]
    part = await ben.ok("GET", f"{path}?limit=4&after=3")
    assert (part["data"], part["next_after"]) == (whole["data"][3:7], 7)


async def test_status_is_the_least_that_any_other_member_has_done(talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/messages/2"
    await ann.send(chat, "m1")
    seen = [(await ann.ok("GET", path))["status"]]
    for mark in ({"delivered": 2}, {"read": 2}):
        await ben.ok("PUT", f"/v1/chats/{chat}/receipt", mark)
        seen.append((await ann.ok("GET", path))["status"])
    assert seen == ["sent", "delivered", "read"]
    listed = await ann.ok("GET", f"/v1/chats/{chat}/messages")
    assert listed["data"][0]["status"] == "read"
