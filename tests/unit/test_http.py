# SPDX-License-Identifier: Apache-2.0
"""HTTP on the one port: requests that never end, heads without bounds, and the end of it all."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tidings.gateway import http as http_module
from tidings.gateway.http import Http

REQUEST = b"GET /now HTTP/1.1\r\nHost: x\r\n"
DONE = b"HTTP/1.1 204"


class App:
    """Answers at once; a request for /later, when it is told to."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["path"] == "/later":
            self.is_asked.set()
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Echo(asyncio.BufferedProtocol):
    """Stands for the socket: repeats what it is given."""

    def __init__(self) -> None:
        self._buffer = bytearray(16)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, _sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        assert self._transport is not None
        self._transport.write(bytes(self._buffer[:nbytes]))


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def says(self, data: bytes) -> None:
        self._writer.write(data)

    async def hears(self, data: bytes) -> None:
        async with asyncio.timeout(60):
            assert await self._reader.readexactly(len(data)) == data

    async def hears_answer(self) -> bytes:
        async with asyncio.timeout(60):
            return (await self._reader.readuntil(b"\r\n\r\n"))[: len(DONE)]

    async def hears_the_end(self) -> None:
        """However it comes: what was never read makes it a reset."""
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                assert await self._reader.read() == b""

    def goes(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def a_client(app: App, http: Http | None = None) -> AsyncIterator[Client]:
    made = http or Http(app, Echo)
    listening = await asyncio.get_running_loop().create_server(made.protocol, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield client
    finally:
        client.goes()
        listening.close()
        await listening.wait_closed()
        await asyncio.sleep(0)


@pytest.fixture
async def app() -> App:
    return App()


# Slowness.


@pytest.mark.parametrize(
    "start", [REQUEST, b"POST /now HTTP/1.1\r\ncontent-length: 5\r\n\r\nab", b"\r\n" * 8]
)
async def test_a_request_that_never_ends_is_not_waited_for(
    app: App, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(http_module, "REQUEST_SECONDS_MAX", 0.05)
    async with a_client(app) as client:
        client.says(REQUEST + b"\r\n")
        assert await client.hears_answer() == DONE
        client.says(start)
        if start.startswith(b"POST"):
            assert await client.hears_answer() == DONE
        await client.hears_the_end()


async def test_an_answer_may_take_longer_than_a_request(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_module, "REQUEST_SECONDS_MAX", 0.02)
    async with a_client(app) as client:
        client.says(REQUEST.replace(b"now", b"later") + b"\r\n")
        await app.is_asked.wait()
        await asyncio.sleep(0.05)
        app.may_answer.set()
        assert await client.hears_answer() == DONE


async def test_a_connection_that_became_a_socket_is_under_no_clock(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_module, "REQUEST_SECONDS_MAX", 0.02)
    upgrade = REQUEST + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    async with a_client(app) as client:
        client.says(upgrade[:30])
        await asyncio.sleep(0)
        client.says(upgrade[30:] + b"frame")
        told = upgrade.replace(b"Host", b"host") + b"frame"
        await client.hears(told)
        await asyncio.sleep(0.05)
        client.says(b"another frame, longer than the buffer")
        await client.hears(b"another frame, longer than the buffer")


# Heads.


@pytest.mark.parametrize("pieces", [1, 10])
async def test_a_head_has_bounds(app: App, pieces: int) -> None:
    field = b"x-field: " + b"y" * 1_000 + b"\r\n"
    async with a_client(app) as client:
        client.says(REQUEST + field * 30 + b"\r\n")
        assert await client.hears_answer() == DONE
        large = REQUEST + field * 33 + b"\r\n"
        size = len(large) // pieces
        for at in range(0, len(large), size):
            client.says(large[at : at + size])
            await asyncio.sleep(0)
        assert await client.hears_answer() == b"HTTP/1.1 431"
        await client.hears_the_end()


async def test_a_head_without_an_end_has_bounds_too(app: App) -> None:
    async with a_client(app) as client:
        client.says(REQUEST)
        for _ in range(33):
            client.says(b"x-field: " + b"y" * 1_000 + b"\r\n")
            await asyncio.sleep(0)
        assert await client.hears_answer() == b"HTTP/1.1 431"
        await client.hears_the_end()


async def test_what_is_no_http_is_told_so(app: App) -> None:
    async with a_client(app) as client:
        client.says(b"what is this?\r\n\r\n")
        assert await client.hears_answer() == b"HTTP/1.1 400"


# The end.


async def test_draining_waits_for_answers_and_closes_what_is_idle(app: App) -> None:
    http = Http(app, Echo)
    async with a_client(app, http) as busy, a_client(app, http) as idle:
        idle.says(REQUEST + b"\r\n")
        assert await idle.hears_answer() == DONE
        busy.says(REQUEST.replace(b"now", b"later") + b"\r\n")
        await app.is_asked.wait()
        draining = asyncio.create_task(http.drain())
        await idle.hears_the_end()
        assert not draining.done()
        app.may_answer.set()
        assert await busy.hears_answer() == DONE
        await busy.hears_the_end()
        await draining


async def test_draining_does_not_wait_for_ever(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "DRAIN_SECONDS_MAX", 0.02)
    http = Http(app, Echo)
    async with a_client(app, http) as client:
        client.says(REQUEST.replace(b"now", b"later") + b"\r\n")
        await app.is_asked.wait()
        await http.drain()
        app.may_answer.set()
        assert await client.hears_answer() == DONE
