# SPDX-License-Identifier: Apache-2.0
"""The door: who is counted as a socket and who as HTTP, and what those get who say nothing."""

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tidings.gateway.http.connection_limits import ConnectionClass, ConnectionLimits, Slot
from tidings.gateway.http.listener import Listener, kind_of

UPGRADE = b"GET /v1/ws HTTP/1.1\r\nHost: x\r\n\r\n"


class Ear(asyncio.Protocol):
    """Says as what it is counted, then repeats what it hears."""

    def __init__(self, slot: Slot) -> None:
        self._name = slot.kind.name.lower().encode()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._name + b" ")

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)


class Client:
    """One connection to the door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def hears(self, text: bytes) -> None:
        async with asyncio.timeout(60):
            assert await self.reader.readexactly(len(text)) == text

    async def hears_the_end(self) -> None:
        """However it comes: what was never read makes it a reset."""
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError, BrokenPipeError):
                assert await self.reader.read() == b""


class Visitors:
    """A door and those who come to it."""

    def __init__(self, door: Listener) -> None:
        self.door = door
        self._port = door.port
        self._clients: list[Client] = []

    async def comes(self, *said: bytes, tls: ssl.SSLContext | None = None) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=tls)
        client = Client(reader, writer)
        self._clients.append(client)
        for part in said:
            writer.write(part)
            await writer.drain()
        return client

    def go(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()


@asynccontextmanager
async def a_door(
    *, first_bytes_seconds_max: float = 10, descriptors: int = 1_024, has_sockets: bool = True
) -> AsyncIterator[Visitors]:
    limits = ConnectionLimits(descriptors)
    door = Listener(
        Ear, limits, has_sockets=has_sockets, first_bytes_seconds_max=first_bytes_seconds_max
    )
    await door.open("127.0.0.1", 0)
    visitors = Visitors(door)
    try:
        yield visitors
    finally:
        await door.close()
        visitors.go()
        await asyncio.sleep(0)  # the ends of the connections are told in the next turn


@pytest.mark.parametrize(
    ("start", "is_socket"),
    [
        (b"GET /v1/ws ", True),
        (b"GET /v1/ws?", True),
        (b"GET /v1/wsx", False),
        (b"GET /v1/ws/", False),
        (b"GET /v1/ws", False),
        (b"get /v1/ws ", False),
        (b"POST /v1/ws", False),
        (b"GET /V1/ws ", False),
        (b"GET / HTTP/", False),
        (b"", False),
    ],
)
def test_what_a_request_for_the_socket_starts_with(start: bytes, is_socket: bool) -> None:
    assert (kind_of(start, has_sockets=True) is ConnectionClass.SOCKET) is is_socket
    assert kind_of(start, has_sockets=False) is ConnectionClass.HTTP


@pytest.mark.attack("S08")
async def test_without_sockets_a_request_for_one_is_counted_as_http() -> None:
    async with a_door(has_sockets=False) as visitors:
        client = await visitors.comes(UPGRADE)
        await client.hears(b"http " + UPGRADE)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (UPGRADE, b"socket"),
        (UPGRADE.replace(b"/ws", b"/ws?a=b"), b"socket"),
        (UPGRADE.replace(b"/ws", b"/wsx"), b"http"),
        (UPGRADE.replace(b"GET", b"POST"), b"http"),
        (b"GET / HTTP/1.1\r\n\r\n", b"http"),
        (b"\x16\x03\x01 something else entirely", b"http"),
    ],
)
async def test_each_is_handed_over_with_all_it_said(said: bytes, name: bytes) -> None:
    async with a_door() as visitors:
        client = await visitors.comes(said)
        await client.hears(name + b" " + said)
        client.writer.write(b"and more")
        await client.hears(b"and more")


async def test_a_request_in_parts_is_looked_at_when_enough_of_it_is_there() -> None:
    async with a_door() as visitors:
        client = await visitors.comes(UPGRADE[:6])
        for part in (UPGRADE[6:10], UPGRADE[10:11], UPGRADE[11:]):
            for _ in range(3):  # turns in which the door can look at what is there
                await asyncio.sleep(0)
            client.writer.write(part)
        await client.hears(b"socket " + UPGRADE)


async def test_one_byte_and_silence_costs_nothing_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    woken: list[object] = []
    add_reader = asyncio.get_running_loop().add_reader

    def watched_add_reader(descriptor: int, callback: Callable[..., object], *more: object) -> None:
        def counted() -> None:
            woken.append(callback)
            callback(*more)

        add_reader(descriptor, counted)

    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", watched_add_reader)
    async with a_door(first_bytes_seconds_max=0.3) as visitors:
        begun = time.monotonic()
        client = await visitors.comes(b"G")
        await client.hears_the_end()

    assert time.monotonic() - begun >= 0.3
    assert woken == [], "it span"


async def test_who_hangs_up_is_let_go_and_a_short_request_is_still_heard() -> None:
    async with a_door() as visitors:
        silent = await visitors.comes()
        silent.writer.write_eof()
        await silent.hears_the_end()
        curt = await visitors.comes(b"GET /\n")
        curt.writer.write_eof()
        await curt.hears(b"http GET /\n")


async def test_those_who_say_nothing_keep_nobody_out() -> None:
    async with a_door(descriptors=48) as visitors:  # 24 for connections, 3 of them undecided
        silent = [await visitors.comes() for _ in range(5)]
        talking = await visitors.comes(UPGRADE)
        await talking.hears(b"socket " + UPGRADE)
        for client in silent[:2]:
            await client.hears_the_end()
        silent[-1].writer.write(UPGRADE)
        await silent[-1].hears(b"socket " + UPGRADE)


@pytest.mark.attack("S08", "F08")
async def test_those_of_one_address_who_say_nothing_push_out_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = iter(["198.51.100.1", *["203.0.113.9"] * 9, "198.51.100.2"])
    monkeypatch.setattr(ConnectionLimits, "address", lambda *_: next(addresses, None))
    async with a_door(descriptors=128) as visitors:  # 8 of them undecided
        quiet = await visitors.comes()
        loud = [await visitors.comes() for _ in range(9)]
        late = await visitors.comes()
        for client in loud[:7]:
            await client.hears_the_end()
        for client in (quiet, late):
            client.writer.write(UPGRADE)
            await client.hears(b"socket " + UPGRADE)


async def test_a_closed_door_sends_the_waiting_away_and_leaves_the_others() -> None:
    async with a_door() as visitors:
        waiting = await visitors.comes(b"G")
        talking = await visitors.comes(UPGRADE)
        await talking.hears(b"socket " + UPGRADE)
        await visitors.door.close()
        await waiting.hears_the_end()
        talking.writer.write(b"still here")
        await talking.hears(b"still here")
        with pytest.raises(ConnectionRefusedError):
            await visitors.comes()


async def test_a_machine_out_of_descriptors_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(errno.EMFILE, "too many open files")]

    async def failing_accept(listener: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", failing_accept)
    async with a_door() as visitors:
        client = await visitors.comes(UPGRADE)
        await client.hears(b"socket " + UPGRADE)
    assert failures == []


async def test_an_address_that_is_taken_is_refused() -> None:
    async with a_door() as visitors:
        second = Listener(Ear, ConnectionLimits(1_024), has_sockets=True)
        with pytest.raises(OSError):
            await second.open("127.0.0.1", visitors.door.port)
        await second.close()
