# SPDX-License-Identifier: Apache-2.0
"""Catching up: a reconnect gets exactly what it missed, or is told that it has to start over."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.integration.cores import all_of
from tests.integration.engines import long_engine as long_engine
from tests.integration.engines import no_limits as no_limits
from tests.integration.socket_town import (
    friends,
    people,
    post,
    sequences,
    settled,
    told,
    until_entries,
)
from tests.support.client_socket import Frame, Socket
from tests.support.people import Person, Town

pytestmark = pytest.mark.asyncio(loop_scope="module")

PER_CHAT = 500
PER_HELLO = 5_000
NOWHERE = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


@dataclass
class Library:
    """One reader, with more chats than one hello may bring; each with its log's length."""

    reader: Person
    heads: dict[str, int]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(town: Town) -> AsyncIterator[Library]:
    writer, reader = await people(town, "writer", "reader")
    heads = {}
    async with writer.device() as device:
        for length in (*[PER_CHAT] * (PER_HELLO // PER_CHAT), PER_CHAT + 20, 40):
            chat = await writer.create_group("Shelf", [reader])
            await post(device, chat, length - 1)
            heads[chat] = length
    yield Library(reader, heads)


async def hello(person: Person, have: dict[str, int] | None, **more: str) -> Socket:
    """A device without any logic says hello; returns once it is live, with nothing left out."""
    socket = Socket(person.town.url)
    await socket.open()
    frame: Frame = {"op": "hello", "token": person.token, "device": "phone", **more}
    socket.tell(frame | ({} if have is None else {"have": have}))
    heard = 0
    while not told(socket, "live"):
        await socket.until(lambda: len(socket.raw) > heard)  # noqa: B023 - awaited right here
        heard = len(socket.raw)
        for entry in told(socket, "entry")[-1:]:
            socket.tell({"op": "received", **{k: entry[k] for k in ("chat", "sequence")}})
    return socket


def resyncs(socket: Socket) -> dict[str, int]:
    return {frame["chat"]: frame["head"] for frame in told(socket, "resync")}


def brought(socket: Socket) -> dict[str, list[int]]:
    """The entries of each chat, chats in the order they came in."""
    chats = dict.fromkeys(entry["chat"] for entry in told(socket, "entry"))
    return {chat: sequences(socket, chat) for chat in chats}


def due(library: Library, have: dict[str, int]) -> tuple[dict[str, list[int]], dict[str, int]]:
    """What the protocol says a hello brings: entries, and chats to start over with their heads."""
    entries, starts_over, room = {}, {}, PER_HELLO
    for chat, head in reversed(library.heads.items()):
        start = have.get(chat, max(0, head - PER_CHAT))
        if 0 <= head - start <= min(PER_CHAT, room):
            entries[chat] = list(range(start + 1, head + 1))
            room -= head - start
        else:
            starts_over[chat] = head
    return {chat: found for chat, found in entries.items() if found}, starts_over


@pytest.mark.attack("C14")
@pytest.mark.parametrize("seed", range(4))
async def test_a_device_gets_exactly_what_it_does_not_have(library: Library, seed: int) -> None:
    chance = random.Random(seed)
    have = {}
    for chat in chance.sample(list(library.heads), chance.randrange(4, len(library.heads))):
        head = library.heads[chat]
        places = [head, head - 1, head - PER_CHAT, head + 1, 0, chance.randint(0, head)]
        have[chat] = max(0, chance.choice(places))
    socket = await hello(library.reader, have)
    assert (brought(socket), resyncs(socket)) == due(library, have)
    assert list(brought(socket)) == list(due(library, have)[0])
    await socket.drop()


@pytest.mark.attack("F14")
async def test_one_hello_brings_so_much_and_the_newest_first(library: Library) -> None:
    socket = await hello(library.reader, None)
    assert (brought(socket), resyncs(socket)) == due(library, {})
    assert list(brought(socket)) == list(due(library, {})[0])
    assert len(told(socket, "entry")) == 4_540, "ten chats' worth: the oldest two did not fit"
    await socket.drop()


@pytest.mark.attack("C14")
async def test_a_chat_that_starts_over_goes_on_from_its_head(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as writer:
        await post(writer, chat, 5)
        socket = await hello(bob, {chat: 700})
        assert resyncs(socket) == {chat: 6}
        page = await socket.ask({"op": "fetch", "chat": chat, "before": 7, "limit": 3})
        assert [entry["sequence"] for entry in page["entries"]] == [4, 5, 6]
        await post(writer, chat, 2)
        assert await until_entries(socket, chat, 2) == [7, 8]
    await socket.drop()


@pytest.mark.attack("C14")
async def test_what_a_device_has_counts_only_in_its_epoch(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    other = await ann.create_direct(bob)
    async with bob.device() as device:
        assert device.epoch
        epoch = device.epoch
    same = await hello(bob, {chat: 1}, epoch=epoch)
    assert (brought(same), resyncs(same)) == ({other: [1]}, {})
    another = await hello(bob, {chat: 1, NOWHERE: 3}, epoch="another")
    assert (brought(another), resyncs(another)) == ({other: [1]}, {chat: 1})
    assert told(another, "gone") == [{"op": "gone", "chat": NOWHERE}]
    for socket in (same, another):
        await socket.drop()


@pytest.mark.attack("C13", "D01")
async def test_a_chat_that_is_not_mine_is_gone_like_one_that_is_not_there(town: Town) -> None:
    chat, _ = await friends(town, "ann", "bob")
    [stranger] = await people(town, "cat")
    socket = await hello(stranger, {chat: 1, NOWHERE: 1, "nonsense": 0})
    assert told(socket, "gone") == [
        {"op": "gone", "chat": name} for name in (chat, NOWHERE, "nonsense")
    ]
    assert told(socket, "entry") == []
    await socket.drop()


async def test_every_device_comes_back_to_one_log_however_often_it_was_away(town: Town) -> None:
    chat, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    chance = random.Random(7)
    writers = [await person.device("writer").connect() for person in (ann, bob, cat)]
    devices = [person.device(f"d{number}") for person in (bob, cat) for number in range(3)]
    for _ in range(12):
        for device in devices:
            if device.is_open and chance.random() < 0.5:
                await device.close()
            elif not device.is_open:
                await device.connect()
        await all_of(post(writer, chat, chance.randrange(1, 30)) for writer in writers)
    for device in devices:
        await device.close()
        await device.connect()
        await settled(device)

    log = [(entry["sequence"], entry["kind"]) for entry in await ann.log(chat)]
    for device in devices:
        held = [(entry["sequence"], entry["kind"]) for entry in device.logs.entries[chat]]
        assert held == log
        assert device.logs.repeats == 0
        assert device.resyncs == []
        assert sum(device.caught_up) > 0
    for device in [*devices, *writers]:
        await device.close()
