# SPDX-License-Identifier: Apache-2.0
"""Makes the protocols of HTTP connections, cuts off clients that do not read, and drains."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from tidings.gateway.http.connection_limits import ConnectionLimits, Slot
from tidings.gateway.http.head import SocketMaker
from tidings.gateway.http.protocol import HttpProtocol
from tidings.gateway.http.uvicorn_internals import ServerState

DRAIN_SECONDS_MAX: Final = 10.0
CHECK_SECONDS: Final = 2.0
"""Interval of the check for clients that read nothing: 0.2 µs per connection."""


def nobody_is_root(_authorization: bytes) -> bool:
    """Return False: the process has no root key."""
    return False


class Http:
    """All HTTP connections of the process."""

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - any ASGI app
        sockets: SocketMaker | None,
        limits: ConnectionLimits,
        is_root: Callable[[bytes], bool] = nobody_is_root,
    ) -> None:
        """Answer a request for a socket with 404 if there are no sockets.

        Args:
            app: Answers the requests.
            sockets: Accepts or refuses requests for a socket.
            limits: Limits on open connections.
            is_root: Checks whether an `Authorization` header carries the root key.
        """
        self._sockets = sockets
        self._limits = limits
        self._is_root = is_root
        self._config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,  # trusted proxies are a setting of ours
        )
        self._config.load()
        self._state = ServerState()
        self._checking: asyncio.TimerHandle | None = None

    def protocol(self, slot: Slot) -> asyncio.Protocol:
        """Return a protocol for one connection."""
        if self._checking is None:
            self._check_later()
        return HttpProtocol(
            self._config, self._state, self._sockets, self._limits, slot, self._is_root
        )

    @property
    def connections(self) -> list[HttpProtocol]:
        """Open connections that did not become sockets."""
        return [c for c in self._state.connections if isinstance(c, HttpProtocol)]

    def _check_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._checking = loop.call_later(CHECK_SECONDS, self._check_progress)

    def _check_progress(self) -> None:
        """Cut off clients that do not read; stop checking when no connection is left."""
        self._checking = None
        now = asyncio.get_running_loop().time()
        for connection in self.connections:
            connection.check_progress(now)
        if self._state.connections:
            self._check_later()

    async def drain(self) -> None:
        """Let running requests finish, then close the connections."""
        for connection in self.connections:
            connection.shutdown()
        try:
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                while self._state.tasks:
                    await asyncio.wait(list(self._state.tasks))
        except TimeoutError:
            return
        finally:
            if self._checking is not None:
                self._checking.cancel()
