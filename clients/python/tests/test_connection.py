# SPDX-License-Identifier: Apache-2.0
"""The socket: frames in pieces, and every way in which it can end."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import pytest
from picows import WSFrame, WSListener, WSMsgType, WSParsedURL, WSTransport, ws_create_server

from tidings_client import Backoff, Client, ClientStopped, Disconnected, tcp
from tidings_client.backoff import Ended, Stop
from tidings_client.connection import CONNECT_SECONDS_MAX, Connection, TurnedAway
from tidings_client.frames import Bye, Hello, Pong, ServerFrame, encode
from tidings_client.tcp import TcpConnection

Act = Callable[[WSTransport], None]


class Peer(WSListener):
    """A server that does one thing when it hears something."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self._act(transport)
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.send_close()
            transport.disconnect()


@asynccontextmanager
async def connected(act: Act) -> AsyncIterator[tuple[Connection, list[ServerFrame]]]:
    """A connection that has said something to a peer; and what it hears."""
    heard: list[ServerFrame] = []
    server = await ws_create_server(lambda _: Peer(act), "127.0.0.1", 0)
    try:
        connection = Connection(heard.append)
        await connection.open(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        connection.say(Hello("t"))
        async with asyncio.timeout(60):
            yield connection, heard
        await connection.close()
    finally:
        server.close()


def closing(code: int, *, bye: Bye | None = None) -> Act:
    def act(transport: WSTransport) -> None:
        if bye is not None:
            transport.send(WSMsgType.TEXT, encode(bye))
        transport.send_close(code)  # type: ignore[arg-type]

    return act


async def test_a_frame_may_come_in_pieces() -> None:
    def act(transport: WSTransport) -> None:
        transport.send(WSMsgType.TEXT, b'{"op":', fin=False)
        transport.send(WSMsgType.PING, b"")
        transport.send(WSMsgType.CONTINUATION, b'"po', fin=False)
        transport.send(WSMsgType.CONTINUATION, b'ng"}')
        transport.send(WSMsgType.TEXT, b'{"op":"unheard of"}')
        transport.send(WSMsgType.TEXT, b'{"op":"pong"}')
        transport.disconnect()

    async with connected(act) as (connection, heard):
        await connection.ended()
        assert heard == [Pong(), Pong()]


async def test_the_end_has_a_code_and_words() -> None:
    async with connected(closing(4403)) as (connection, _):
        ended = await connection.ended()
        assert ended.code == 4403
        assert "token" in ended.reason
    async with connected(closing(3999)) as (connection, _):
        assert (await connection.ended()).code == 3999


async def test_bye_says_when_to_come_back() -> None:
    bye = Bye(1012, reconnect=True, retry_after_ms=700)
    async with connected(closing(1012, bye=bye)) as (connection, _):
        ended = await connection.ended()
        assert (ended.code, ended.retry_after_ms, ended.is_final) == (1012, 700, False)


async def test_bye_may_say_never() -> None:
    bye = Bye(4999, reconnect=False, retry_after_ms=0)
    async with connected(closing(4999, bye=bye)) as (connection, _):
        ended = await connection.ended()
        assert (ended.code, ended.retry_after_ms, ended.is_final) == (4999, None, True)


async def test_a_broken_connection_has_no_code() -> None:
    async with connected(lambda transport: transport.disconnect(False)) as (connection, _):
        assert await connection.ended() == Ended("the connection broke")
        connection.say(Hello("into the void"))
        connection.give_up("too late")


async def test_giving_up() -> None:
    async with connected(lambda _: None) as (connection, _):
        connection.give_up("nobody there")
        assert await connection.ended() == Ended("nobody there")


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 503 Service Unavailable\r\n\r\n", b"SSH-2.0\r\n"]
)
async def test_whoever_does_not_shake_hands_is_no_server(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="handshake"):
            await Connection(lambda _: None).open(
                f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            )
    finally:
        server.close()


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_a_handshake_that_is_given_up_leaves_no_connection(scheme: str) -> None:
    """The server would count it as one of the user's until it gives up waiting for a hello."""
    asked, ended = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        asked.set()
        await reader.read()
        ended.set()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    async with server, asyncio.timeout(60):
        url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        opening = asyncio.create_task(Connection(lambda _: None).open(url))
        await asked.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(CONNECT_SECONDS_MAX / 2):  # before picows gives up by itself
            await ended.wait()


