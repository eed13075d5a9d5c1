# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that breaks its connections in every way a network does. The seed decides how."""

import asyncio
import random
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

How = Literal["reset", "cut", "half-close", "stall", "refuse"]
HOWS: Final[tuple[How, ...]] = ("reset", "cut", "half-close", "stall", "refuse")
WEIGHTS: Final = (6, 6, 3, 3, 1)
CHUNK_BYTES: Final = 1_024


@dataclass(frozen=True)
class Fate:
    """What will become of one connection.

    reset: the client gets a TCP reset. cut: both sides see the end of the stream. half-close: one
    direction ends, the other goes on for a while. stall: one direction stands still for a while,
    its bytes are lost. refuse: it ends before it began. Each happens after so many bytes, or after
    so many seconds if they do not come.
    """

    how: How
    after_bytes: int
    after_seconds: float
    lingers_seconds: float
    is_upwards: bool
    """Whether it befalls the direction to the server."""


class ChaosProxy:
    """Listens in front of a server."""

    def __init__(self, port: int, seed: int) -> None:
        self._server_port = port
        self._random = random.Random(seed)
        self._listener: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self.cuts = 0
        """Connections that it has ended."""
        self.is_gentle = False
        """Whether new connections are left alone."""

    @property
    def url(self) -> str:
        """Where clients find it."""
        assert self._listener is not None
        return f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        for link in self._links:
            link.cancel()
        if self._links:
            await asyncio.wait(self._links)

    def _fate(self) -> Fate:
        chance = self._random
        return Fate(
            how=chance.choices(HOWS, WEIGHTS)[0],
            after_bytes=int(chance.lognormvariate(7, 1.5)),
            after_seconds=chance.uniform(0.02, 0.3),
            lingers_seconds=chance.uniform(0.01, 0.1),
            is_upwards=chance.random() < 0.5,
        )

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        try:
            with suppress(OSError):
                await self._serve(reader, writer)
        finally:
            self._links.discard(link)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fate = None if self.is_gentle else self._fate()
        if fate is not None:
            self.cuts += 1
            if fate.how == "refuse":
                return
        server = await asyncio.open_connection("127.0.0.1", self._server_port)
        try:
            await _Link((reader, writer), server, fate).run()
        finally:
            server[1].transport.abort()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: Ends, server: Ends, fate: Fate | None) -> None:
        self._client, self._server = client, server
        self._fate = fate
        self._passed = 0
        self._is_up_open = self._is_down_open = True
        self._is_due = asyncio.Event()

    async def run(self) -> None:
        """Pass bytes on until the fate strikes, or one side has had enough."""
        up = asyncio.create_task(self._pass_on(self._client[0], self._server[1], is_up=True))
        down = asyncio.create_task(self._pass_on(self._server[0], self._client[1], is_up=False))
        strike = asyncio.create_task(self._strike())
        try:
            await asyncio.wait([up, down, strike], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (up, down, strike):
                task.cancel()
            await asyncio.wait([up, down, strike])

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_up: bool
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if self._is_up_open if is_up else self._is_down_open:
                    writer.write(chunk)
                    await writer.drain()
                self._passed += len(chunk)
                if self._fate is not None and self._passed >= self._fate.after_bytes:
                    self._is_due.set()

    async def _strike(self) -> None:
        fate = self._fate
        if fate is None:
            await asyncio.Future()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(fate.after_seconds):
                await self._is_due.wait()
        if fate.how == "reset":
            _reset_on_close(self._client[1])
            _reset_on_close(self._server[1])
        elif fate.how != "cut":
            self._half_open(fate)
            await asyncio.sleep(fate.lingers_seconds)

    def _half_open(self, fate: Fate) -> None:
        """One direction is dead, the other one goes on; only a half-close tells."""
        if fate.is_upwards:
            self._is_up_open = False
        else:
            self._is_down_open = False
        if fate.how == "half-close":
            with suppress(OSError):
                (self._server if fate.is_upwards else self._client)[1].write_eof()


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
