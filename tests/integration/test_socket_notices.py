# SPDX-License-Identifier: Apache-2.0
"""Frames without a sequence: typing, receipts, unread, presence; none of it in large chats."""

import asyncio
from time import monotonic

import pytest

from tests.integration.cores import all_of
from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import (
    friends,
    people,
    post,
    settled,
    told,
    until_entries,
)
from tests.support.client_socket import Frame
from tests.support.device import Device
from tests.support.people import Town
from tests.support.waiting import until
from tidings.model.limits import SECOND_MS, TYPING_MS_MIN

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_typing_goes_to_the_other_members_at_most_every_three_seconds(town: Town) -> None:
    chat, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    devices = [person.device() for person in (ann, ann, bob, cat)]
    await all_of(device.connect() for device in devices)
    writer, *_ = devices
    began = monotonic()
    for _ in range(20):
        writer.tell({"op": "typing", "chat": chat})
    await post(writer, chat)
    for device in devices[1:]:
        await until_entries(device, chat, 2)
    for device in devices[2:]:  # the members are looked up first, so this may come after the entry
        await device.frame("typing", chat=chat)
    counts = [len(told(device, "typing")) for device in devices]
    most = 1 + (monotonic() - began) // (TYPING_MS_MIN / SECOND_MS)
    assert counts[:2] == [0, 0]
    assert all(1 <= count <= most for count in counts[2:])
    assert told(devices[2], "typing")[0] == {"op": "typing", "chat": chat, "user": ann.user_id}
    for device in devices:
        await device.close()


def receipts(device: Device, chat: str, user: str) -> list[tuple[int, int]]:
    return [
        (frame["delivered"], frame["read"])
        for frame in told(device, "receipt", chat=chat, user=user)
    ]


