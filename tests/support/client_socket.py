# SPDX-License-Identifier: Apache-2.0
"""A client socket that sends any frame, records all frames and close codes, and waits for them."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from tests.support.waiting import WAIT_SECONDS, until
from tidings_client.tcp import TcpConnection

Frame = dict[str, Any]

NO_CLOSE_FRAME: Final = 1006
FRAMES_SHOWN: Final = 20


class ConnectionLost(Exception):
    """The socket closed before the answer arrived, so the outcome is unknown."""


class Refused(Exception):
    """The server refused a request; `frame` is its answer."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame["code"])
        self.frame = frame
        self.code: str = frame["code"]
        self.retryable: bool = frame["retryable"]


class Socket:
    """A socket that matches answers to requests, without knowing what frames mean."""

    def __init__(self, url: str) -> None:
        self.raw: list[Frame] = []
        """Every frame from the server, in order, over all connections."""
        self.closes: list[int] = []
        """The close code of each connection that ended; 1006 if there was no close frame."""
        self._url = url.replace("http", "ws", 1) + "/v1/ws"
        self._transport: WSTransport | None = None
        self._asked: dict[str, tuple[Frame, asyncio.Future[Frame]]] = {}
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._transport is not None

    async def open(self) -> None:
        """Open the socket without sending a frame."""
        tcp = TcpConnection()
        await tcp.run(ws_connect(lambda: _Ear(self), self._url, socket_factory=tcp.connect))

    async def drop(self) -> None:
        """Drop the connection without a close frame."""
        if self._transport is not None:
            self._transport.disconnect(False)
        await self.until(lambda: not self.is_open)

    # Sending.

    def tell(self, frame: Frame) -> None:
        """Send a frame; do nothing if there is no connection."""
        self.tell_raw(msgspec.json.encode(frame))

    def tell_raw(self, payload: bytes, kind: WSMsgType = WSMsgType.TEXT) -> None:
        """Send any payload."""
        if self._transport is not None:
            self._transport.send(kind, payload)

    async def ask(self, frame: Frame) -> Frame:
        """Send a frame that is answered, and return the answer.

        Raises:
            ConnectionLost: The connection ended first.
            Refused: The server declined.
        """
        if self._transport is None:
            raise ConnectionLost
        request = str(frame.setdefault("id", secrets.token_hex(8)))
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._asked[request] = frame, answer
        self.tell(frame)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                told = await answer
        finally:
            del self._asked[request]
        if told["op"] == "refused":
            raise Refused(told)
        return told

    # Receiving.

    async def until(self, holds: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
        """Wait until a condition on this socket holds."""
        await until(
            holds,
            changed=lambda: self._changed,
            describe=lambda: (self.raw[-FRAMES_SHOWN:], self.closes),
            seconds=seconds,
        )

    async def frame(
        self, op: str, *, since: int = 0, seconds: float = WAIT_SECONDS, **fields: Any
    ) -> Frame:
        """Wait for a frame with this op and these fields; return the first from the `since`-th
        on."""
        wanted = {"op": op, **fields}
        found: list[Frame] = []

        def is_there() -> bool:
            found[:] = [told for told in self.raw[since:] if wanted.items() <= told.items()][:1]
            return bool(found)

        await self.until(is_there, seconds)
        return found[0]

    def on_open(self, transport: WSTransport) -> None:
        """Record that the connection is open."""
        self._transport = transport
        self._notify()

    def on_frame(self, frame: Frame) -> None:
        """Record a received frame."""
        self.raw.append(frame)
        _, answer = self._asked.get(str(frame.get("id")), (None, None))
        if answer is not None and not answer.done():
            answer.set_result(frame)
        self._notify()

    def on_close(self, code: int) -> None:
        """Record that the connection has closed."""
        self._transport = None
        self.closes.append(code)
        for _, answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ConnectionLost())
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Ear(WSListener):
    """Passes the events of picows to a socket."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._code = NO_CLOSE_FRAME

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._socket.on_open(transport)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self._socket.on_frame(msgspec.json.decode(frame.get_payload_as_bytes()))
        elif frame.msg_type == WSMsgType.CLOSE:
            # Read the code from the payload, because picows knows only the standard codes.
            self._code = int.from_bytes(frame.get_payload_as_bytes()[:2], "big") or NO_CLOSE_FRAME
            transport.send_close()
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._socket.on_close(self._code)
