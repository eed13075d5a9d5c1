# SPDX-License-Identifier: Apache-2.0
"""The protocol of one WebSocket, made from internals of picows. No other module uses them.

picows opens its own listening port; our listener hands over open connections, so this module makes
the protocol itself. A new release may change the order of the arguments or the methods we rely on:
the version is capped in `pyproject.toml`, and a unit test compares the source of each of them with
the one we have read.
"""

import logging
from collections.abc import Callable
from typing import Final

from picows import WSListener, WSUpgradeRequest
from picows.picows import WSAutoPingStrategy, WSProtocol  # type: ignore[attr-defined]

from tidings.gateway.http.connection_limits import ConnectionLimits, Slot

SOCKET_BYTES_MAX: Final = 256 * 1024
"""Limit of the socket layer. A frame between the protocol's own limit and this one is answered with
4413; beyond it the socket layer closes with 1009, before it has read the frame."""
READ_BUFFER_BYTES: Final = 2_048
HANDSHAKE_SECONDS_MAX: Final = 10
PING_SECONDS: Final = 20
"""Required by picows although its own pings are switched off."""

log = logging.getLogger("tidings.socket")


class SocketProtocol(WSProtocol):  # type: ignore[misc] # picows has no types here
    """One WebSocket connection, removed from the connection limits when it ends."""

    __slots__ = ("limits", "slot")

    limits: ConnectionLimits | None
    slot: Slot | None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.limits is not None and self.slot is not None:
            self.limits.leave(self.slot)
        super().connection_lost(exc)


def make_socket_protocol(
    make_listener: Callable[[WSUpgradeRequest], WSListener],
    limits: ConnectionLimits | None,
    slot: Slot | None,
) -> SocketProtocol:
    """Return the protocol for an open connection; it expects the request for the socket first."""
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
