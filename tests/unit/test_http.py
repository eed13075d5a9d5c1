# SPDX-License-Identifier: Apache-2.0
"""HTTP on the one port: requests that never end, heads without bounds, and the end of it all."""

import asyncio
import gc
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from tests.support.waiting import after_timers, until
from tidings.gateway.http import listener as http_module
from tidings.gateway.http import parsing, protocol
from tidings.gateway.http.connection_limits import ConnectionClass, ConnectionLimits, Slot
from tidings.gateway.http.head import Headers
from tidings.gateway.http.listener import Http
from tidings.model.limits import PIPELINED_REQUESTS_MAX

REQUEST = b"GET /now HTTP/1.1\r\nHost: x\r\n"
UPGRADE = b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
DONE = b"HTTP/1.1 204"
MUCH = bytes(16 << 20)
LARGE = {"/large": 1, "/endless": 1_000}


class App:
    """Answers at once; a request for /later, when it is told to; others with very much."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.headers: list[list[tuple[bytes, bytes]]] = []

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        self.headers.append(scope["headers"])
        if scope["path"] == "/later":
            self.is_asked.set()
            await self.may_answer.wait()
        elif scope["path"] in LARGE:
            self.is_asked.set()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(LARGE[scope["path"]]):
                await send({"type": "http.response.body", "body": MUCH, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return
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


class Echoes:
    """Lets everybody open a socket."""

    def refusal(self, _headers: Headers, _peer: str | None) -> bytes | None:
        return None

    def protocol(
        self,
        headers: Headers,
        _peer: str | None,
        _limits: ConnectionLimits | None,
        _slot: Slot | None,
    ) -> tuple[asyncio.BufferedProtocol, bytes]:
        return Echo(), b"asked by " + dict(headers)[b"host"] + b": "


def a_server(app: App) -> Http:
    return Http(app, Echoes(), ConnectionLimits(1_024))


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
            head = await self._reader.readuntil(b"\r\n\r\n")
            if length := re.search(rb"content-length: (\d+)", head):
                await self._reader.readexactly(int(length[1]))
        return head[: len(DONE)]

    async def hears_the_end(self) -> None:
        """However it comes: what was never read makes it a reset."""
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError, BrokenPipeError):
                assert await self._reader.read() == b""

    def reads_nothing(self) -> None:
        transport = self._writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()

    def goes(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def a_client(app: App, http: Http | None = None) -> AsyncIterator[Client]:
    made = http or a_server(app)

    def protocol() -> asyncio.Protocol:
        return made.protocol(Slot(ConnectionClass.HTTP, None))

    listening = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
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
    "start", [REQUEST, b"POST /now HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\n\r\nab", b"\r\n" * 8]
)
async def test_a_request_that_never_ends_is_not_waited_for(
    app: App, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(parsing, "REQUEST_SECONDS_MAX", 0.05)
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
    monkeypatch.setattr(parsing, "REQUEST_SECONDS_MAX", 0.02)
    async with a_client(app) as client:
        client.says(REQUEST.replace(b"now", b"later") + b"\r\n")
        await app.is_asked.wait()
        await after_timers(parsing.REQUEST_SECONDS_MAX)
        app.may_answer.set()
        assert await client.hears_answer() == DONE


async def test_a_connection_that_became_a_socket_is_under_no_clock(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "REQUEST_SECONDS_MAX", 0.02)
    async with a_client(app) as client:
        client.says(UPGRADE[:30])
        await asyncio.sleep(0)
        client.says(UPGRADE[30:] + b"frame")
        await client.hears(b"asked by x: frame")
        await after_timers(parsing.REQUEST_SECONDS_MAX)
        client.says(b"another frame, longer than the buffer")
        await client.hears(b"another frame, longer than the buffer")


@pytest.mark.attack("S01")
async def test_a_socket_behind_an_early_answer_is_under_no_clock(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = a_server(app)
    async with a_client(app, http) as client:
        client.says(REQUEST + b"\r\n")
        assert await client.hears_answer() == DONE
        [connection] = http.connections
        monkeypatch.setattr(ConnectionLimits, "keep_alive_seconds", 0)
        # The body is ahead of who should read it: what follows is parsed only after the answer.
        body = b"x" * (3 * HIGH_WATER_LIMIT)
        early = REQUEST.replace(b"GET", b"POST") + b"Content-Length: %d\r\n\r\n" % len(body)
        connection.data_received(early + body + UPGRADE + b"frame")
        assert await client.hears_answer() == DONE
        await client.hears(b"asked by x: frame")
        client.says(b"another")
        await client.hears(b"another")


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
    http = a_server(app)
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
    http = a_server(app)
    async with a_client(app, http) as client:
        client.says(REQUEST.replace(b"now", b"later") + b"\r\n")
        await app.is_asked.wait()
        await http.drain()
        app.may_answer.set()
        assert await client.hears_answer() == DONE


# Clients that do not read, and requests that wait.


@pytest.mark.attack("S08", "F07")
async def test_who_reads_nothing_is_cut_off(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS_MAX", 0.05)
    monkeypatch.setattr(http_module, "CHECK_SECONDS", 0.01)
    http = a_server(app)
    async with a_client(app, http) as client:
        client.reads_nothing()
        client.says(REQUEST.replace(b"now", b"endless") + b"\r\n")
        await app.is_asked.wait()
        await until(lambda: not http.connections)


@pytest.mark.attack("S08", "F07")
async def test_a_closing_connection_that_nobody_reads_is_cut_off(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS_MAX", 0.05)
    monkeypatch.setattr(http_module, "CHECK_SECONDS", 0.01)
    http = a_server(app)
    async with a_client(app, http) as client:
        client.reads_nothing()
        client.says(REQUEST.replace(b"now", b"large") + b"connection: close\r\n\r\n")
        await app.is_asked.wait()
        await until(lambda: not http.connections)


@pytest.mark.attack("S08", "F08")
async def test_an_idle_connection_with_an_unread_answer_makes_room_at_once(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "UNREAD_SECONDS_MAX", 1_000.0)
    is_answered = asyncio.Event()

    async def whole(_scope: object, _receive: object, send: Callable[..., Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": MUCH})
        is_answered.set()

    http = Http(whole, Echoes(), ConnectionLimits(1_024))
    async with a_client(app, http) as client, asyncio.timeout(60):
        client.reads_nothing()
        client.says(REQUEST + b"\r\n")
        await is_answered.wait()
        [connection] = http.connections
        connection._slot.close()
        await until(lambda: not http.connections)


LATER = b"POST /later HTTP/1.1\r\nHost:\r\n"


@pytest.mark.attack("S01")
@pytest.mark.parametrize(
    "later",
    [
        LATER + b"\r\n",
        LATER + b"Content-Length: 3\r\n\r\nabc",
        LATER + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        LATER + b"Transfer-Encoding: chunked\r\n\r\n" + b"3\r\nabc\r\n" * 99 + b"0\r\na:b\r\n\r\n",
    ],
    ids=["no body", "a body", "chunks", "a trailer"],
)
async def test_few_requests_wait_and_none_is_read_meanwhile(app: App, later: bytes) -> None:
    http = a_server(app)
    async with a_client(app, http) as client:
        client.says(later + b"GET / HTTP/1.1\r\nHost:\r\n\r\n" * 3_000)
        await app.is_asked.wait()
        [connection] = http.connections
        assert 1 <= len(connection.pipeline) <= PIPELINED_REQUESTS_MAX
        assert connection.flow.read_paused
        waiting = list(connection.pipeline)
        app.may_answer.set()
        for _ in range(3_001):
            assert await client.hears_answer() == DONE
        assert waiting[0][0].response_complete


@pytest.mark.attack("S01")
async def test_what_waits_is_let_go_with_the_connection(app: App) -> None:
    http = a_server(app)
    async with a_client(app, http) as client:
        client.says(b"GET /later HTTP/1.1\r\nHost:\r\n\r\n" * 100)
        await app.is_asked.wait()
        [connection] = http.connections
        gone: list[weakref.ref[object]] = [weakref.ref(connection)]
        gone += [weakref.ref(one) for one, _ in connection.pipeline]
        del connection
        gc.disable()  # references alone, or it would depend on when the collector runs
        try:
            client.goes()
            app.may_answer.set()
            await until(lambda: not http.connections and not any(one() for one in gone))
        finally:
            gc.enable()


async def test_trailers_are_no_headers(app: App) -> None:
    head = b"POST /now HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with a_client(app) as client:
        client.says(head + b"0\r\nAuthorization: me\r\nHost: y\r\n\r\n" + head)
        assert await client.hears_answer() == DONE
        client.says(b"1\r\nx\r\n0\r\nAuthorization: me\r\n\r\n")
        assert await client.hears_answer() == DONE
    names = [name for headers in app.headers for name, _ in headers]
    assert names == [b"host", b"transfer-encoding"] * 2
