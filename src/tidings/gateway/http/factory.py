# SPDX-License-Identifier: Apache-2.0
"""HTTP on the one port: makes the protocols of connections, watches them and sees them off."""

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
"""How often is looked for clients that read nothing: 0.2 µs a connection."""


def nobody_is_root(_authorization: bytes) -> bool:
    """For a process without a root key."""
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
        """Without sockets a request for one is answered like any other: there is no such page.

        Args:
            app: Answers the requests.
            sockets: Decides who may open a socket.
            limits: How many connections there may be.
            is_root: Tells from an `Authorization` header whether it holds the root key.
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
            proxy_headers=False,  # whose word counts is for the settings to say
        )
        self._config.load()
        self._state = ServerState()
        self._checking: asyncio.TimerHandle | None = None

    def protocol(self, slot: Slot) -> asyncio.Protocol:
        """A protocol for one connection."""
        if self._checking is None:
            self._check_later()
        return HttpProtocol(
            self._config, self._state, self._sockets, self._limits, slot, self._is_root
        )

    @property
    def connections(self) -> list[HttpProtocol]:
        """Those that are open and did not become sockets."""
        return [one for one in self._state.connections if isinstance(one, HttpProtocol)]

    def _check_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._checking = loop.call_later(CHECK_SECONDS, self._check_progress)

    def _check_progress(self) -> None:
        """Cut off those who do not read. Without connections there is nothing to come back for."""
        self._checking = None
        now = asyncio.get_running_loop().time()
        for connection in self.connections:
            connection.check_progress(now)
        if self._state.connections:
            self._check_later()

    async def drain(self) -> None:
        """Let requests that are under way end, then close the connections."""
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
