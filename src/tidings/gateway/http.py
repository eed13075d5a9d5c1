# SPDX-License-Identifier: Apache-2.0
"""HTTP on the one port: uvicorn's protocol, with a limit on slowness and on headers."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tidings.gateway.handshake import UpgradeFromHttp

HEADER_BYTES_MAX: Final = 32 * 1024
REQUEST_SECONDS_MAX: Final = 20.0
KEEP_ALIVE_SECONDS: Final = 75
DRAIN_SECONDS_MAX: Final = 10.0


class _Protocol(HttpToolsProtocol):
    """One HTTP connection: a request has to arrive whole within a time."""

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > HEADER_BYTES_MAX:
            self.transport.close()

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self._too_slow)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_clock()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _too_slow(self) -> None:
        self.transport.close()


class Http:
    """Makes HTTP protocols for the door, and sees them off."""

    def __init__(self, app: Any, make_socket: Callable[[], asyncio.BufferedProtocol]) -> None:  # noqa: ANN401 - any ASGI app
        self._config = uvicorn.Config(
            app,
            http="httptools",
            ws=_upgrades(make_socket),
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._config.load()
        self._state = ServerState()

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return _Protocol(self._config, self._state, {})

    async def drain(self) -> None:
        """Let requests that are under way end, then close the connections."""
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                while self._state.tasks:
                    await asyncio.wait(list(self._state.tasks))
        except TimeoutError:
            return


def _upgrades(make_socket: Callable[[], asyncio.BufferedProtocol]) -> type[asyncio.Protocol]:
    """The class uvicorn makes an instance of when a request asks for a socket."""

    class Upgrade(UpgradeFromHttp):
        def __init__(self, config: object, server_state: object, app_state: object) -> None:
            super().__init__(make_socket)

    return Upgrade
