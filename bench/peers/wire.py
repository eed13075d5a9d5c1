# SPDX-License-Identifier: Apache-2.0
"""A connection that, after the login, only counts texts in what arrives instead of parsing it, so
that the load costs little."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

STEP_SECONDS_MAX: Final = 60.0

Steps = Sequence[tuple[bytes, bytes]]
"""Requests, such as those of a login, and what their answers contain."""


class WireError(Exception):
    """The server refused a request, closed the connection or did not answer."""


class Ear(Protocol):
    """Hears the bytes that arrive on a connection."""

    def feed(self, data: bytes) -> None:
        """Hear the next bytes."""


class Counter:
    """Counts how often a text occurs in a stream of bytes."""

    def __init__(self, mark: bytes, on_marks: Callable[[int], None]) -> None:
        self._mark = mark
        self._on_marks = on_marks
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Count the occurrences in the next bytes. An occurrence that begins in earlier bytes is
        found too, and each is counted once."""
        data = self._rest + data
        self._rest = data[1 - len(self._mark) :]
        if marks := data.count(self._mark):
            self._on_marks(marks)


class Connection(asyncio.Protocol):
    """The connection of a user."""

    def __init__(self, user: str, refusals: Sequence[bytes]) -> None:
        """Create a connection. It fails if one of the refusals arrives."""
        self.user = user
        self.failure: WireError | None = None
        self._refusals = refusals
        self._ears: list[Ear] = []
        self._asked = False
        self._answer = b""
        self._heard = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    # What the socket says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._fail(f"was cut off: {error}")

    def data_received(self, data: bytes) -> None:
        for refusal in self._refusals:
            if refusal in data:
                self._fail(f"was answered {data[-1000:]!r}")
        for ear in self._ears:
            ear.feed(data)
        if self._asked:
            self._answer += data
            self._heard.set()

    # What it is told.

    async def ask(self, request: bytes, answer: bytes) -> bytes:
        """Send a request, and wait until its answer has arrived; return what has arrived since."""
        self._asked, self._answer = True, b""
        self.write(request)
        try:
            async with asyncio.timeout(STEP_SECONDS_MAX):
                while answer not in self._answer and self.failure is None:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            self._fail(f"waited in vain for {answer!r}, got {self._answer[-300:]!r}")
        self._asked = False
        if self.failure is not None:
            raise self.failure
        return self._answer

    async def take(self, steps: Steps) -> None:
        """Send one request after the other, each after the answer to the one before."""
        for request, answer in steps:
            await self.ask(request, answer)

    def listen(self, ear: Ear) -> None:
        """Let the ear hear all bytes from now on."""
        self._ears.append(ear)

    def count(self, mark: bytes, on_marks: Callable[[int], None]) -> None:
        """Call `on_marks` from now on with the number of times that these bytes have arrived."""
        self.listen(Counter(mark, on_marks))

    def write(self, data: bytes) -> None:
        """Send bytes unchanged."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection; errors after this are ignored."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def _fail(self, what: str) -> None:
        self.failure = self.failure or WireError(f"{self.user} {what}")
        self._heard.set()


async def connect(port: int, user: str, refusals: Sequence[bytes]) -> Connection:
    """Return a connection to a loopback port, on which nothing has been said."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Connection(user, refusals), "127.0.0.1", port
    )
    return connection


def number_after(data: bytes, mark: bytes, pattern: re.Pattern[bytes]) -> int | None:
    """Return the number that the pattern finds after the last occurrence of the mark; None if the
    bytes end before it."""
    if (start := data.rfind(mark)) < 0:
        return None
    found = pattern.search(data, start)
    return None if found is None else int(found[1])
