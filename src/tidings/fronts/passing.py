# SPDX-License-Identifier: Apache-2.0
"""Passes the sockets that the owner has accepted to its fronts, as descriptors.

The owner reads the request for a socket and applies all limits to it. Then the front with the
fewest sockets gets the descriptor, and answers the request. Sockets that were not passed yet are
lost only if the owner itself dies: a front that dies takes none of them along.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final, cast

import msgspec

from tidings.fronts.messages import PassedSocket
from tidings.gateway.context import Admission, GatewayContext
from tidings.gateway.http.connection_limits import ConnectionLimits, Slot
from tidings.gateway.http.handshake import Handshake, request_head
from tidings.gateway.http.head import Headers, hand_over, header_values

START_BYTES_MAX: Final = 64 * 1024
"""Limit on the bytes that a client may send before its request for a socket is answered. RFC 6455
allows none."""
MESSAGE_BYTES_MAX: Final = 2 * START_BYTES_MAX

log = logging.getLogger("tidings.fronts")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PassedSocket).decode

Passing = Callable[[int, bytes, str | None, ConnectionLimits | None, Slot | None], None]
"""Passes on a descriptor, the bytes that the protocol of the socket gets first, the client's
address, and the slot under which the socket is counted."""


class CollectingProtocol(asyncio.Protocol):
    """Collects the bytes that arrive on a connection before it gets another protocol."""

    def __init__(self) -> None:
        self.collected = bytearray()

    def data_received(self, data: bytes) -> None:
        self.collected += data


class PassingProtocol(asyncio.BufferedProtocol):
    """Takes over the transport of an accepted request, and passes its descriptor on."""

    def __init__(self, passing: Callable[[int, bytes], None]) -> None:
        self._passing = passing
        self._start = bytearray()
        self._buffer = bytearray(2_048)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The bytes that were read with the request come after this call.
        asyncio.get_running_loop().call_soon(self._pass, cast(asyncio.Transport, transport))

    def get_buffer(self, _size: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self._start += memoryview(self._buffer)[:size]

    def _pass(self, transport: asyncio.Transport) -> None:
        if transport.is_closing() or len(self._start) > START_BYTES_MAX:
            transport.abort()
            self._passing(-1, b"")
            return
        transport.pause_reading()
        try:
            descriptor = os.dup(transport.get_extra_info("socket").fileno())
        except OSError:  # no descriptor is left
            descriptor = -1
        # This closes the owner's descriptor. The connection stays open through the other one.
        transport.abort()
        self._passing(descriptor, bytes(self._start))


class PassingHandshake(Handshake):
    """Checks requests for a socket as one process does, and passes accepted sockets on."""

    def __init__(
        self,
        context: GatewayContext,
        allowed_origins: frozenset[str],
        admission: Admission,
        passing: Passing,
    ) -> None:
        super().__init__(context, allowed_origins, admission)
        self._passing = passing

    def protocol(
        self,
        headers: Headers,
        peer: str | None,
        limits: ConnectionLimits | None = None,
        slot: Slot | None = None,
    ) -> tuple[asyncio.BufferedProtocol, bytes]:
        address = self._address(headers, peer)
        self._admission.opened(address)

        def passing(descriptor: int, start: bytes) -> None:
            self._passing(descriptor, start, address, limits, slot)

        [key] = header_values(headers, b"sec-websocket-key")
        return PassingProtocol(passing), request_head(key)


def send_socket(channel: socket.socket, descriptor: int, passed: PassedSocket) -> bool:
    """Send a descriptor to a front; return False if the front does not take it."""
    try:
        socket.send_fds(channel, [_encode(passed)], [descriptor])
    except OSError as error:
        about = {"action": "socket_not_passed", "error": str(error)}
        log.warning("a front took no socket", extra=about)
        return False
    return True


def receive_socket(channel: socket.socket) -> tuple[socket.socket, PassedSocket] | None:
    """Return the next socket that the owner has passed; None if there is none now.

    Raises:
        EOFError: The owner has ended.
    """
    try:
        data, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_BYTES_MAX, 1)
    except (BlockingIOError, InterruptedError):
        return None
    if not descriptors:
        raise EOFError
    return socket.socket(fileno=descriptors[0]), _decode(data)


async def serve_socket(
    connection: socket.socket, protocol: asyncio.BufferedProtocol, start: bytes
) -> None:
    """Give a passed socket its protocol, with the bytes that were read before."""
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, early = await loop.connect_accepted_socket(CollectingProtocol, connection)
    hand_over(transport, protocol, start + bytes(early.collected))
