# SPDX-License-Identifier: Apache-2.0
"""The WebSocket handshake: who may open a socket, and how one comes out of an HTTP connection."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from picows import WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener
from picows.picows import WSAutoPingStrategy, WSProtocol  # type: ignore[attr-defined]

from tidings.gateway.connection import Connection
from tidings.gateway.desk import Desk

SOCKET_PATH: Final = b"/v1/ws"
SOCKET_BYTES_MAX: Final = 256 * 1024
"""What the socket layer takes at all. Between the protocol's own limit and this one a client is
told 4413; beyond it the socket layer closes by itself, with 1009, before it has read the frame."""
READ_BUFFER_BYTES: Final = 2_048
HANDSHAKE_SECONDS_MAX: Final = 10

log = logging.getLogger("tidings.socket")


class Handshake:
    """Makes socket protocols for the door, and for upgrades on kept-alive HTTP connections."""

    def __init__(self, desk: Desk, allowed_origins: frozenset[str]) -> None:
        self._desk = desk
        self._allowed_origins = allowed_origins
        self.is_draining = False

    def protocol(self) -> asyncio.BufferedProtocol:
        """A protocol that reads the upgrade request and then speaks frames."""
        return WSProtocol(  # type: ignore[no-any-return]
            None,
            None,
            False,
            self._admit,
            log,
            True,
            HANDSHAKE_SECONDS_MAX,
            False,
            20,
            20,
            WSAutoPingStrategy.PING_WHEN_IDLE,
            True,
            SOCKET_BYTES_MAX,
            None,
            READ_BUFFER_BYTES,
        )

    def _admit(self, request: WSUpgradeRequest) -> Connection | WSUpgradeResponseWithListener:
        if request.path.partition(b"?")[0] != SOCKET_PATH:
            return _no(404, b"no such page")
        if self.is_draining:
            return _no(503, b"the server is restarting", {"Retry-After": "1"})
        origin = request.headers.get("Origin")
        host = request.headers.get("Host")
        if origin is not None and not self._is_allowed(origin, host):
            return _no(403, b"this origin may not open a socket")
        return Connection(self._desk)

    def _is_allowed(self, origin: str, host: str | None) -> bool:
        """Exact matches only: the page came from this host, or from one on the list."""
        if origin in self._allowed_origins:
            return True
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and host is not None and parts.netloc == host


def _no(
    status: int, reason: bytes, headers: dict[str, str] | None = None
) -> WSUpgradeResponseWithListener:
    response = WSUpgradeResponse.create_error_response(status, reason, headers)
    return WSUpgradeResponseWithListener(response, None)


class UpgradeFromHttp(asyncio.Protocol):
    """Takes over a kept-alive HTTP connection whose next request asks for the socket."""

    def __init__(self, make: Callable[[], asyncio.BufferedProtocol]) -> None:
        self._socket = make()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio's own type
        self._transport = transport
        self._socket.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            buffer = memoryview(self._socket.get_buffer(len(view)))
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            self._socket.buffer_updated(size)
            view = view[size:]
        assert self._transport is not None
        # The caller makes this object the protocol right after; then the socket takes its place.
        asyncio.get_running_loop().call_soon(self._transport.set_protocol, self._socket)
