# SPDX-License-Identifier: Apache-2.0
"""An XMPP connection that, after the login, only counts messages instead of parsing them, so that
the load costs little."""

import asyncio
import base64
from collections.abc import Callable
from typing import Final, cast

DOMAIN: Final = "localhost"
PASSWORD: Final = "bench"  # of users that exist for seconds, behind a loopback port
STEP_SECONDS_MAX: Final = 60.0

_OPEN: Final = (
    f"<stream:stream to='{DOMAIN}' version='1.0' xmlns='jabber:client'"
    " xmlns:stream='http://etherx.jabber.org/streams'>"
).encode()
_AUTH: Final = b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>%s</auth>"
_BIND: Final = (
    b"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
    b"<resource>bench</resource></bind></iq>"
)
_JOIN: Final = (
    "<presence to='{room}/{user}'><x xmlns='http://jabber.org/protocol/muc'>"
    "<history maxstanzas='0'/></x></presence>"
)


class XmppError(Exception):
    """The server refused a request, closed the connection or did not answer."""


class _Counter:
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

    def __init__(self, user: str) -> None:
        self.user = user
        self.failure: XmppError | None = None
        self._counters: list[_Counter] = []
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
        if b"<failure" in data or b"<stream:error" in data or b"type='error'" in data:
            self._fail(f"was answered {data[-1000:]!r}")
        for counter in self._counters:
            counter.feed(data)
        if self._asked:
            self._answer += data
            self._heard.set()

    # What it is told.

    async def log_in(self) -> None:
        """Authenticate, bind a resource, and become available."""
        await self.ask(_OPEN, b"</stream:features>")
        await self.ask(_AUTH % base64.b64encode(f"\0{self.user}\0{PASSWORD}".encode()), b"<success")
        await self.ask(_OPEN, b"</stream:features>")
        await self.ask(_BIND, b"</iq>")
        await self.ask(b"<presence/>", b"<presence")

    async def join(self, room: str) -> None:
        """Enter a group chat, without its history."""
        stanza = _JOIN.format(room=room, user=self.user).encode()
        await self.ask(stanza, b"<subject")  # the last thing that one who enters is sent

    async def ask(self, stanza: bytes, answer: bytes) -> None:
        """Send a stanza, and wait until its answer has arrived."""
        self._asked, self._answer = True, b""
        self.write(stanza)
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

    def count(self, mark: bytes, on_marks: Callable[[int], None]) -> None:
        """Call `on_marks` from now on with the number of times that these bytes have arrived."""
        self._counters.append(_Counter(mark, on_marks))

    def write(self, stanzas: bytes) -> None:
        """Send bytes unchanged."""
        if self._transport is not None:
            self._transport.write(stanzas)

    def close(self) -> None:
        """Close the connection; errors after this are ignored."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def _fail(self, what: str) -> None:
        self.failure = self.failure or XmppError(f"{self.user} {what}")
        self._heard.set()


async def connect(port: int, user: str) -> Connection:
    """Return a connection on which the user is logged in."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(user), "127.0.0.1", port)
    await connection.log_in()
    return connection
