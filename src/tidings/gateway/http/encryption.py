# SPDX-License-Identifier: Apache-2.0
"""Begins TLS on accepted connections, and waits for the first bytes that were sent encrypted.

Until then a connection counts as one that has not sent its request yet, and has the same time and
the same limits. Therefore a client cannot occupy more of the process with slow handshakes than with
connections that send nothing.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, cast

from tidings.gateway.http.connection_limits import Undecided, Waiting
from tidings.gateway.http.head import malformed

HANDSHAKE_RECORD: Final = 22
"""First byte of every TLS connection (RFC 8446, 5.1)."""
CLOSE_SECONDS_MAX: Final = 5.0
"""Time in which a client has to read what is left and to confirm the end of the connection."""
UNREAD_BYTES_MAX: Final = 64 * 1024
"""Encrypted bytes that wait in this process, while the connection does not read, before only the
kernel's buffers fill up."""
_PLAIN: Final = malformed("this port speaks TLS only: use https:// or wss://")

Admit = Callable[[asyncio.Transport, bytes], bool]
"""Gives a connection with its first bytes to the protocol that serves it. Returns False if there is
no room for it: then the connection was refused, and is being closed."""


class FirstBytes(asyncio.Protocol):
    """Collects the first bytes of a connection after its handshake, until their kind is clear."""

    def __init__(self, waiting: Waiting, size: int, admit: Admit) -> None:
        """Set up the protocol; `admit` is called once, with at least `size` bytes.

        A connection that is refused still counts as waiting until it is closed, because a client
        can delay the end of an encrypted connection for `CLOSE_SECONDS_MAX`.
        """
        self._waiting = waiting
        self._size = size
        self._admit: Admit | None = admit
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The class of uvloop derives from no other.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_read_buffer_limits(UNREAD_BYTES_MAX)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        admit, transport = self._admit, self._transport
        if admit is None or transport is None or self._waiting.done():
            return
        self._data += data
        if len(self._data) >= self._size:
            self._admit = None
            if admit(transport, self._data):
                self._waiting.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError())

    def abort(self) -> None:
        """Close the connection without a word, if its handshake is over."""
        if self._transport is not None:
            self._transport.abort()


class Encryption:
    """Begins TLS on the connections of one port."""

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
        undecided: Undecided,
        seconds_max: float,
    ) -> None:
        """Set up the encryption; `context` returns the TLS settings for a new connection."""
        self._context = context
        self._undecided = undecided
        self._seconds_max = seconds_max

    async def begin(
        self, connection: socket.socket, address: str | None, size: int, admit: Admit
    ) -> None:
        """Do the handshake, and call `admit` with the first bytes, at least `size` of them.

        Raises:
            OSError: The handshake failed, or the client has disconnected.
            TimeoutError: The client was too slow, or had to make room for another.
        """
        waiting = self._undecided.enter(address)
        first = FirstBytes(waiting, size, admit)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._seconds_max) as deadline:
                waiting.add_done_callback(partial(_hurry, deadline))
                await loop.connect_accepted_socket(
                    lambda: first,
                    connection,
                    ssl=self._context(),
                    ssl_handshake_timeout=self._seconds_max,
                    ssl_shutdown_timeout=CLOSE_SECONDS_MAX,
                )
                await waiting
        except BaseException:
            first.abort()
            raise
        finally:
            self._undecided.leave(waiting, address)


def _hurry(deadline: asyncio.Timeout, waiting: Waiting) -> None:
    """End the handshake of a connection that has to make room for another."""
    if not waiting.cancelled() and waiting.exception() is not None:
        with suppress(RuntimeError):  # the handshake is over
            deadline.reschedule(asyncio.get_running_loop().time())


def is_encrypted(start: bytes) -> bool:
    """Return True if a connection that begins with these bytes speaks TLS."""
    return start[0] == HANDSHAKE_RECORD


def refuse_plain(connection: socket.socket) -> None:
    """Tell a client that did not use TLS to do so, and close the connection.

    What it has sent is read first, because a connection that is closed with unread bytes is reset,
    and the client might not see the answer.
    """
    with suppress(OSError):
        connection.recv(UNREAD_BYTES_MAX)
        connection.send(_PLAIN)
        connection.shutdown(socket.SHUT_WR)
    connection.close()
