# SPDX-License-Identifier: Apache-2.0
"""Over the socket: the total of everything unread, and chats that the user changed elsewhere."""

import pytest

from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import friends, settled, told
from tests.support.client_socket import Frame, Socket
from tests.support.explaining import as_tenant
from tests.support.inbox import Inbox
from tests.support.people import Person, Town
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def waits() -> str:
    return "unread_totals revocations erasures"


async def live(person: Person, **hello: object) -> Socket:
    """A device that has said hello and is live."""
    socket = Socket(person.town.url)
    await socket.open()
    socket.tell({"op": "hello", "token": person.token, "device": "phone", **hello})
    await socket.frame("live")
    return socket


def messages(frame: Frame) -> tuple[int, int]:
    return frame["chats"], frame["messages"]


async def until_total(device: Socket, chats: int, count: int) -> Frame:
    """Wait until the last total says so."""
    await device.until(
        lambda: (totals := told(device, "unread_total")) and messages(totals[-1]) == (chats, count)
    )
    return told(device, "unread_total")[-1]


async def until_changed(device: Socket, chat: str, times: int) -> None:
    await device.until(lambda: len(told(device, "chat_changed", chat=chat)) == times)


async def test_the_total_comes_at_live_and_after_every_change(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    other = await ann.create_direct(bob)
    for _ in range(3):
        await ann.send(chat)
    device = await live(bob, totals=True)
    first = await until_total(device, 1, 3)
    assert (first["mentions"], first["total"], first["exact"]) == (0, 3, True)

    sent = await ann.send(other)
    await until_total(device, 2, 4)
    await ann.call("DELETE", f"/v1/chats/{other}/messages/{sent['sequence']}")
    await until_total(device, 1, 3)
    await bob.call("PUT", f"/v1/chats/{chat}/receipt", {"read": 4})
    await until_total(device, 0, 0)
    await bob.call("PUT", f"/v1/chats/{chat}/unread", {"from": 3})
    await until_total(device, 1, 2)
    await bob.send(chat)
    await until_total(device, 0, 0)
    await ann.send(chat)
    await until_total(device, 1, 1)
    await ann.remove(chat, bob)
    last = await until_total(device, 0, 0)
    fetched = await bob.call("GET", "/v1/unread")
    assert {"op": "unread_total", **fetched} == last
    await device.drop()


async def test_notifications_with_one_collapse_key_count_once(town: Town) -> None:
    inbox = await Inbox(town, "collapsing").make()
    chat, (ann, bob) = await friends(town, "ann", "bob")
    device = await live(bob, totals=True)
    await until_total(device, 0, 0)
    for more in ({"collapse_key": "k"}, {"collapse_key": "k"}, {}):
        posted = await inbox.post([bob.user_id], **more)
        await device.frame("notification", id=posted["id"])
    await ann.send(chat)

    async def is_told() -> bool:
        fetched = await bob.call("GET", "/v1/unread")
        assert fetched["messages"] == 1
        has_inbox = fetched["inboxes"] == {inbox.name: 2}  # inboxes are cached for a second
        return has_inbox and told(device, "unread_total")[-1] == {"op": "unread_total", **fetched}

    await until(is_told, describe=lambda: told(device, "unread_total"))
    await device.drop()


async def test_a_device_that_follows_no_chat_gets_totals_too(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    device = await live(bob, totals=True, catch_up="heads")
    await until_total(device, 0, 0)
    await ann.send(chat)
    await until_total(device, 1, 1)
    await device.drop()


@pytest.mark.parametrize("catch_up", ["all", "heads"])
async def test_erased_messages_count_no_longer_on_a_device_without_erasures(
    town: Town, catch_up: str
) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    device = await live(bob, totals=True, catch_up=catch_up)
    await ann.send(chat)
    await until_total(device, 1, 1)
    await as_tenant(town, "DELETE", f"users/{ann.user_id}/content")
    await until_total(device, 0, 0)
    assert told(device, "erased") == []
    await device.drop()


async def test_who_does_not_ask_gets_no_totals(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    device = await live(bob)
    await ann.send(chat)
    await device.frame("entry", chat=chat, sequence=2)
    await settled(device)
    assert told(device, "unread_total") == []
    await device.drop()


async def test_all_devices_learn_that_a_chat_was_changed(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    devices = [await live(bob), await live(bob, catch_up="heads")]
    stranger = await live(ann)
    changes: list[tuple[Frame, str]] = [
        ({"from": 1}, "unread"),
        ({"hidden": True}, "hidden"),
        ({"until": None}, "mute"),
    ]
    for number, (body, what) in enumerate(changes, 1):
        await bob.call("PUT", f"/v1/chats/{chat}/{what}", body)
        for device in devices:
            await until_changed(device, chat, number)
    await settled(stranger)
    assert told(stranger, "chat_changed") == []
    for device in (*devices, stranger):
        await device.drop()


async def test_what_is_read_elsewhere_in_a_chat_of_heads_counts_no_longer(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    await ann.send(chat)
    device = await live(bob, totals=True, catch_up="heads")
    await until_total(device, 1, 1)
    sent = await ann.send(chat)
    await until_total(device, 1, 2)
    await bob.call("PUT", f"/v1/chats/{chat}/receipt", {"read": sent["sequence"]})
    await until_total(device, 0, 0)
    assert not told(device, "unread")
