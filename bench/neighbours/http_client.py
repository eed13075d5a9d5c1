# SPDX-License-Identifier: Apache-2.0
"""HTTP client on asyncio's streams, with which an attack controls every byte."""

import asyncio
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import msgspec

ANSWER_SECONDS_MAX: Final = 60.0


class Answer(msgspec.Struct, frozen=True):
    """Answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the decoded body."""
        return msgspec.json.decode(self.body)


class HttpClient:
    """Connection that sends one request at a time, and is reopened if the server has closed it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the reader and the writer of the connection; open it if necessary."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        return self._streams

    def close(self) -> None:
        """Close the connection without waiting."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def request(
        self, method: str, path: str, key: str | None = None, body: bytes | None = None
    ) -> Answer:
        """Send a request once and return the answer.

        Raises:
            OSError: The server closed the connection, or nobody listens.
            TimeoutError: No answer came.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                _, writer = await self.open()
                writer.write(self.head(method, path, key, body) + (body or b""))
                await writer.drain()
                return await self.answer()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionError("closed before an answer came") from error

    def head(
        self, method: str, path: str, key: str | None = None, body: bytes | None = None
    ) -> bytes:
        """Return the head of a request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}:{self._port}"]
        if key is not None:
            lines.append(f"Authorization: Bearer {key}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode()

    async def answer(self) -> Answer:
        """Return the answer to the request that was sent last."""
        reader, _ = await self.open()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return Answer(int(head[0].split()[1]), headers, body)
