# SPDX-License-Identifier: Apache-2.0
"""A socket to the server: a thin layer over picows that decodes frames and reports the end."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext
from typing import Final

from picows import (
    WSError,
    WSFrame,
    WSHandshakeError,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_connect,
)

from tidings_client.backoff import PAUSE_SECONDS_MAX, WORDS, Close, Ended, retry_after_seconds
from tidings_client.frames import Bye, ClientFrame, ServerFrame, decode, encode
from tidings_client.tcp import TcpConnection

CONNECT_SECONDS_MAX: Final = 15.0
CLOSE_SECONDS_MAX: Final = 2.0
FRAME_BYTES_MAX: Final = 1_024 * 1_024
"""Maximum size of a frame that this client accepts, far more than the server sends."""

log = logging.getLogger("tidings_client")
_picows_log = logging.getLogger("tidings_client.socket")
_picows_log.setLevel(logging.ERROR)  # a broken connection is normal, and reported as an event


class TurnedAway(OSError):
    """The server, or a proxy, answered the handshake without opening a socket."""

    def __init__(self, reason: str, away_seconds: float) -> None:
        super().__init__(reason)
        self.away_seconds = away_seconds
        """How long to wait before the next attempt, from `Retry-After`; 0 without it."""


class Connection(WSListener):
    """A socket, from the handshake to its end."""

    def __init__(self, receive: Callable[[ServerFrame], None]) -> None:
        """Create a closed connection; `receive` is called with each frame that arrives."""
        self._receive = receive
        self._transport: WSTransport | None = None
        self._parts: bytearray | None = None
        self._bye: Bye | None = None
        self._code: int | None = None
        self._given_up: str | None = None
        self._ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def open(self, url: str, ssl_context: SSLContext | None = None) -> None:
        """Connect; without `ssl_context`, trust the certificates that the system trusts.

        Raises:
            TurnedAway: The server, or a proxy before it, refuses the socket for now.
            OSError: There was no answer, or not from a WebSocket server.
        """
        tcp = TcpConnection()
        # Follow no redirects, because the token is only for the named server.
        handshake = ws_connect(
            lambda: self,
            url,
            ssl_context=ssl_context,
            max_redirects=0,
            max_frame_size=FRAME_BYTES_MAX,
            websocket_handshake_timeout=CONNECT_SECONDS_MAX,
            logger_name=_picows_log,
            socket_factory=tcp.connect,
        )
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await tcp.run(handshake)
        except TimeoutError:
            raise OSError("no answer in time") from None
        except WSHandshakeError as error:
            raise TurnedAway(f"the handshake failed: {error}", _away_seconds(error)) from error
        except WSError as error:
            raise OSError(f"the handshake failed: {error}") from error
        if self._transport is None and not self._ended.done():
            # picows reports a connection that was lost during the handshake as a success.
            raise OSError("the connection broke during the handshake")

    def say(self, frame: ClientFrame) -> None:
        """Send a frame; drop it if the socket is closed."""
        if self._transport is not None:
            self._transport.send(WSMsgType.TEXT, encode(frame))

    def give_up(self, reason: str) -> None:
        """Drop the socket without a close frame, because the other side seems to be gone."""
        self._given_up = reason
        if self._transport is not None:
            self._transport.disconnect(False)

    async def ended(self) -> Ended:
        """Wait for the end of the connection; return how it ended."""
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        """Close the socket properly, or drop it if the other side takes too long."""
        transport = self._transport
        if transport is None:
            return
        transport.send_close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self.ended()
                return
        transport.disconnect(False)

    # Callbacks of picows.

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT and frame.fin and self._parts is None:
            self._take(frame.get_payload_as_memoryview())
        elif frame.msg_type in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._take_part(frame)
        elif frame.msg_type == WSMsgType.CLOSE:
            # Read the code from the payload, because picows knows only the standard codes.
            payload = frame.get_payload_as_bytes()
            self._code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else None
            if not transport.is_close_frame_sent:
                transport.send_close()
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None
        if not self._ended.done():
            self._ended.set_result(self._how_it_ended())

    def _take_part(self, frame: WSFrame) -> None:
        """Join the fragments of a frame, because some proxies split long frames."""
        parts = bytearray() if self._parts is None else self._parts
        parts += frame.get_payload_as_memoryview()
        if len(parts) > FRAME_BYTES_MAX:
            self.give_up("the server sent a frame without an end")
        elif frame.fin:
            self._parts = None
            self._take(bytes(parts))
        else:
            self._parts = parts

    def _take(self, payload: bytes | memoryview) -> None:
        frame = decode(payload)
        if frame is None:
            log.debug("a frame of an unknown kind was passed over")
        elif isinstance(frame, Bye):
            self._bye = frame
        else:
            self._receive(frame)

    def _how_it_ended(self) -> Ended:
        if self._given_up is not None:
            return Ended(self._given_up)
        if self._bye is not None:
            return _as_told(self._bye)
        if self._code is None:
            return Ended("the connection broke")
        return Ended(_in_words(self._code), self._code)


def _as_told(bye: Bye) -> Ended:
    return Ended(
        _in_words(bye.code),
        bye.code,
        retry_after_ms=bye.retry_after_ms if bye.reconnect else None,
        is_final=not bye.reconnect and bye.code != Close.NOT_AUTHENTICATED,
    )


def _in_words(code: int) -> str:
    return WORDS[Close(code)] if code in WORDS else f"the server closed the connection ({code})"


def _away_seconds(error: WSHandshakeError) -> float:
    asked = error.response.headers.get("Retry-After") if error.response else None
    return retry_after_seconds(asked, otherwise=0.0, most=PAUSE_SECONDS_MAX)
