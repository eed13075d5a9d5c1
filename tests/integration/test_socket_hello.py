# SPDX-License-Identifier: Apache-2.0
"""Hello on the real server: who gets in, in what order things come, and how long one may stay."""

from contextlib import suppress
from typing import Any

import pytest

from tests.integration.cores import all_of
from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import (
    closed_with,
    code_of_hello,
    friends,
    people,
    settled,
    told,
    until_entries,
)
from tests.support.canary import canary
from tests.support.client_socket import ConnectionLost, Socket
from tests.support.device import Device
from tests.support.people import Person, Town
from tests.support.server import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_welcome_then_what_is_missing_newest_first_then_live(town: Town) -> None:
    first, (ann, bob) = await friends(town, "ann", "bob")
    second = await ann.create_direct(bob)
    third = await ann.create_group("Third", [bob])
    async with ann.device() as writer:
        earlier = (await writer.send(second))["created_at"]
        while (await writer.send(first))["created_at"] == earlier:
            pass  # within the same millisecond neither is newer
    async with bob.device("laptop") as device:
        frames = [
            frame for frame in device.raw if frame["op"] not in ("receipt", "presence", "unread")
        ]

    welcome = frames[0]
    assert {"user": bob.user_id, "device": "laptop", "window": 1_000}.items() <= welcome.items()
    assert set(welcome) == {
        "op", "user", "device", "connection", "epoch", "heartbeat_ms", "window",
    }  # fmt: skip
    assert frames[-1] == {"op": "live"}
    entries = [(frame["chat"], frame["sequence"]) for frame in frames[1:-1]]
    in_first = len(entries) - 3
    assert entries == [
        *[(first, sequence) for sequence in range(1, in_first + 1)],
        *[(second, sequence) for sequence in (1, 2)],
        (third, 1),
    ]


async def test_a_message_entry_has_the_fields_of_the_protocol(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as sender, bob.device() as receiver:
        sent = await sender.send(chat, canary("hi"), client_message_id="one")
        entry = await receiver.frame("entry", chat=chat, kind="message")
    assert sent == {
        "op": "sent", "id": sent["id"], "chat": chat, "sequence": 2,
        "message_id": f"{chat}.2", "created_at": entry["created_at"],
    }  # fmt: skip
    assert entry == {
        "op": "entry", "chat": chat, "sequence": 2, "kind": "message", "sender": ann.user_id,
        "created_at": sent["created_at"], "message_id": f"{chat}.2", "client_message_id": "one",
        "content": canary("hi"), "content_type": "text/plain",
    }  # fmt: skip


# Who gets in.


async def test_credentials_that_are_no_users_do_not_open_a_socket(
    town: Town, server: ServerProcess
) -> None:
    [ann] = await people(town, "ann")
    tampered = ann.token[:-8] + ("A" * 8 if ann.token[-8:] != "A" * 8 else "B" * 8)
    for token, code in (
        (tampered, 4401),
        ("", 4401),
        ("nonsense", 4401),
        ("sk_0123456789abcdef_" + "x" * 43, 4401),
        (await town.tenant_key(), 4403),
        (server.root_key, 4403),
    ):
        assert await code_of_hello(Socket(town.url), token=token, device="phone") == code


@pytest.mark.attack("C13")
async def test_a_token_may_fix_the_device(town: Town) -> None:
    [ann] = await people(town, "ann")
    token = await town.token(ann.user_id, device="phone")
    for named in (None, "phone"):
        device = ann.device(named or "phone")
        device.token, device.name = token, named
        async with device:
            assert told(device, "welcome")[0]["device"] == "phone"
    assert await code_of_hello(Socket(town.url), token=token, device="laptop") == 4403


@pytest.mark.parametrize("device", [{}, {"device": ""}, {"device": "a b"}, {"device": "x" * 65}])
async def test_without_one_in_the_token_hello_names_the_device(
    town: Town, device: dict[str, str]
) -> None:
    [ann] = await people(town, "ann")
    assert await code_of_hello(Socket(town.url), token=ann.token, **device) == 4400


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"op": "ping"}, 4401),
        ({"op": "typing", "chat": "c"}, 4401),
        ({"op": "fetch", "id": "1", "chat": "c", "after": 0}, 4401),
        ({"op": "auth", "token": "t"}, 4401),
        ({"op": "dance"}, 4400),
        ({"op": "hello"}, 4400),
        ({"op": "hello", "token": 5}, 4400),
        ({"op": "hello", "token": "t", "have": {"c": -1}}, 4400),
    ],
)
async def test_the_first_frame_is_hello(town: Town, frame: dict[str, Any], code: int) -> None:
    socket = Socket(town.url)
    await socket.open()
    socket.tell(frame)
    assert await closed_with(socket) == code
    [bye] = told(socket, "bye")
    assert (bye["code"], bye["reconnect"]) == (code, False)


async def test_a_first_frame_that_is_not_even_json(town: Town) -> None:
    socket = Socket(town.url)
    await socket.open()
    socket.tell_raw(b"hello?")
    assert await closed_with(socket) == 4400


async def test_hello_comes_once(town: Town) -> None:
    [ann] = await people(town, "ann")
    async with ann.device() as device:
        device.greet()
        refused = await device.frame("refused")
        assert refused["code"] == "request.invalid"
        await settled(device)
        assert device.is_open


