# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that a test can interrupt and restore."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

CHUNK_BYTES: Final = 64 * 1024


class BreakableProxy:
    """Forwards bytes in both directions; while it is cut, it closes all connections."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._is_cut = False
        self._left: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    def cut(self) -> None:
        """Close all connections, and each new one at once."""
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def cut_after(self, size: int) -> None:
        """Cut by itself when the clients have sent this many bytes from now on."""
        self._left = size

    def mend(self) -> None:
        """Forward connections again."""
        self._is_cut = False
        self._left = None

    @property
    def is_cut(self) -> bool:
        """Whether nothing is forwarded."""
        return self._is_cut

    def _count(self, size: int) -> None:
        if self._left is None:
            return
        self._left -= size
        if self._left <= 0:
            self.cut()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until one side closes it."""
        if self._is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(*self._upstream)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(
                _pass_on(reader, back, self._count), _pass_on(there, writer, lambda _: None)
            )
        finally:
            self._writers -= {writer, back}


@asynccontextmanager
async def a_proxy(host: str, port: int) -> AsyncIterator[BreakableProxy]:
    """Run a proxy on a free port."""
    way = BreakableProxy(host, port)
    server = await asyncio.start_server(way.serve, "127.0.0.1", 0)
    way.port = server.sockets[0].getsockname()[1]
    try:
        yield way
    finally:
        server.close()
        way.cut()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]
) -> None:
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
            count(len(data))
    except OSError:
        pass
    finally:
        writer.close()