@pytest.mark.attack("C12")
async def test_receipts_are_told_to_the_others_and_only_ever_go_up(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    writer, watcher, reader = ann.device("a"), ann.device("b"), bob.device()
    reader.acknowledges = False
    await all_of(device.connect() for device in (writer, watcher, reader))
    await post(writer, chat, 3)
    await until_entries(reader, chat, 4)
    reader.tell({"op": "received", "chat": chat, "sequence": 3})
    await writer.frame("receipt", chat=chat, user=bob.user_id, delivered=3)
    for sequence in (2, 1, 4, 3, 0):
        reader.tell({"op": "read", "chat": chat, "sequence": sequence})
        reader.tell({"op": "received", "chat": chat, "sequence": sequence})

    for device in (writer, watcher):
        await device.frame("receipt", chat=chat, user=bob.user_id, read=4)
        seen = receipts(device, chat, bob.user_id)
        assert seen == sorted(seen)
        assert seen[-1] == (4, 4)
    rows = (await ann.call("GET", f"/v1/chats/{chat}/receipts"))["data"]
    assert {"user_id": bob.user_id, "delivered": 4, "read": 4} in rows
    await settled(reader)
    assert receipts(reader, chat, bob.user_id) == [], "one's own, on the only device"
    for device in (writer, watcher, reader):
        await device.close()


async def test_receipts_of_one_member_come_at_most_once_a_second(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    writer, reader = ann.device(), bob.device()
    reader.acknowledges = False
    await all_of(device.connect() for device in (writer, reader))
    await post(writer, chat, 50)
    await until_entries(reader, chat, 51)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for sequence in range(1, 52):
        reader.tell({"op": "read", "chat": chat, "sequence": sequence})
        await settled(reader)
    await writer.frame("receipt", chat=chat, user=bob.user_id, read=51)
    assert len(receipts(writer, chat, bob.user_id)) <= 2 + (loop.time() - begun)
    for device in (writer, reader):
        await device.close()


async def test_receipts_over_rest_come_no_more_often(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as writer:
        await post(writer, chat, 30)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for sequence in range(1, 32):
            await bob.call("PUT", f"/v1/chats/{chat}/receipt", {"read": sequence})
        await writer.frame("receipt", chat=chat, user=bob.user_id, read=31)
        assert len(receipts(writer, chat, bob.user_id)) <= 2 + (loop.time() - begun)


async def test_reading_on_one_device_is_told_to_the_other(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    phone, laptop = bob.device("phone"), bob.device("laptop")
    async with ann.device() as writer, phone, laptop:
        await post(writer, chat, 5)
        await until_entries(phone, chat, 6)
        await until_entries(laptop, chat, 6)
        phone.tell({"op": "read", "chat": chat, "sequence": 4})
        unread = await laptop.frame("unread", chat=chat)
        assert unread == {
            "op": "unread",
            "chat": chat,
            "unread": 2,
            "unread_exact": True,
            "unread_mentions": 0,
        }
        await laptop.frame("receipt", chat=chat, user=bob.user_id, read=4)
        row = await bob.call("GET", f"/v1/chats/{chat}")
        assert (row["unread"], row["unread_exact"]) == (2, True)

        await bob.call("PUT", f"/v1/chats/{chat}/receipt", {"read": 6})
        for device in (phone, laptop):
            await device.frame("unread", chat=chat, unread=0)


# Presence.


def presence(device: Device, user: str) -> list[Frame]:
    return told(device, "presence", user=user)


async def test_presence_is_a_snapshot_on_live_and_then_changes(town: Town) -> None:
    _, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    [stranger] = await people(town, "dan")
    watcher = await ann.device().connect()
    away = await stranger.device().connect()
    phone = await bob.device("phone").connect()
    laptop = await bob.device("laptop").connect()
    await watcher.frame("presence", user=bob.user_id, online=True)

    second = await ann.device("second").connect()
    frame = await second.frame("presence", user=bob.user_id)
    assert frame == {"op": "presence", "user": bob.user_id, "online": True}
    assert second.raw.index(frame) > second.raw.index({"op": "live"})

    await phone.close()
    visitor = await cat.device().connect()
    await watcher.frame("presence", user=cat.user_id, online=True)
    assert len(presence(watcher, bob.user_id)) == 1, "one of two devices is no change"
    await laptop.close()
    gone = await watcher.frame("presence", user=bob.user_id, online=False)
    assert gone["last_seen"].endswith("Z")

    async def last_seen() -> object:
        return (await ann.call("GET", f"/v1/users/{bob.user_id}"))["last_seen_at"]

    await until(last_seen)  # it is stored after the others are told
    late = await ann.device("late").connect()
    seen = await late.frame("presence", user=bob.user_id)
    assert (seen["online"], seen["last_seen"][:16]) == (False, gone["last_seen"][:16])

    await settled(away)
    assert told(away, "presence") == []
    assert presence(watcher, stranger.user_id) == []
    for device in (watcher, away, second, visitor, late):
        await device.close()


# Large chats.


async def test_a_large_chat_is_silent_but_for_its_entries(town: Town) -> None:
    ann, bob = await people(town, "ann", "bob")
    crowd = await people(town, *["member"] * 63)
    chat = await ann.create_group("Hall", [bob, *crowd])
    writer, reader, other = ann.device(), bob.device("phone"), bob.device("laptop")
    await all_of(device.connect() for device in (writer, reader, other))
    await post(writer, chat, 2)
    head = (await writer.send(chat))["sequence"]
    for device in (reader, other):
        await device.frame("entry", chat=chat, sequence=head)
    reader.tell({"op": "typing", "chat": chat})
    reader.tell({"op": "read", "chat": chat, "sequence": head})
    reader.acknowledge()
    unread = await other.frame("unread", chat=chat)
    assert unread["unread"] == 0

    await reader.close()
    await other.close()
    again = await bob.device("again").connect()
    await post(again, chat)
    await writer.frame("entry", chat=chat, sequence=head + 1)
    for device in (writer, again):
        await settled(device)
    for op in ("receipt", "typing", "presence"):
        assert [told(device, op) for device in (writer, reader, other, again)] == [[]] * 4

    await ann.remove(chat, crowd[0])
    again.tell({"op": "typing", "chat": chat})
    await writer.frame("typing", chat=chat, user=bob.user_id)
    for device in (writer, again):
        await device.close()