async def test_twenty_connections_a_user_and_no_more(town: Town) -> None:
    ann, bob = await people(town, "ann", "bob")
    devices = [ann.device("phone" if number % 2 else "laptop") for number in range(20)]
    await all_of(device.connect() for device in devices)
    tablet = Socket(town.url)
    assert await code_of_hello(tablet, token=ann.token, device="tablet") == 4409
    [bye] = told(tablet, "bye")
    assert bye["reconnect"]
    assert 30_000 <= bye["retry_after_ms"] <= 60_000
    async with bob.device():
        pass

    devices[0].tell({"op": "away", "away": True})
    async with ann.device("laptop") as again:
        assert again.is_live
        assert await closed_with(devices[0]) == 4409

    async with ann.device() as again:
        assert again.is_live
    for device in devices[1:]:
        await device.close()


# How long one may stay.


async def with_short_token(town: Town, ann: Person) -> tuple[Device, Device]:
    """Two devices whose token ends soon; the first has shown another one before that.

    On a slow machine the token may end too early. Then the next one lives longer.
    """
    for seconds in (1, 3, 9, 27):
        short = await town.token(ann.user_id, expires_in=seconds)
        renewed, forgetful = (Device(town.url, short, name) for name in ("a", "b"))
        with suppress(ConnectionLost):
            await renewed.connect()
            await forgetful.connect()
            renewed.tell({"op": "auth", "token": ann.token})
            await forgetful.until(lambda: not forgetful.is_open)  # noqa: B023
            renewed.tell({"op": "ping"})
            await renewed.until(lambda: told(renewed, "pong") or not renewed.is_open)  # noqa: B023
            if renewed.is_open:
                return renewed, forgetful
        await all_of(device.close() for device in (renewed, forgetful))
    raise AssertionError("every token ended before a device was connected")


@pytest.mark.attack("A19")
async def test_a_token_ends_and_a_fresh_one_before_that_goes_on(town: Town) -> None:
    [ann] = await people(town, "ann")
    renewed, forgetful = await with_short_token(town, ann)
    assert await closed_with(forgetful) == 4401
    assert told(forgetful, "bye") == [
        {"op": "bye", "code": 4401, "reconnect": False, "retry_after_ms": 0}
    ]
    await settled(renewed)
    assert renewed.is_open
    await renewed.close()


@pytest.mark.attack("C16")
async def test_a_fresh_token_is_the_same_users(town: Town) -> None:
    ann, bob = await people(town, "ann", "bob")
    for token, code in (
        (bob.token, 4403),
        (await town.token(ann.user_id, device="laptop"), 4403),
        (await town.tenant_key(), 4403),
        ("nonsense", 4401),
    ):
        device = await ann.device("phone").connect()
        device.tell({"op": "auth", "token": token})
        assert await closed_with(device) == code


async def test_a_ping_is_answered(town: Town) -> None:
    [ann] = await people(town, "ann")
    async with ann.device() as device:
        for _ in range(3):
            await settled(device)
        assert len(told(device, "pong")) == 3


async def test_by_heads_a_user_without_chats_gets_an_empty_frame_before_live(town: Town) -> None:
    (ann,) = await people(town, "ann")
    socket = Socket(town.url)
    await socket.open()
    socket.tell({"op": "hello", "token": ann.token, "device": "phone", "catch_up": "heads"})
    await socket.frame("live")
    assert [frame["op"] for frame in socket.raw] == ["welcome", "heads", "live"]
    assert told(socket, "heads") == [{"op": "heads", "chats": {}}]
    await socket.drop()


async def test_by_heads_entries_come_only_of_chats_that_are_followed(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    other = await ann.create_group("Other", [bob])
    socket = Socket(town.url)
    await socket.open()
    hello = {"op": "hello", "token": bob.token, "device": "phone", "client": "test/1.0"}
    socket.tell({**hello, "catch_up": "heads"})
    await socket.frame("live")
    assert [frame["chats"] for frame in told(socket, "heads")] == [{other: 1, chat: 1}]
    socket.tell({"op": "follow", "chat": chat, "after": 0})
    async with ann.device() as writer:
        await writer.send(chat)
        await writer.send(other)
        assert await until_entries(socket, chat, 2) == [1, 2]
        await socket.frame("heads", chats={other: 2})
        socket.tell({"op": "received", "chat": other, "sequence": 2})
        assert (await socket.frame("refused"))["code"] == "receipt.not_followed"
        socket.tell({"op": "follow", "chat": other, "after": 1})
        assert await until_entries(socket, other, 1) == [2]
        socket.tell({"op": "away", "away": True})
        await writer.send(chat)
        assert await until_entries(socket, chat, 3) == [1, 2, 3]
    await socket.drop()


@pytest.mark.parametrize(
    "fields",
    [
        {"client": "nameless"},
        {"client": "a/1\n"},
        {"client": "a" * 65 + "/1"},
        {"client": 7},
        {"catch_up": "some"},
    ],
)
async def test_a_hello_with_a_field_of_a_wrong_form_is_closed(
    town: Town, fields: dict[str, Any]
) -> None:
    assert await code_of_hello(Socket(town.url), token="x", device="phone", **fields) == 4400
