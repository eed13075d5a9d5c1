# SPDX-License-Identifier: Apache-2.0
"""HTTP on the one port: uvicorn's protocol, with a limit on slowness and on headers.

A request on a kept-alive connection may ask for the socket: the connection is handed over then.
"""

import asyncio
import sys
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

HEADER_BYTES_MAX: Final = 32 * 1024
REQUEST_SECONDS_MAX: Final = 20.0
KEEP_ALIVE_SECONDS: Final = 75
DRAIN_SECONDS_MAX: Final = 10.0
HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)

MakeSocket = Callable[[], asyncio.BufferedProtocol]


class _Protocol(HttpToolsProtocol):
    """One HTTP connection: a request has to arrive whole within a time."""

    _deadline: asyncio.TimerHandle | None = None
    """Runs from the first byte of a request, or of whatever it is, to the request's end."""
    _is_in_head = False
    _head_bytes = 0
    _data = b""
    """What is being parsed."""

    def __init__(
        self, config: uvicorn.Config, state: ServerState, make_socket: MakeSocket | None
    ) -> None:
        super().__init__(config, state, {})
        self._make_socket = make_socket

    def data_received(self, data: bytes) -> None:
        self._start_clock()
        self._data = data
        super().data_received(data)
        self._data = b""
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES_MAX:
                self._refuse_head()

    def on_message_begin(self) -> None:
        self._start_clock()
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if sum(len(name) + len(value) for name, value in self.headers) > HEADER_BYTES_MAX:
            self._refuse_head()
            raise ValueError("the head is too large")
        # uvicorn's own server would keep the date; here nothing but the protocols runs.
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_clock()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _refuse_head(self) -> None:
        self.transport.write(HEAD_TOO_LARGE)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _should_upgrade_to_ws(self) -> bool:
        return self._make_socket is not None

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to warn of: it is answered like any other request."""

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, with the request and with what came after it."""
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade), "only its handler calls this"
        (end_of_request,) = upgrade.args
        self._stop_clock()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.close()  # frames would get into the answer that is still under way
            return
        self.connections.discard(self)
        assert self._make_socket is not None, "upgrades are asked for only with sockets"
        socket = self._make_socket()
        socket.connection_made(self.transport)
        _feed(socket, self.transport, self._request_head() + self._data[end_of_request:])
        # A transport that is reading goes on in the old protocol's way.
        self.transport.pause_reading()
        self.transport.set_protocol(socket)
        self.transport.resume_reading()

    def _request_head(self) -> bytes:
        lines = [f"{self.scope['method']} ".encode() + self.url + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in self.headers]
        return b"\r\n".join([*lines, b"", b""])

    def _start_clock(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS_MAX, self.transport.close)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Http:
    """Makes HTTP protocols for the door, and sees them off."""

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - any ASGI app
        make_socket: MakeSocket | None,
    ) -> None:
        """Without sockets a request for one is answered like any other: there is no such page."""
        self._make_socket = make_socket
        self._config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,  # whose word counts is for the settings to say
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._config.load()
        self._state = ServerState()

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return _Protocol(self._config, self._state, self._make_socket)

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


def _feed(socket: asyncio.BufferedProtocol, transport: asyncio.Transport, data: bytes) -> None:
    """Give the protocol bytes that were read for another one."""
    view = memoryview(data)
    while view and not transport.is_closing():
        buffer = memoryview(socket.get_buffer(len(view)))
        size = min(len(buffer), len(view))
        buffer[:size] = view[:size]
        socket.buffer_updated(size)
        view = view[size:]
