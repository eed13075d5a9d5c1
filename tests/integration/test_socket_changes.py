# SPDX-License-Identifier: Apache-2.0
"""What becomes of messages, live and on catch-up: edited, redacted, reacted to, expired."""

import pytest

from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import friends, sequences, told, until_entries
from tests.support.canary import canary
from tests.support.client_socket import Frame
from tests.support.people import Person, Town
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def entries_from_the_start(person: Person, chat: str) -> list[Frame]:
    """All entries of a chat, as a device gets them that has nothing."""
    async with person.device("new") as device:
        return told(device, "entry", chat=chat)


def beyond(entry: Frame, **fields: object) -> Frame:
    """The fields of an entry besides those that all have, checked."""
    common = {"op", "chat", "sequence", "kind", "sender", "created_at"}
    assert common <= set(entry)
    assert fields.items() <= entry.items()
    return {name: value for name, value in entry.items() if name not in common}


async def test_an_edit_carries_the_content_of_its_target(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with bob.device() as device:
        await ann.send(chat, canary("old"))
        for text in ("new", "newest"):
            await ann.call("PATCH", f"/v1/chats/{chat}/messages/2", {"content": canary(text)})
        await until_entries(device, chat, 4)
        live = told(device, "entry", chat=chat)
    assert live[1]["content"] == canary("old")
    for entry, text in zip(live[2:], ("new", "newest"), strict=True):
        assert beyond(entry, kind="edited", sender=ann.user_id) == {
            "target": 2, "content": canary(text), "content_type": "text/plain",
        }  # fmt: skip

    caught_up = await entries_from_the_start(bob, chat)
    assert [entry["sequence"] for entry in caught_up] == [1, 2, 3, 4]
    assert [entry["content"] for entry in caught_up[1:]] == [canary("newest")] * 3
    assert caught_up[1]["edited_at"] == caught_up[3]["created_at"]


@pytest.mark.attack("D23")
async def test_a_redaction_takes_the_content_everywhere(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with bob.device() as device:
        await ann.send(chat, canary("old"))
        await ann.call("PATCH", f"/v1/chats/{chat}/messages/2", {"content": canary("new")})
        await ann.call("DELETE", f"/v1/chats/{chat}/messages/2")
        await until_entries(device, chat, 4)
        live = told(device, "entry", chat=chat)
    assert beyond(live[3], kind="redacted", sender=ann.user_id) == {"target": 2}

    _, message, edited, redacted = await entries_from_the_start(bob, chat)
    assert message["redacted"] is True
    assert "content" not in message
    assert beyond(edited, kind="edited").get("content") is None
    assert edited["target"] == redacted["target"] == 2


async def test_reactions_come_and_go(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as device:
        await ann.send(chat)
        path = f"/v1/chats/{chat}/messages/2/reactions/👍"
        await bob.call("PUT", path)
        await bob.call("PUT", path)
        await bob.call("DELETE", path)
        await bob.call("PUT", path)
        await until_entries(device, chat, 5)
        live = told(device, "entry", chat=chat)
    assert [entry["kind"] for entry in live[2:]] == ["reacted", "unreacted", "reacted"]
    for entry in live[2:]:
        assert beyond(entry, sender=bob.user_id) == {"target": 2, "emoji": "👍"}
    assert (await entries_from_the_start(ann, chat))[1]["reactions"] == {"👍": 1}


async def test_a_message_that_has_expired_comes_as_a_tombstone(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    watcher = await bob.device("watcher").connect()
    await ann.send(chat, canary("short"), ttl_seconds=1)
    await ann.send(chat, canary("long"), ttl_seconds=1_000)
    await until_entries(watcher, chat, 3)
    live = told(watcher, "entry", chat=chat)
    assert [entry["content"] for entry in live[1:]] == [canary("short"), canary("long")]
    assert all(entry["expires_at"] > entry["created_at"] for entry in live[1:])

    async def is_expired() -> bool:
        return "content" not in (await entries_from_the_start(bob, chat))[1]

    await until(is_expired)
    _, short, long = await entries_from_the_start(bob, chat)
    assert short["expired"] is True
    assert "content" not in short
    assert long["content"] == canary("long")
    assert sequences(watcher, chat) == [1, 2, 3]
    await watcher.close()
