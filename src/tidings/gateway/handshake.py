# SPDX-License-Identifier: Apache-2.0
"""The WebSocket handshake: who may open a socket."""

import asyncio
import logging
from typing import Final

from picows import WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener
from picows.picows import WSAutoPingStrategy, WSProtocol  # type: ignore[attr-defined]

from tidings.gateway.connection import Connection
from tidings.gateway.desk import Desk
from tidings.gateway.entrance import Entrance

SOCKET_PATH: Final = b"/v1/ws"
VERSION: Final = "13"
SOCKET_BYTES_MAX: Final = 256 * 1024
"""What the socket layer takes at all. Between the protocol's own limit and this one a client is
told 4413; beyond it the socket layer closes by itself, with 1009, before it has read the frame."""
READ_BUFFER_BYTES: Final = 2_048
HANDSHAKE_SECONDS_MAX: Final = 10

log = logging.getLogger("tidings.socket")


class Handshake:
    """Makes socket protocols for the door, and for upgrades on kept-alive HTTP connections."""

    def __init__(
        self, desk: Desk, allowed_origins: frozenset[str], entrance: Entrance | None = None
    ) -> None:
        self._desk = desk
        self._entrance = entrance or Entrance(desk.jitter_ms)
        self._allowed_origins = allowed_origins
        self.is_draining = False

    def protocol(self) -> asyncio.BufferedProtocol:
        """A protocol that reads the upgrade request and then speaks frames."""

        def admit(request: WSUpgradeRequest) -> Connection | WSUpgradeResponseWithListener:
            return self._admit(request, _peer(protocol))

        protocol = WSProtocol(
            None,
            None,
            False,
            admit,
            log,
            True,
            HANDSHAKE_SECONDS_MAX,
            False,
            20,
            20,
            WSAutoPingStrategy.PING_WHEN_IDLE,
            False,
            SOCKET_BYTES_MAX,
            None,
            READ_BUFFER_BYTES,
        )
        return protocol  # type: ignore[no-any-return]

    def _admit(
        self, request: WSUpgradeRequest, peer: str | None
    ) -> Connection | WSUpgradeResponseWithListener:
        if request.path.partition(b"?")[0] != SOCKET_PATH:
            return _no(404, b"no such page")
        if self._desk.vigil.is_blind:
            return _no(503, b"revocations cannot be read", {"Retry-After": "1"})
        if self.is_draining:
            return _no(503, b"the server is restarting", {"Retry-After": "1"})
        if request.headers.get("Sec-WebSocket-Version") != VERSION:
            return _no(426, b"another version is spoken here", {"Sec-WebSocket-Version": VERSION})
        if not self._is_allowed(request.headers.get("Origin"), request.headers.get("Host")):
            return _no(403, b"this origin may not open a socket")
        address = self._entrance.address(peer, request.headers.getall("X-Forwarded-For", []))
        if seconds := self._entrance.wait_seconds(address):
            return _no(503, b"too many at once", {"Retry-After": str(seconds)})
        _name_the_upgrade_alone(request)
        return Connection(self._desk, self._entrance, address)

    def _is_allowed(self, origin: str | None, host: str | None) -> bool:
        """Exact matches only: the page came from this host, or from one on the list."""
        if origin is None or origin in self._allowed_origins:
            return True
        return host is not None and origin in (f"http://{host}", f"https://{host}")


def _peer(protocol: WSProtocol) -> str | None:
    """Who is connected."""
    name = protocol.transport.underlying_transport.get_extra_info("peername")
    return name[0] if isinstance(name, tuple) and name else None


def _name_the_upgrade_alone(request: WSUpgradeRequest) -> None:
    """Firefox says `keep-alive, Upgrade`; picows looks for the one word."""
    options = ",".join(request.headers.getall("Connection", [])).lower().split(",")
    if "upgrade" in [option.strip() for option in options]:
        request.headers["Connection"] = "upgrade"


def _no(
    status: int, reason: bytes, headers: dict[str, str] | None = None
) -> WSUpgradeResponseWithListener:
    response = WSUpgradeResponse.create_error_response(status, reason, headers)
    return WSUpgradeResponseWithListener(response, None)
