# SPDX-License-Identifier: Apache-2.0
"""Over REST: who read a message and when, marking as unread, hiding, and everything unread."""

import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import to_everyone
from tests.integration.rest_world import TENANT, Actor, Json, Rest
from tests.support.waiting import until
from tidings.actions.chat import message_receipts, unread
from tidings.model import limits
from tidings.model.chats import Move
from tidings.model.ids import ChatId, rfc3339, user_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = (400, "request.invalid")
NO_CHAT = (404, "chat.not_found")
Talk = tuple[str, Actor, Actor]


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> Talk:
    """A fresh group of two with three messages of Ann, at the sequences 2 to 4."""
    ann, ben = await rest.users("ann", "ben")
    chat = await ann.group("ben")
    for number in range(3):
        await ann.send(chat, f"m{number}")
    return chat, ann, ben


async def read(actor: Actor, chat: str, sequence: int) -> Json:
    answer: Json = await actor.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": sequence})
    return answer


async def record(actor: Actor, chat: str) -> Json:
    found: Json = await actor.ok("GET", f"/v1/chats/{chat}")
    return found


async def test_who_read_it_and_when(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/messages/3/receipts"
    listed = await ann.ok("GET", path)
    nothing = {"delivered": False, "delivered_at": None, "read": False, "read_at": None}
    assert listed["data"] == [{"user_id": "ben", **nothing}]
    assert (listed["delivered"], listed["read"]) == (0, 0)

    rest.clock.time += 10_000
    await ben.ok("PUT", f"/v1/chats/{chat}/receipt", {"delivered": 4})
    received_at = rfc3339(rest.clock.time // 1_000 * 1_000)
    rest.clock.time += 10_000
    await read(ben, chat, 3)
    read_at = rfc3339(rest.clock.time // 1_000 * 1_000)
    rest.clock.time += 10_000
    await read(ben, chat, 4)

    listed = await ann.ok("GET", path)
    (row,) = listed["data"]
    assert (row["delivered_at"], row["read_at"]) == (received_at, read_at)
    assert (listed["delivered"], listed["read"], listed["next_cursor"]) == (1, 1, None)
    assert listed["as_of"] == rfc3339(rest.clock.time)


async def test_nobody_reads_a_message_before_it_is_sent(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    rest.clock.time = rest.clock.time // 1_000 * 1_000 + 900
    sent = await ann.send(chat, "now")
    await read(ben, chat, sent["sequence"])
    (row,) = (await ann.ok("GET", f"/v1/chats/{chat}/messages/{sent['sequence']}/receipts"))["data"]
    assert (row["delivered_at"], row["read_at"]) == (sent["created_at"], sent["created_at"])


async def test_who_joined_later_is_left_out_and_pages_follow(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    await rest.users("cat", "dan", "eve")
    for name in ("cat", "dan"):
        await ann.ok("PUT", f"/v1/chats/{chat}/members/{name}", {})
    sent = (await ben.send(chat, "now"))["sequence"]
    await ann.ok("PUT", f"/v1/chats/{chat}/members/eve", {})
    await read(ann, chat, sent)

    path = f"/v1/chats/{chat}/messages/{sent}/receipts"
    first = await ben.ok("GET", f"{path}?limit=2")
    second = await ben.ok("GET", f"{path}?limit=2&cursor={first['next_cursor']}")
    assert [row["user_id"] for row in first["data"] + second["data"]] == ["ann", "cat", "dan"]
    assert second["next_cursor"] is None
    assert (first["read"], second["read"]) == (1, 1)
    assert await ben.refused("GET", f"{path}?cursor=nonsense") == (400, "cursor.invalid")
    other = f"/v1/chats/{chat}/messages/2/receipts?cursor={first['next_cursor']}"
    assert await ben.refused("GET", other) == (400, "cursor.invalid")
    (row,) = (await ben.ok("GET", f"/v1/chats/{chat}/messages/2/receipts"))["data"]
    assert row["user_id"] == "ben"
    assert await ann.refused("GET", f"/v1/chats/{chat}/messages/1/receipts") == (
        404,
        "message.not_found",
    )


async def test_in_a_large_chat_the_counts_are_half_a_minute_old(
    rest: Rest, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SMALL_CHAT_MEMBERS_MAX", 1)
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/messages/2/receipts"
    before = await ann.ok("GET", path)
    await read(ben, chat, 4)
    assert await ann.ok("GET", path) == before
    rest.clock.time += message_receipts.LARGE_AGE_MS_MAX
    after = await ann.ok("GET", path)
    assert (before["read"], after["read"]) == (0, 1)
    assert after["as_of"] > before["as_of"]
    await ann.ok("DELETE", f"/v1/chats/{chat}/members/ben")
    assert await ben.refused("GET", path) == NO_CHAT


async def test_marked_as_unread(talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/unread"
    await read(ben, chat, 4)
    assert await ben.ok("PUT", path, {"from": 3}) == {
        "marked_unread": True,
        "unread": 2,
        "unread_exact": True,
    }
    assert (await record(ben, chat))["marked_unread"] is True
    assert (await read(ben, chat, 4))["unread"] == 2, "a mark that does not move ends nothing"
    (row,) = (await ann.ok("GET", f"/v1/chats/{chat}/messages/4/receipts"))["data"]
    assert row["read"] is True
    assert (await ben.ok("PUT", path, {"from": None}))["unread"] == 0

    await ben.ok("PUT", path, {"from": 2})
    sent = await ann.send(chat, "news")
    assert (await record(ben, chat))["unread"] == 4
    await read(ben, chat, sent["sequence"])
    assert (await record(ben, chat))["marked_unread"] is False


async def test_every_answer_includes_what_the_user_has_just_sent(talk: Talk) -> None:
    chat, _, ben = talk
    await read(ben, chat, 4)
    total = await ben.ok("GET", "/v1/unread")
    for number, path in enumerate((f"/v1/chats/{chat}", "/v1/chats", "/v1/unread")):
        await ben.ok("PUT", f"/v1/chats/{chat}/unread", {"from": 2})
        await ben.send(chat, f"own-{number}")  # this ends the mark
        answer = await ben.ok("GET", path)
        if path == "/v1/unread":
            assert answer == total
            continue
        (found,) = [one for one in answer.get("data", [answer]) if one["chat_id"] == chat]
        assert (found["marked_unread"], found["unread"]) == (False, 0)


@pytest.mark.parametrize(
    "body", [{"from": 0}, {"from": 9}, {"from": -1}, {"from": "2"}, {}, {"from": 2, "to": 3}]
)
async def test_a_mark_that_makes_no_sense_is_refused(talk: Talk, body: Json) -> None:
    chat, _, ben = talk
    assert await ben.refused("PUT", f"/v1/chats/{chat}/unread", body) == INVALID


async def test_hidden_until_the_next_message(talk: Talk) -> None:
    chat, ann, ben = talk
    path = f"/v1/chats/{chat}/hidden"
    assert await ben.ok("PUT", path, {"hidden": True}) == {"hidden": True}
    listed = (await ben.ok("GET", "/v1/chats"))["data"]
    assert [one["hidden"] for one in listed if one["chat_id"] == chat] == [True]
    assert (await record(ann, chat))["hidden"] is False
    await ann.send(chat, "again")
    assert (await record(ben, chat))["hidden"] is False
    await ben.ok("PUT", path, {"hidden": True})
    assert await ben.ok("PUT", path, {"hidden": False}) == {"hidden": False}
    assert (await record(ben, chat))["hidden"] is False
    assert await ben.refused("PUT", path, {"hidden": None}) == INVALID


async def test_a_preview_that_is_gone_says_why(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    last = (await record(ben, chat))["last_message"]
    assert (last["preview"] is not None, last["gone"]) == (True, None)
    await ann.ok("DELETE", f"/v1/chats/{chat}/messages/4")
    last = (await record(ben, chat))["last_message"]
    assert (last["preview"], last["gone"]) == (None, "redacted")
    await ann.ok(
        "POST",
        f"/v1/chats/{chat}/messages",
        {"client_message_id": "short", "content": "soon gone", "ttl_seconds": 1},
    )
    rest.clock.time += 1_000
    last = (await record(ben, chat))["last_message"]
    assert (last["preview"], last["gone"]) == (None, "expired")


async def test_erased_messages_are_not_unread(rest: Rest) -> None:
    eva, ben = await rest.users("eva", "ben")
    backend = await rest.tenant()
    chat = await eva.group("ben")
    await eva.send(chat, "m1")
    await eva.send(chat, "m2")
    assert (await record(ben, chat))["unread"] == 2
    await backend.ok("DELETE", f"/v1/tenants/{TENANT}/users/eva/content")
    shown = await record(ben, chat)
    assert (shown["unread"], shown["last_message"]["gone"]) == (0, "erased")
    assert (await ben.ok("PUT", f"/v1/chats/{chat}/receipt", {"delivered": 2}))["unread"] == 0
    await eva.send(chat, "m3")
    assert (await record(ben, chat))["unread"] == 1


async def test_everything_unread(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    una, vic = await rest.users("una", "vic")
    assert (await una.ok("GET", "/v1/unread"))["total"] == 0
    chats = [await vic.group("una") for _ in range(3)]
    for number, chat in enumerate(chats):
        rest.clock.time += 1_000
        for which in range(number + 1):
            await vic.send(chat, f"m{which}")
    await una.send(chats[2], "own")
    total = await una.ok("GET", "/v1/unread")
    assert (total["chats"], total["messages"], total["exact"]) == (3, 6, True)
    assert total["mentions"] == 0
    assert total["total"] == 6 + sum(total["inboxes"].values())

    # Beyond what is looked at, own messages are among the upper bound.
    monkeypatch.setattr(unread, "TOTAL_ENTRIES_MAX", 3)
    total = await una.ok("GET", "/v1/unread")
    assert (total["messages"], total["exact"]) == (7, False)
    monkeypatch.setattr(unread, "TOTAL_ENTRIES_MAX", 200)
    monkeypatch.setattr(unread, "TOTAL_CHATS_MAX", 1)
    total = await una.ok("GET", "/v1/unread")
    assert (total["messages"], total["exact"]) == (6, False)


async def test_inboxes_are_counted_up_to_a_hundred(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await rest.tenant("posting")
    ann = await rest.user("ann", "posting")
    await backend.ok("PUT", "/v1/tenants/posting/inboxes/news", {"title": "News"})
    for number in range(3):
        await backend.ok(
            "POST",
            "/v1/tenants/posting/inboxes/news/notifications",
            to_everyone(f"n{number}"),
        )
    total = await ann.ok("GET", "/v1/unread")
    assert (total["inboxes"], total["total"], total["exact"]) == ({"news": 3}, 3, True)
    monkeypatch.setattr(unread, "TOTAL_INBOX_MAX", 2)
    total = await ann.ok("GET", "/v1/unread")
    assert (total["inboxes"], total["exact"]) == ({"news": 2}, False)


async def test_an_inbox_that_was_just_deleted_is_left_out(rest: Rest) -> None:
    backend = await rest.tenant("closing")
    ann = await rest.user("ann", "closing")
    await backend.ok("PUT", "/v1/tenants/closing/inboxes/news", {"title": "News"})
    assert (await ann.ok("GET", "/v1/unread"))["inboxes"] == {"news": 0}
    await backend.ok("DELETE", "/v1/tenants/closing/inboxes/news")
    assert (await ann.ok("GET", "/v1/unread"))["inboxes"] in ({}, {"news": 0})


async def test_what_was_read_on_another_device_just_before_counts(rest: Rest, talk: Talk) -> None:
    """Read marks from sockets wait for up to a second; an answer does not wait for them."""
    chat, _, ben = talk
    user = user_key(TENANT, "ben")
    rest.core.receipts.note(Move(user, ChatId(chat), read=2, at=rest.clock.time))

    async def is_written() -> bool:
        rows = (await ben.ok("GET", f"/v1/chats/{chat}/receipts"))["data"]
        return {"user_id": "ben", "delivered": 2, "read": 2} in rows

    await until(is_written)
    rest.core.receipts.note(Move(user, ChatId(chat), read=4, at=rest.clock.time))
    answer = await ben.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": 2})
    assert (answer["read"], answer["unread"]) == (4, 0)
