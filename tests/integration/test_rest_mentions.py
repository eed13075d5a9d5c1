# SPDX-License-Identifier: Apache-2.0
"""Mentions, silent messages and pins over REST: who may, what is shown, and what is refused."""

import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Json, Rest
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

Talk = tuple[str, Actor, Actor, Actor]


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> Talk:
    """A fresh group of three with one message, at sequence 2."""
    ann, ben, cat = await rest.users("ann", "ben", "cat")
    chat = await ann.group("ben", "cat")
    await ann.send(chat, "m1")
    return chat, ann, ben, cat


async def unread(actor: Actor, chat: str) -> tuple[int, int]:
    """Unread messages and mentions, which the record, the list and the total agree on."""
    row = await actor.ok("GET", f"/v1/chats/{chat}")
    listed = await actor.ok("GET", "/v1/chats")
    [same] = [one for one in listed["data"] if one["chat_id"] == chat]
    assert (same["unread"], same["unread_mentions"]) == (row["unread"], row["unread_mentions"])
    return row["unread"], row["unread_mentions"]


def at(rows: Json, chat: str) -> list[int]:
    return [one["sequence"] for one in rows["data"] if one["chat_id"] == chat]


async def test_mentions_are_shown_listed_and_counted(rest: Rest, talk: Talk) -> None:
    chat, ann, ben, cat = talk
    before = (await cat.ok("GET", "/v1/unread"))["mentions"]
    sent = await ann.send(chat, "m2", mentions=["ben", "cat"])
    assert sent["mentions"] == ["ben", "cat"]
    rest.clock.time += 1
    await ben.send(chat, "m3", mentions=["cat"], silent=True)
    await ann.send(chat, "m4", mentions=["*"])

    listed = await cat.ok("GET", "/v1/mentions")
    assert at(listed, chat) == [4, 3], "newest first, without what is for everyone"
    newest = listed["data"][0]
    assert (newest["sender_id"], newest["mentions"], newest["silent"]) == ("ben", ["cat"], True)
    assert await unread(cat, chat) == (4, 3)
    assert (await cat.ok("GET", "/v1/unread"))["mentions"] == before + 3
    first = await cat.ok("GET", "/v1/mentions?limit=1")
    rest_of_it = await cat.ok("GET", f"/v1/mentions?limit=1&cursor={first['next_cursor']}")
    assert (at(first, chat), at(rest_of_it, chat)) == ([4], [3])
    assert await ben.refused("GET", f"/v1/mentions?cursor={first['next_cursor']}") == (
        400,
        "cursor.invalid",
    )
    await cat.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": 5})
    assert await unread(cat, chat) == (0, 0)


async def test_what_is_gone_is_mentioned_no_more(rest: Rest, talk: Talk) -> None:
    chat, ann, ben, cat = talk
    await ann.send(chat, "m2", mentions=["cat"])
    await ben.send(chat, "m3", mentions=["cat"])
    await ann.send(chat, "m4", mentions=["cat"], ttl_seconds=1)
    assert at(await cat.ok("GET", "/v1/mentions"), chat) == [5, 4, 3]

    rest.clock.time += 1_000
    await ben.ok("DELETE", f"/v1/chats/{chat}/messages/4")
    assert at(await cat.ok("GET", "/v1/mentions"), chat) == [3]
    assert await unread(cat, chat) == (2, 1)
    backend = await rest.tenant()
    await backend.ok("DELETE", "/v1/tenants/acme/users/ann/content")
    assert at(await cat.ok("GET", "/v1/mentions"), chat) == []
    assert await unread(cat, chat) == (0, 0)
    entries = (await cat.ok("GET", f"/v1/chats/{chat}/entries"))["data"]
    assert not any("mentions" in one for one in entries)


@pytest.mark.parametrize(
    ("mentions", "expected"),
    [
        (["dan"], (409, "send.mention_unknown")),
        (["ben", "nobody"], (409, "send.mention_unknown")),
        (["*", "ben"], (400, "request.invalid")),
        (["ben", "ben"], (400, "request.invalid")),
        (["no such id"], (400, "request.invalid")),
        ([f"u{n}" for n in range(limits.MENTIONS_MAX + 1)], (400, "request.invalid")),
        ("ben", (400, "request.invalid")),
    ],
    ids=["no member", "nobody", "everyone and one", "twice", "no id", "too many", "no list"],
)
async def test_only_members_are_mentioned(
    rest: Rest, talk: Talk, mentions: object, expected: tuple[int, str]
) -> None:
    chat, ann, _, _ = talk
    await rest.users("dan")
    body = {"client_message_id": "m", "content": "hi", "mentions": mentions}
    assert await ann.refused("POST", f"/v1/chats/{chat}/messages", body) == expected


async def test_in_a_large_group_only_its_admins_mention_everyone(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, ann, ben, _ = talk
    monkeypatch.setattr(limits, "SMALL_CHAT_MEMBERS_MAX", 2)
    body = {"client_message_id": "m", "content": "hi", "mentions": ["*"]}
    path = f"/v1/chats/{chat}/messages"
    assert await ben.refused("POST", path, body) == (403, "auth.forbidden")
    await ann.ok("POST", path, body)


async def test_admins_pin_in_groups(talk: Talk) -> None:
    chat, ann, ben, _ = talk
    await ben.send(chat, "m2")
    path = f"/v1/chats/{chat}/pins"
    assert await ben.refused("PUT", f"{path}/3") == (403, "auth.forbidden")
    for sequence in (3, 2, 3):
        assert (await ann.call("PUT", f"{path}/{sequence}")).status_code == 204
    assert await ann.refused("PUT", f"{path}/1") == (404, "message.not_found")

    pins = (await ben.ok("GET", path))["data"]
    assert [(one["sequence"], one["pinned_by"], one["content"]) for one in pins] == [
        (3, "ann", (await ann.ok("GET", f"/v1/chats/{chat}/messages/3"))["content"]),
        (2, "ann", (await ann.ok("GET", f"/v1/chats/{chat}/messages/2"))["content"]),
    ]
    await ben.ok("DELETE", f"/v1/chats/{chat}/messages/3")
    assert [one.get("redacted") for one in (await ben.ok("GET", path))["data"]] == [True, None]
    assert await ann.refused("PUT", f"{path}/5") == (404, "message.not_found")
    await ann.ok("DELETE", f"{path}/3")
    await ann.ok("DELETE", f"{path}/3")
    assert await ann.refused("PUT", f"{path}/3") == (409, "message.gone")
    entries = (await ann.ok("GET", f"/v1/chats/{chat}/entries?after=3"))["data"]
    kinds = [(one["kind"], one["target"]) for one in entries]
    assert kinds == [("pinned", 3), ("pinned", 2), ("redacted", 3), ("unpinned", 3)]


async def test_both_pin_in_a_direct_chat(rest: Rest) -> None:
    ann, ben = await rest.users("ann", "ben")
    chat = await ann.direct("ben")
    sent = await ann.send(chat, "m1")
    await ben.ok("PUT", f"/v1/chats/{chat}/pins/{sent['sequence']}")

    [pin] = (await ann.ok("GET", f"/v1/chats/{chat}/pins"))["data"]
    assert (pin["sequence"], pin["pinned_by"]) == (sent["sequence"], "ben")