async def test_a_server_that_dies_after_it_accepted_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[socket.socket] = []
    connect = TcpConnection.connect

    async def connect_and_reset(tcp: TcpConnection, url: WSParsedURL) -> socket.socket:
        made.append(await connect(tcp, url))
        accepted, _ = listening.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()  # resets the connection
        listening.close()
        while made[0].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            await asyncio.sleep(0)
        return made[0]

    monkeypatch.setattr(TcpConnection, "connect", connect_and_reset)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(OSError):
            await Connection(lambda _: None).open(url)
    assert made[0].fileno() == -1


async def test_every_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def addresses(host: str, port: int, **_: object) -> list[object]:
        nobody, there = ("127.0.0.2", port), ("127.0.0.1", port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", at) for at in (nobody, there)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
    server = await ws_create_server(lambda _: Peer(closing(1000)), "127.0.0.1", 0)
    connection = Connection(lambda _: None)
    await connection.open(f"ws://two.example:{server.sockets[0].getsockname()[1]}/")
    await connection.close()
    server.close()


@contextmanager
def silent(address: tuple[str, int]) -> Iterator[None]:
    """An address that answers no request for a connection, because its queue is full."""
    with socket.socket() as listening, ExitStack() as waiting:
        listening.bind(address)
        listening.listen(0)
        for _ in range(2):
            filling = waiting.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(address)
        yield


async def test_an_address_that_is_silent_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def addresses(host: str, port: int, **_: object) -> list[object]:
        black_hole, there = ("127.0.0.2", port), ("127.0.0.1", port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", at) for at in (black_hole, there)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
    monkeypatch.setattr(tcp, "ADDRESS_SECONDS_MAX", 0.01)
    server = await ws_create_server(lambda _: Peer(closing(1000)), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with silent(("127.0.0.2", port)):
        connection = Connection(lambda _: None)
        await connection.open(f"ws://two.example:{port}/")
        await connection.close()
    server.close()


async def test_nobody_is_there() -> None:
    with pytest.raises(OSError):
        await Connection(lambda _: None).open("ws://127.0.0.1:9/")


@asynccontextmanager
async def full_house(headers: bytes) -> AsyncIterator[str]:
    """The address of a server that takes nobody."""

    async def turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\n" + headers)
        writer.write(b"Content-Length: 4\r\n\r\nbusy")
        writer.close()

    server = await asyncio.start_server(turn_away, "127.0.0.1", 0)
    async with server, asyncio.timeout(60):
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(
    ("headers", "seconds"), [(b"Retry-After: 7\r\n", 7.0), (b"", 0.0)], ids=["told when", "not"]
)
async def test_a_server_that_takes_nobody_says_for_how_long(headers: bytes, seconds: float) -> None:
    async with full_house(headers) as address:
        with pytest.raises(TurnedAway, match="503") as away:
            await Connection(lambda _: None).open(f"ws://{address}")
    assert away.value.away_seconds == seconds


async def test_a_client_that_is_turned_away_heeds_it() -> None:
    class Noted(Backoff):
        def after(self, ended: Ended) -> Stop:
            noted.append(ended.away_seconds)
            return Stop()

    noted: list[float] = []
    async with full_house(b"Retry-After: 7\r\n") as address:
        token, backoff = "x.y.z", Noted(lambda _, most: most)
        async with Client(f"http://{address}", token=lambda: token, backoff=backoff) as client:
            with pytest.raises(ClientStopped):
                async for event in client.events():
                    assert isinstance(event, Disconnected)
    assert noted == [7.0]
