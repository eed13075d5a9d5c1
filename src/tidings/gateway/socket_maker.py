# SPDX-License-Identifier: Apache-2.0
"""What an HTTP connection has to know of sockets to become one."""

import asyncio
from typing import Protocol

from tidings.gateway.connection_limits import ConnectionLimits, Slot
from tidings.gateway.http_heads import Headers


class SocketMaker(Protocol):
    """Decides who may open a socket."""

    def refusal(self, headers: Headers, peer: str | None) -> bytes | None:
        """What to answer a client that may not open a socket; None if it may."""
        ...

    def protocol(
        self,
        headers: Headers,
        peer: str | None,
        limits: ConnectionLimits | None,
        slot: Slot | None,
    ) -> tuple[asyncio.BufferedProtocol, bytes]:
        """A protocol that speaks frames, and the head of the request that it expects first."""
        ...
