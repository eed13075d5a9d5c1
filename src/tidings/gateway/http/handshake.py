# SPDX-License-Identifier: Apache-2.0
"""The WebSocket handshake, and the protocol of one socket, which uses internals of picows.

picows can only serve connections that it has accepted on a port of its own. Here our listener has
accepted them, so this module creates the protocol objects of picows directly. A new release of
picows may change the arguments or methods that we use. Therefore its version is capped in
`pyproject.toml`, and a unit test compares the source of these functions with the source that we
have read.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable
from typing import Final, Protocol

from picows import WSListener, WSUpgradeRequest
from picows.picows import WSAutoPingStrategy, WSProtocol  # type: ignore[attr-defined]

from tidings.gateway.connection import Connection
from tidings.gateway.context import Admission, GatewayContext
from tidings.gateway.http.connection_limits import ConnectionLimits, Slot
from tidings.gateway.http.head import (
    KEY_INVALID,
    NOT_AN_UPGRADE,
    ORIGIN_REFUSED,
    SOCKET_VERSION_UNKNOWN,
    Headers,
    header_values,
)
from tidings.gateway.http.later import DRAINING, REVOCATIONS_UNREAD, Later
from tidings.metrics import declared

SOCKET_BYTES_MAX: Final = 256 * 1024
"""Maximum size of a frame that picows reads. If a frame is larger, picows closes the connection
with 1009 and does not read the frame. Our own limit is lower: a frame between the two limits is
read and answered with 4413."""
READ_BUFFER_BYTES: Final = 2_048
HANDSHAKE_SECONDS_MAX: Final = 10
PING_SECONDS: Final = 20
"""Required by picows although its own pings are switched off."""

log = logging.LoggerAdapter(logging.getLogger("tidings.socket"))
"""Log of all sockets. For a plain logger, picows would make another one for each socket."""

VERSION: Final = b"13"
KEY_BYTES: Final = 16


class CountsSlots(Protocol):
    """Counts the open connections."""

    def leave(self, slot: Slot) -> None:
        """Stop counting a connection."""
        ...


class SocketProtocol(WSProtocol):  # type: ignore[misc] # picows has no types here
    """One WebSocket connection. When it ends, it is no longer counted by the connection limits."""

    __slots__ = ("limits", "slot")

    limits: CountsSlots | None
    slot: Slot | None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.limits is not None and self.slot is not None:
            self.limits.leave(self.slot)
        super().connection_lost(exc)


def make_socket_protocol(
    make_listener: Callable[[WSUpgradeRequest], WSListener],
    limits: CountsSlots | None,
    slot: Slot | None,
) -> SocketProtocol:
    """Return the protocol for an open connection. It expects to read the upgrade request first."""
    protocol = SocketProtocol(
        None,  # host_port
        None,  # ws_path
        False,  # is_client_side
        make_listener,
        log,
        True,  # disconnect_on_exception
        HANDSHAKE_SECONDS_MAX,
        False,  # enable_auto_ping
        PING_SECONDS,
        PING_SECONDS,
        WSAutoPingStrategy.PING_WHEN_IDLE,
        False,  # enable_auto_pong
        SOCKET_BYTES_MAX,
        None,  # extra_headers
        READ_BUFFER_BYTES,
    )
    protocol.limits, protocol.slot = limits, slot
    return protocol


class Handshake:
    """Checks requests for a socket, and creates the protocol of each accepted socket."""

    def __init__(
        self,
        context: GatewayContext,
        allowed_origins: frozenset[str],
        admission: Admission | None = None,
    ) -> None:
        self._context = context
        self._admission = admission or Admission(context.jitter_ms)
        self._allowed_origins = allowed_origins
        self.is_draining = False

    def refusal(self, headers: Headers, peer: str | None) -> bytes | None:
        """Return the answer if the request is refused, or None if it is accepted."""
        if header_values(headers, b"sec-websocket-version") != [VERSION]:
            return _counted("version", SOCKET_VERSION_UNKNOWN)
        if not self._is_allowed(headers):
            return _counted("origin", ORIGIN_REFUSED)
        if not _is_upgrade(headers):
            return _counted("handshake", NOT_AN_UPGRADE)
        if not _is_key(header_values(headers, b"sec-websocket-key")):
            return _counted("handshake", KEY_INVALID)
        later = self._later(headers, peer)
        return None if later is None else later.answer(headers)

    def _later(self, headers: Headers, peer: str | None) -> Later | None:
        """Return the temporary refusal for everybody or for this address; None if a socket may
        open."""
        if self._context.write_lease.is_blind:
            return REVOCATIONS_UNREAD
        if self.is_draining:
            return DRAINING
        if seconds := self._admission.wait_seconds(self._address(headers, peer)):
            return Later("too many sockets are being opened", "rate", seconds=seconds)
        return None

    def protocol(
        self,
        headers: Headers,
        peer: str | None,
        limits: ConnectionLimits | None = None,
        slot: Slot | None = None,
    ) -> tuple[asyncio.BufferedProtocol, bytes]:
        """Return a WebSocket protocol, and the head of the request that it expects first.

        The head is newly written: only the `Sec-WebSocket-Key` is copied from the client's request.
        """
        address = self._address(headers, peer)

        def admit(_request: WSUpgradeRequest) -> Connection:
            return Connection(self._context, self._admission, address)

        protocol = make_socket_protocol(admit, limits, slot)
        [key] = header_values(headers, b"sec-websocket-key")
        return protocol, request_head(key)

    def _address(self, headers: Headers, peer: str | None) -> str | None:
        forwarded = [v.decode("latin-1") for v in header_values(headers, b"x-forwarded-for")]
        return self._admission.address(peer, forwarded)

    def _is_allowed(self, headers: Headers) -> bool:
        """Return True if the request has no origin, or if the origin is this host or an allowed
        origin."""
        origins = [v.decode("latin-1") for v in header_values(headers, b"origin")]
        if not origins:
            return True
        if len(origins) > 1:
            return False
        hosts = [v.decode("latin-1") for v in header_values(headers, b"host")]
        own = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
        return origins[0] in self._allowed_origins or origins[0] in own


def _counted(reason: str, answer: bytes) -> bytes:
    declared.sockets_refused.counts[reason] += 1
    return answer


def _is_upgrade(headers: Headers) -> bool:
    """Return True if the request is an upgrade to a WebSocket.

    The header `Connection` may have other values besides `Upgrade`: Firefox sends
    `keep-alive, Upgrade`.
    """
    options = b",".join(header_values(headers, b"connection")).lower().split(b",")
    is_asked = b"upgrade" in [option.strip() for option in options]
    lengths = header_values(headers, b"content-length") + header_values(
        headers, b"transfer-encoding"
    )
    has_body = any(length.strip(b"0") for length in lengths)
    protocols = [v.lower() for v in header_values(headers, b"upgrade")]
    return is_asked and not has_body and protocols == [b"websocket"]


def _is_key(keys: list[bytes]) -> bool:
    try:
        return len(keys) == 1 and len(base64.b64decode(keys[0], validate=True)) == KEY_BYTES
    except binascii.Error:
        return False


def request_head(key: bytes) -> bytes:
    """Return the head of a request for a socket with this key."""
    return (
        b"GET /v1/ws HTTP/1.1\r\nHost: tidings\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
    )
