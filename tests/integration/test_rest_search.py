# SPDX-License-Identifier: Apache-2.0
"""Search over REST: what is found, in which order, by whom, and what is refused."""

from uuid import uuid4

import pytest
import pytest_asyncio

from tests.integration.attachments import sent, upload
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Json, Rest

pytestmark = pytest.mark.asyncio(loop_scope="module")

Talk = tuple[str, Actor, Actor, Actor]


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> Talk:
    """A fresh group of three."""
    ann, ben, cat = await rest.users("ann", "ben", "cat")
    return await ann.group("ben", "cat"), ann, ben, cat


async def say(actor: Actor, chat: str, content: str, **more: object) -> Json:
    """Send exactly this text."""
    return await actor.send(chat, uuid4().hex, content, **more)


async def search(actor: Actor, q: str, **asked: object) -> Json:
    answer: Json = await actor.ok("POST", "/v1/search", {"q": q, **asked})
    return answer


async def found(actor: Actor, q: str, **asked: object) -> list[int]:
    """Sequences of what is found, in the order of the answer, which is complete."""
    answer = await search(actor, q, **asked)
    assert answer["complete"] is True
    assert (answer["next_cursor"], answer["searched_until"]) == (None, None)
    return [hit["message"]["sequence"] for hit in answer["data"]]


async def test_words_prefixes_and_phrases_are_found_newest_first(rest: Rest, talk: Talk) -> None:
    chat, ann, ben, _ = talk
    await say(ann, chat, "Lunch at the Harbour station?")
    rest.clock.time += 1
    await say(ben, chat, "the station, at noon: LUNCH")
    await say(ben, chat, "東京駅でランチ 🎉", content_type="text/markdown")
    await say(ann, chat, "lunch", content_type="application/json")

    assert await found(ben, "station lunch", chat_id=chat) == [3, 2]
    assert await found(ben, "lunch stat", chat_id=chat) == [3, 2]
    assert await found(ben, "stat lunch", chat_id=chat) == []
    assert await found(ben, '"the station"', chat_id=chat) == [3]
    assert await found(ben, "駅", chat_id=chat) == [4]
    assert await found(ben, "🎉", chat_id=chat) == [4]
    assert await found(ben, "station lunch", chat_id=chat, **{"from": "ben"}) == [3]
    [hit] = (await search(ben, '"the station" lun', chat_id=chat))["data"]
    assert hit["highlights"] == [[0, 11], [22, 25]]
    assert hit["message"]["content"] == "the station, at noon: LUNCH"
    assert hit["message"]["message_id"] == f"{chat}.3"


async def test_what_is_gone_is_not_found(rest: Rest, talk: Talk) -> None:
    chat, ann, ben, cat = talk
    await say(ann, chat, "walnut")
    await say(ben, chat, "walnut")
    await say(ann, chat, "walnut", ttl_seconds=1)
    await say(cat, chat, "almond")
    assert await found(cat, "walnut", chat_id=chat) == [4, 3, 2]

    await cat.ok("PATCH", f"/v1/chats/{chat}/messages/5", {"content": "walnut"})
    assert await found(ben, "almond", chat_id=chat) == []
    rest.clock.time += 1_000
    assert await found(ben, "walnut", chat_id=chat) == [5, 3, 2]
    await ben.ok("DELETE", f"/v1/chats/{chat}/messages/3")
    assert await found(ben, "walnut", chat_id=chat) == [5, 2]
    backend = await rest.tenant()
    await backend.ok("DELETE", "/v1/tenants/acme/users/ann/content")
    assert await found(ben, "walnut", chat_id=chat) == [5]


async def test_only_members_find(rest: Rest, talk: Talk) -> None:
    chat, ann, ben, _ = talk
    await say(ann, chat, "hazelnut")
    [dan] = await rest.users("dan")
    assert await dan.refused("POST", "/v1/search", {"q": "hazelnut", "chat_id": chat}) == (
        404,
        "chat.not_found",
    )
    assert await found(dan, "hazelnut") == []
    assert await found(ben, "hazelnut") == [2]
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/ben")
    assert await found(ben, "hazelnut") == []


async def test_all_chats_are_searched_in_order_of_time(rest: Rest, talk: Talk) -> None:
    one, ann, ben, _ = talk
    two = await ann.group("ben")
    sent = []
    for number in range(6):
        rest.clock.time += 1
        sent.append(await say(ann, (one, two)[number % 2], f"pecan {number}"))
    answer = await search(ben, "pecan", limit=4)
    assert (answer["complete"], len(answer["data"])) == (False, 4)
    assert answer["searched_until"] <= answer["data"][-1]["message"]["created_at"]
    rest.clock.time += 120_000
    await say(ann, one, "pecan, later")
    more = await search(ben, "pecan", limit=4, cursor=answer["next_cursor"])
    assert (more["complete"], more["next_cursor"]) == (True, None)
    ids = [hit["message"]["message_id"] for hit in answer["data"] + more["data"]]
    assert ids == [each["message_id"] for each in reversed(sent)]

    between = {"after": sent[0]["created_at"], "before": sent[3]["created_at"]}
    shown = (await search(ben, "pecan", **between))["data"]
    assert [hit["message"]["message_id"] for hit in shown] == [
        sent[2]["message_id"],
        sent[1]["message_id"],
    ]


async def test_files_are_found_by_their_names(rest: Rest, talk: Talk) -> None:
    chat, ann, ben, _ = talk
    file = await upload(ann, b"meow")
    message = await sent(ann, chat, "m1", file)
    text = await say(ann, chat, "a cat in a png")
    sequences = [text["sequence"], message["sequence"]]
    assert await found(ben, "cat png", chat_id=chat) == sequences
    assert await found(ben, "cat png", chat_id=chat, has="attachment") == sequences[1:]
    [hit] = (await search(ben, "cat", chat_id=chat, has="attachment"))["data"]
    assert (hit["message"]["attachments"][0]["name"], hit["highlights"]) == ("cat.png", [])
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/{message['sequence']}")
    assert await found(ben, "cat png", chat_id=chat, has="attachment") == []


async def test_what_is_refused(rest: Rest, talk: Talk) -> None:
    chat, ann, ben, _ = talk
    for number in range(2):
        await say(ann, chat, f"cashew {number}")
    asked = {"q": "cashew", "chat_id": chat, "limit": 1}
    cursor = (await ann.ok("POST", "/v1/search", asked))["next_cursor"]
    assert await found(ann, "cashew", chat_id=chat, limit=1, cursor=cursor) == [2]
    for actor, change in ((ben, {}), (ann, {"q": "cashews"}), (ann, {"from": "ann"})):
        body = {**asked, "cursor": cursor, **change}
        assert await actor.refused("POST", "/v1/search", body) == (400, "cursor.invalid")
    later, earlier = "2030-01-02T00:00:00Z", "2030-01-01T00:00:00Z"
    for wrong in (
        {"q": ""},
        {"q": " .,!"},
        {"q": "x" * 201},
        {"q": "a b c d e f g h i j k l m n o p q"},
        {"q": "x", "limit": 101},
        {"q": "x", "from": "a b"},
        {"q": "x", "after": "yesterday"},
        {"q": "x", "after": later, "before": earlier},
        {"q": "x", "has": "reply"},
    ):
        assert await ann.refused("POST", "/v1/search", wrong) == (400, "request.invalid"), wrong
