# SPDX-License-Identifier: Apache-2.0
"""The TCP connection under a socket, which is closed if the handshake is cancelled.

picows leaves the connection open in that case. It would count as a connection of the user until the
server gives up waiting for the first frame.
"""

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from picows import WSParsedURL

ADDRESS_SECONDS_MAX: Final = 3.0
"""Time for an address that does not answer, while the host has others."""
ADDRESSES_SECONDS_MAX: Final = 10.0
"""Time for all of these together, so that the last address has its turn in every attempt."""


class _Connected(socket.socket):
    """A socket that counts as connected also after the server has reset it.

    picows connects a socket that has no peer. It would connect one again that was reset a moment
    ago, and leave it open if that fails. Taken as connected, it is read, fails, and is closed.
    """

    peer: Any = None

    def getpeername(self) -> Any:  # noqa: ANN401 - by family
        try:
            return super().getpeername()
        except OSError:
            if self.peer is None:
                raise
            return self.peer


class TcpConnection:
    """Connects to the host of a URL, and runs one handshake over that connection."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    async def connect(self, url: WSParsedURL) -> socket.socket:
        """Connect to the first address of the host that accepts.

        Raises:
            OSError: The host is unknown, or none of its addresses accepts.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        failure = OSError(f"{url.host} has no address")
        seconds = min(ADDRESS_SECONDS_MAX, ADDRESSES_SECONDS_MAX / len(found)) if found else None
        for number, (family, kind, protocol, _, address) in enumerate(found, 1):
            try:
                async with asyncio.timeout(seconds if number < len(found) else None):
                    self._socket = await _connected(_Connected(family, kind, protocol), address)
            except OSError as error:  # also if the time is over
                failure = error
            else:
                return self._socket
        raise failure

    async def run(self, handshake: Coroutine[Any, Any, object]) -> None:
        """Wait for a handshake that uses this connection; if cancelled, close the connection."""
        running = asyncio.ensure_future(handshake)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            if self._socket is None:
                running.cancel()
            else:
                with suppress(OSError):  # it is closed already
                    self._socket.shutdown(socket.SHUT_RDWR)
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # it was looked at, so asyncio does not report it
            raise


async def _connected(made: _Connected, address: Any) -> socket.socket:  # noqa: ANN401 - by family
    made.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    made.peer = address
    return made
