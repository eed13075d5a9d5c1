# SPDX-License-Identifier: Apache-2.0
"""One client socket: says any frame, records every frame and close code, waits for conditions."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from tests.support.waiting import WAIT_SECONDS, until

Frame = dict[str, Any]

NO_CLOSE_FRAME: Final = 1006
FRAMES_SHOWN: Final = 20


class ConnectionLost(Exception):
    """The socket ended before the answer came: the outcome is unknown."""


class Refused(Exception):
    """The server said no; `frame` is its answer."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame["code"])
        self.frame = frame
        self.code: str = frame["code"]
        self.retryable: bool = frame["retryable"]


class Socket:
    """A socket that knows frames and answers, and nothing of what they mean."""

    def __init__(self, url: str) -> None:
        self.raw: list[Frame] = []
        """Every frame from the server, in order, over all connections."""
        self.closes: list[int] = []
        """The code of every connection that ended; 1006 if there was none."""
        self._url = url.replace("http", "ws", 1) + "/v1/ws"
        self._transport: WSTransport | None = None
        self._asked: dict[str, tuple[Frame, asyncio.Future[Frame]]] = {}
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._transport is not None

    async def open(self) -> None:
        """Open the socket and say nothing."""
        await ws_connect(lambda: _Ear(self), self._url)

    async def drop(self) -> None:
        """Lose the connection without a goodbye."""
        if self._transport is not None:
            self._transport.disconnect(False)
        await self.until(lambda: not self.is_open)

    # Saying things.

    def tell(self, frame: Frame) -> None:
        """Send a frame; lost if there is no connection."""
        self.tell_raw(msgspec.json.encode(frame))

    def tell_raw(self, payload: bytes, kind: WSMsgType = WSMsgType.TEXT) -> None:
        """Send whatever this is."""
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

    # Hearing things.

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
        """The first frame from the `since`-th on with this op and these fields; waits for it."""
        wanted = {"op": op, **fields}
        found: list[Frame] = []

        def is_there() -> bool:
            found[:] = [told for told in self.raw[since:] if wanted.items() <= told.items()][:1]
            return bool(found)

        await self.until(is_there, seconds)
        return found[0]

    def on_open(self, transport: WSTransport) -> None:
        """The connection is there."""
        self._transport = transport
        self._notify()

    def on_frame(self, frame: Frame) -> None:
        """A frame came in."""
        self.raw.append(frame)
        _, answer = self._asked.get(str(frame.get("id")), (None, None))
        if answer is not None and not answer.done():
            answer.set_result(frame)
        self._notify()

    def on_close(self, code: int) -> None:
        """The connection is gone."""
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
    """Hands on what picows hears."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._code = NO_CLOSE_FRAME

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._socket.on_open(transport)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self._socket.on_frame(msgspec.json.decode(frame.get_payload_as_bytes()))
        elif frame.msg_type == WSMsgType.CLOSE:
            # Read by hand: picows names only the standard codes.
            self._code = int.from_bytes(frame.get_payload_as_bytes()[:2], "big") or NO_CLOSE_FRAME
            transport.send_close()
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._socket.on_close(self._code)
