# SPDX-License-Identifier: Apache-2.0
"""A server that does nothing but answer and forward, which shows how much the load itself could
send.

It runs as a separate process (`python -m bench.peers.nothing PORT`). It neither parses, checks nor
keeps a message: it counts messages in the bytes that arrive, and writes as many answers of constant
bytes to their sender and as many messages of constant bytes to the others. Its bytes are as long as
those of our server.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, cast

import uvloop

from bench.peers.member import NUMBER, Member, Server
from bench.peers.processes import cpu_seconds, free_port, is_listening, running, wait_until
from bench.peers.wire import connect
from bench.server import SERVER_CORE, own_folder
from bench.websocket import text_frame
from tidings.tools.load_talker import CONTENT

_JOIN: Final = b"join:"
_JOINED: Final = b"joined"
_SEND: Final = b'"op":"send"'
_ANSWER: Final = b'"op":"sent"' + b" " * 165
_FORWARDED: Final = b'"op":"entry"' + b" " * 220 + CONTENT.encode()
_MESSAGE: Final = text_frame(b"{%s,%s%s}" % (_SEND, b" " * 90 + NUMBER, CONTENT.encode()))


class _Place(asyncio.Protocol):
    """A connection of the server. It says first to which place it belongs; what it sends later is
    forwarded to the others in this place."""

    def __init__(self, places: "defaultdict[bytes, list[_Place]]") -> None:
        self._places = places
        self._others: list[_Place] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if data.startswith(_JOIN):
            self._join(self._places[data])
        elif messages := data.count(_SEND):
            self.write(_ANSWER * messages)
            for other in self._others:
                other.write(_FORWARDED * messages)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _join(self, place: "list[_Place]") -> None:
        for other in place:
            other._others.append(self)
        self._others = place.copy()
        place.append(self)
        self.write(_JOINED)


class Nothing(Server):
    """The running process."""

    copies_to_sender = 0

    def __init__(self, port: int, pid: int) -> None:
        self._port = port
        self._pid = pid
        self._places = 0

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time."""
        return {"nothing": cpu_seconds([self._pid])}

    async def pairs(self, count: int) -> list[tuple[Member, Member]]:
        """Connect pairs, each in its own place."""
        found = [await self.group(2, 1) for _ in range(count)]
        return [(left, right) for left, right in found]

    async def group(self, size: int, senders: int) -> list[Member]:
        """Connect users in one place."""
        del senders  # every user can send
        self._places += 1
        return [await self._member(_JOIN + b"%d" % self._places) for _ in range(size)]

    async def _member(self, join: bytes) -> Member:
        connection = await connect(self._port, "someone", ())
        await connection.ask(join, _JOINED)
        return Member(
            connection=connection, message=_MESSAGE, arrival=b'"op":"entry"', answer=b'"op":"sent"'
        )


@contextmanager
def own_nothing() -> Iterator[Nothing]:
    """Start the process; stop it afterwards."""
    with own_folder() as folder:
        port = free_port()
        command = [sys.executable, "-m", __name__, str(port)]
        env = {"PYTHONPATH": str(Path(__file__).parents[2])}
        with running(command, core=SERVER_CORE, account=None, folder=folder, env=env) as process:
            wait_until(partial(is_listening, port), process, folder)
            yield Nothing(port, process.pid)


async def _serve(port: int) -> None:
    places: defaultdict[bytes, list[_Place]] = defaultdict(list)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Place(places), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
