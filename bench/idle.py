# SPDX-License-Identifier: Apache-2.0
"""Measures how much memory of the server an idle connection takes."""

import asyncio
import gc
from argparse import ArgumentParser, Namespace
from time import perf_counter
from typing import Final

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport

from bench.server import Target, own_server
from tidings.tools.load_crowd import LoadUser, People, Watch, allow_connections, side_by_side
from tidings.tools.load_talker import LoadStopped, Rest, connect

PER_SOURCE: Final = 15_000
"""Number of connections from one loopback address, which has about 28,000 ports."""
CONNECTING_MAX: Final = 100
SETTLING_SECONDS: Final = 3.0
HEARTBEAT_SECONDS: Final = 20.0
PER_HEARTBEAT: Final = 10_000
"""Number of connections that have one `HEARTBEAT_SECONDS` to be live, and to get their answers."""
LIVE_MARK: Final = b'{"op":"live"}'
PING: Final = b'{"op":"ping"}'


class IdleResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one run."""

    connections: int
    with_chats: bool
    before_bytes: int
    after_bytes: int
    later_bytes: int
    """Memory of the server after every connection has sent a heartbeat."""
    hello_seconds: float
    """Time from the first connection to the last `live`."""

    @property
    def bytes_each(self) -> float:
        """Memory of the server per connection."""
        return (self.later_bytes - self.before_bytes) / self.connections


class Idler(WSListener):
    """Connection that sends hello, and heartbeats on request."""

    def __init__(self, token: str, watch: Watch) -> None:
        self.is_live = False
        self.pongs = 0
        self._hello = msgspec.json.encode({"op": "hello", "token": token, "device": "idle"})
        self._watch = watch
        self._transport: WSTransport | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.send(WSMsgType.TEXT, self._hello)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.get_payload_as_bytes() == LIVE_MARK:
            self.is_live = True
        elif frame.get_payload_as_bytes().startswith(b'{"op":"pong"'):
            self.pongs += 1

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        if self._transport is not None:
            self._watch.stopped("the server closed an idle connection")

    def ping(self) -> None:
        """Send a heartbeat."""
        assert self._transport is not None
        self._transport.send(WSMsgType.TEXT, PING)

    def close(self) -> None:
        """Close the connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.disconnect(False)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1, help="processes that hold sockets")
    parser.add_argument("--with-chats", action="store_true", help="give every two of them a chat")


async def run(options: Namespace) -> IdleResult:
    """Open all connections, and print the server's memory before and after."""
    allow_connections(options.connections)
    async with own_server(settings={"TIDINGS_PROCESSES": str(options.processes)}) as target:
        result = await idle(target, options.connections, with_chats=options.with_chats)
    print(
        f"{result.connections:,} live connections{' with a chat' if result.with_chats else ''}: "
        f"{result.before_bytes / 2**20:.0f} MiB before, {result.later_bytes / 2**20:.0f} MiB after,"
        f" {result.bytes_each / 1_000:.1f} KB each; "
        f"{result.connections / result.hello_seconds:,.0f} hellos/s",
        flush=True,
    )
    return result


async def idle(target: Target, connections: int, *, with_chats: bool) -> IdleResult:
    """Create the users, then measure the server's memory before and after they connect."""
    users = await _users(target, connections, with_chats=with_chats)
    await asyncio.sleep(SETTLING_SECONDS)
    watch, before = Watch(), target.resident_bytes()
    idlers = [Idler(user.token, watch) for user in users]
    gc.freeze()  # ten thousand listeners would be looked through again and again
    started = perf_counter()
    try:
        await _connect(idlers, target.url, watch)
        took, after = perf_counter() - started, target.resident_bytes()
        for idler in idlers:
            idler.ping()
        if not await watch.until(lambda: all(idler.pongs for idler in idlers), _patience(idlers)):
            raise LoadStopped("not every heartbeat was answered")
        await watch.wait(SETTLING_SECONDS)
        later = target.resident_bytes()
    finally:
        for idler in idlers:
            idler.close()
    return IdleResult(
        connections=connections,
        with_chats=with_chats,
        before_bytes=before,
        after_bytes=after,
        later_bytes=later,
        hello_seconds=took,
    )


async def _users(target: Target, count: int, *, with_chats: bool) -> list[LoadUser]:
    rest = Rest(target.url)
    people = People(rest, target.root_key)
    try:
        await people.start()
        if not with_chats:
            return await people.users(range(count))
        return [user for pair in await people.pairs(range(count // 2)) for user in pair.users]
    finally:
        rest.close()


async def _connect(idlers: list[Idler], url: str, watch: Watch) -> None:
    sources = [f"127.0.0.{2 + number // PER_SOURCE}" for number in range(len(idlers))]
    works = [connect(one, url, source) for one, source in zip(idlers, sources, strict=True)]
    await side_by_side(works, CONNECTING_MAX)
    if not await watch.until(lambda: all(idler.is_live for idler in idlers), _patience(idlers)):
        raise LoadStopped("not everyone became live")


def _patience(idlers: list[Idler]) -> float:
    return HEARTBEAT_SECONDS * (1 + len(idlers) // PER_HEARTBEAT)
