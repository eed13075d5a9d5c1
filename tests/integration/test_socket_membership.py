# SPDX-License-Identifier: Apache-2.0
"""Coming and going while connected: the last entry, nothing after it, and 404 on every frame."""

from collections.abc import Awaitable, Callable

import pytest

from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import (
    friends,
    people,
    post,
    sequences,
    settled,
    told,
    until_entries,
)
from tests.support.canary import canary
from tests.support.client_socket import Frame, Refused, Socket
from tests.support.device import Device
from tests.support.people import Person, Town

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOWHERE = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
SEND = {"op": "send", "id": "x", "client_message_id": "new", "content": "hi"}
FRAMES: list[Frame] = [
    SEND,
    {"op": "fetch", "id": "x", "after": 0},
    {"op": "fetch", "id": "x", "before": 2},
    {"op": "received", "sequence": 1},
    {"op": "received", "sequence": 0},
    {"op": "read", "sequence": 1},
    {"op": "typing"},
]


async def answer(device: Socket, frame: Frame) -> Frame:
    """Send a frame that may have no id; the refusal it brings."""
    heard = len(device.raw)
    device.tell(frame)
    return await device.frame("refused", since=heard)


async def never_in(_town: Town) -> tuple[str, Device]:
    chat, _ = await friends(_town, "ann", "bob")
    [stranger] = await people(_town, "cat")
    return chat, await stranger.device().connect()


async def kicked(town: Town) -> tuple[str, Device]:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    return chat, await removed_by(ann, chat, bob)


async def left(town: Town) -> tuple[str, Device]:
    chat, (_, bob) = await friends(town, "ann", "bob")
    return chat, await removed_by(bob, chat, bob)


async def removed_by(remover: Person, chat: str, removed: Person) -> Device:
    """Return a device of a user who is removed while it is connected.

    It sends no `received` by itself, because that would be refused as well, at any time.
    """
    device = removed.device()
    device.acknowledges = False
    await device.connect()
    await remover.remove(chat, removed)
    await device.frame("entry", kind="removed")
    return device


async def of_another_tenant(town: Town) -> tuple[str, Device]:
    chat, (ann, _) = await friends(town, "ann", "bob")
    other = Town(town.url, town.root_key, "elsewhere")
    namesake = await other.user(ann.user_id)
    await other.http.aclose()
    return chat, await Person(town, namesake.user_id, namesake.token).device().connect()


@pytest.mark.attack("C13", "D01", "D02", "D24")
@pytest.mark.parametrize("outsider", [never_in, kicked, left, of_another_tenant])
async def test_outsiders_are_told_the_same_as_of_a_chat_that_is_not_there(
    town: Town, outsider: Callable[[Town], Awaitable[tuple[str, Device]]]
) -> None:
    chat, device = await outsider(town)
    for frame in FRAMES:
        for_chat = await answer(device, {**frame, "chat": chat})
        assert for_chat == await answer(device, {**frame, "chat": NOWHERE})
        assert (for_chat["code"], for_chat["retryable"]) == ("chat.not_found", False)
        assert for_chat.get("id") == frame.get("id")
    await device.close()


@pytest.mark.attack("D02")
async def test_who_is_removed_hears_that_and_nothing_more(town: Town) -> None:
    chat, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    async with ann.device() as writer, bob.device() as removed, cat.device() as witness:
        await post(writer, chat, 3)
        await until_entries(removed, chat, 4)
        await ann.remove(chat, bob)
        await post(writer, chat, 3)
        writer.tell({"op": "typing", "chat": chat})
        await witness.frame("typing")
        await until_entries(witness, chat, 8)
        heard = len(removed.raw)
        await settled(removed)

        entries = told(removed, "entry", chat=chat)
        assert [entry["sequence"] for entry in entries] == [1, 2, 3, 4, 5]
        assert (entries[-1]["kind"], entries[-1]["users"]) == ("removed", [bob.user_id])
        about_the_chat = [frame for frame in removed.raw[heard:] if frame.get("chat") == chat]
        assert about_the_chat == []

        await removed.close()
        await removed.connect()
        assert told(removed, "gone") == [{"op": "gone", "chat": chat}]


@pytest.mark.attack("D02")
async def test_a_repeat_of_an_own_send_is_still_answered_after_a_kick(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with bob.device() as device:
        first = await device.send(chat, client_message_id="mine")
        await ann.remove(chat, bob)
        again = await device.send(chat, client_message_id="mine")
        assert {**again, "id": ""} == {**first, "id": ""}
        with pytest.raises(Refused, match=r"chat\.not_found"):
            await device.send(chat, client_message_id="another")


async def test_who_is_added_hears_from_then_on_and_who_comes_back_again(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    [cat] = await people(town, "cat")
    async with ann.device() as writer, cat.device() as newcomer:
        await post(writer, chat, 3)
        await ann.add(chat, cat)
        await post(writer, chat)
        assert await until_entries(newcomer, chat, 2) == [5, 6]
        added = told(newcomer, "entry", kind="added")[0]
        assert (added["users"], added["role"]) == ([cat.user_id], "member")
        page = await newcomer.ask({"op": "fetch", "chat": chat, "before": 5})
        assert [entry["sequence"] for entry in page["entries"]] == [1, 2, 3, 4]

        await ann.remove(chat, cat)
        await post(writer, chat)
        await ann.add(chat, cat)
        await post(writer, chat)
        await newcomer.until(lambda: 10 in sequences(newcomer, chat))
        assert sequences(newcomer, chat) == [5, 6, 7, 9, 10]
        await newcomer.until(lambda: newcomer.logs.have[chat] == 10)
    assert [entry["sequence"] for entry in newcomer.logs.entries[chat]] == [5, 6, 7, 8, 9, 10]
    assert bob.user_id


async def test_changes_of_a_chat_are_entries(town: Town) -> None:
    chat, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    async with cat.device() as device:
        await ann.call("PATCH", f"/v1/chats/{chat}", {"name": "Tea"})
        await ann.add(chat, bob, "admin")
        await ann.remove(chat, ann)
        await until_entries(device, chat, 5)
    created, renamed, role, removed, heir = told(device, "entry", chat=chat)
    assert (created["kind"], created["name"]) == ("created", "A group")
    assert set(created["users"]) == {ann.user_id, bob.user_id, cat.user_id}
    assert (renamed["kind"], renamed["name"]) == ("renamed", "Tea")
    assert (role["kind"], role["users"], role["role"]) == ("role", [bob.user_id], "admin")
    assert (removed["kind"], removed["users"]) == ("removed", [ann.user_id])
    assert (heir["kind"], heir["users"], heir["role"]) == ("role", [bob.user_id], "owner")


async def test_a_new_chat_comes_to_its_members_at_once(town: Town) -> None:
    ann, bob = await people(town, "ann", "bob")
    async with ann.device() as creator, bob.device() as other:
        chat = await ann.create_direct(bob)
        for device in (creator, other):
            entry = await device.frame("entry", chat=chat)
            assert (entry["sequence"], entry["kind"]) == (1, "created")


@pytest.mark.attack("S28", "D02")
async def test_the_repeat_of_an_own_send_tells_who_left_nothing_new(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with bob.device() as device:
        sent = await device.send_once(chat, canary("mine"), "own")
        await ann.remove(chat, bob)
        again = await device.send_once(chat, canary("mine"), "own")
    assert {**again, "id": ""} == {**sent, "id": ""}
    assert set(sent) == {"op", "id", "chat", "sequence", "message_id", "created_at"}
