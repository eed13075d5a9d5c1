# SPDX-License-Identifier: Apache-2.0
"""A connection that speaks HTTP/2, as a client, for requests that must not be sent twice.

The library `h2` handles frames, headers and flow control; this module handles the socket. A failed
request says whether the server can have seen it: it has not if the server refused the stream, or
went away before it (RFC 9113, sections 6.8 and 8.7).

`h2` accepts no frames after a GOAWAY, although the server still answers earlier requests
(python-hyper/h2, issue 1181). This module therefore takes that frame out of the stream itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from tidings.outgoing.push.answers import NoAnswer, ServiceAnswer
from tidings.ports.push import PushOutcome

STREAMS_MAX: Final = 100
"""Maximum number of requests at the same time, if the server does not allow fewer."""
ANSWER_BYTES_MAX: Final = 4 * 1024
QUIET_SECONDS: Final = 30.0
"""Time without a frame after which a connection is checked before it is used."""
PING_SECONDS_MAX: Final = 2.0
IDLE_SECONDS_MAX: Final = 15 * 60.0
"""Time without a request after which a connection is closed."""
_FRAME_HEADER_BYTES: Final = 9
_FRAME_BYTES_MAX: Final = 16_384
_GOAWAY: Final = 7
_STREAM_IDS: Final = 0x7FFF_FFFF
_PING: Final = b"tidings?"


class RequestUnderWay(msgspec.Struct):
    """A request that was sent, and what has arrived of its answer."""

    answer: asyncio.Future[ServiceAnswer]
    status: int = 0
    retry_after: str | None = None
    body: bytes = b""

    def apply(self, event: Event) -> None:
        """Add a part of the answer."""
        match event:
            case ResponseReceived():
                headers = dict(event.headers)
                self.status = int(headers[b":status"])
                self.retry_after = headers.get(b"retry-after", b"").decode("latin-1") or None
            case DataReceived():
                self.body = (self.body + event.data)[:ANSWER_BYTES_MAX]
            case StreamReset():
                is_unseen = event.error_code == ErrorCodes.REFUSED_STREAM
                reason = "the stream was reset"
                self.fail(PushOutcome("not_sent" if is_unseen else "unknown", reason))
            case StreamEnded() if not self.answer.done():
                self.answer.set_result(ServiceAnswer(self.status, self.body, self.retry_after))
            case _:
                pass

    def fail(self, outcome: PushOutcome) -> None:
        """Report that there will be no answer."""
        if not self.answer.done():
            self.answer.set_exception(NoAnswer(outcome))


class Http2Connection(asyncio.Protocol):
    """One connection to one server. Requests share it until one side does not want it any more."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(H2Configuration(client_side=True))
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._requests: dict[int, RequestUnderWay] = {}
        self._streams_max = 0
        """Maximum number of requests at the same time; 0 until the server says how many it
        takes."""
        self._is_ending = False
        self._waiting: dict[asyncio.Future[None], None] = {}
        """Futures of the requests that wait for a change, in order."""
        self._heard_at = self._loop.time()
        self._pong: asyncio.Future[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    # --- Callers ---

    @property
    def takes_requests(self) -> bool:
        """Whether the connection is open, and neither side has announced its end."""
        return self._transport is not None and not self._is_ending

    async def is_alive(self) -> bool:
        """Return True if requests can be sent; ask the server if it has been quiet for long."""
        if self.takes_requests and self._loop.time() - self._heard_at > QUIET_SECONDS:
            pong = self._pong = self._loop.create_future()
            self._h2.ping(_PING)
            self._flush()
            await asyncio.wait([pong], timeout=PING_SECONDS_MAX)
            if not pong.done():
                self.end()
        return self.takes_requests

    async def post(
        self, headers: Sequence[tuple[str, str]], body: bytes, seconds_max: float
    ) -> ServiceAnswer:
        """Send a request, as soon as the server has room for it, and return the answer.

        Raises:
            NoAnswer: There was no answer in time.
        """
        until = self._loop.time() + seconds_max
        await self._wait(lambda: self._has_room or not self.takes_requests, until, "busy")
        if not self.takes_requests:
            raise NoAnswer(PushOutcome("not_sent", "the connection has ended"))
        self._note_use()
        stream = self._h2.get_next_available_stream_id()
        request = self._requests[stream] = RequestUnderWay(self._loop.create_future())
        try:
            self._h2.send_headers(stream, headers)
            await self._send_body(stream, request, body, until)
            async with asyncio.timeout_at(until):
                return await request.answer
        except TimeoutError:
            self.end()  # others go to a new connection: this one may be dead
            raise NoAnswer(PushOutcome("unknown", "no answer in time")) from None
        finally:
            self._forget(stream)

    def end(self) -> None:
        """Take no more requests, and close the connection after those under way."""
        self._is_ending = True
        self._wake()
        if self._transport is not None and not self._requests:
            self._transport.close()

    # --- Sending ---

    def _note_use(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._loop.call_later(IDLE_SECONDS_MAX, self.end)

    @property
    def _has_room(self) -> bool:
        return len(self._requests) < self._streams_max

    async def _send_body(
        self, stream: int, request: RequestUnderWay, body: bytes, until: float
    ) -> None:
        """Send the body in the pieces for which the server has opened its window."""
        window = self._h2.local_flow_control_window
        while not request.answer.done():
            size = min(window(stream), self._h2.max_outbound_frame_size, len(body))
            self._h2.send_data(stream, body[:size], end_stream=size == len(body))
            self._flush()
            body = body[size:]
            if not body:
                return
            await self._wait(
                lambda: request.answer.done() or window(stream) > 0, until, "no window"
            )

    async def _wait(self, is_met: Callable[[], bool], until: float, reason: str) -> None:
        """Wait for a condition, which is checked whenever a frame has arrived.

        Raises:
            NoAnswer: The condition was not met in time. The request is incomplete, so nothing was
                sent.
        """
        while not is_met():
            changed = self._loop.create_future()
            self._waiting[changed] = None
            try:
                async with asyncio.timeout_at(until):
                    await changed
            except TimeoutError:
                raise NoAnswer(PushOutcome("not_sent", reason)) from None
            finally:
                self._waiting.pop(changed)

    def _forget(self, stream: int) -> None:
        self._requests.pop(stream).answer.cancel()
        try:
            # The stream is still open if nobody waits any more, or if the answer came early.
            self._h2.reset_stream(stream, ErrorCodes.CANCEL)
            self._flush()
        except ProtocolError:
            pass  # the stream or the connection has ended already
        self._wake()
        if self._is_ending:
            self.end()

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(self._h2.data_to_send())

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    # --- Receiving, called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self._h2.update_settings({SettingCodes.ENABLE_PUSH: 0})
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._buffer += data
        try:
            while (frame := self._next_frame()) is not None:
                if frame[3] == _GOAWAY:
                    self._go_away(int.from_bytes(frame[9:13]) & _STREAM_IDS)
                else:
                    self._handle(self._h2.receive_data(frame))
        except ProtocolError as error:
            self._flush()  # says goodbye
            self._lose(PushOutcome("unknown", type(error).__name__))
        self._flush()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._idle is not None:
            self._idle.cancel()
        self._lose(PushOutcome("unknown", "the connection was lost"))

    def _next_frame(self) -> bytes | None:
        """Take the next complete frame out of the buffer."""
        size = _FRAME_HEADER_BYTES + int.from_bytes(self._buffer[:3])
        if size > _FRAME_HEADER_BYTES + _FRAME_BYTES_MAX:
            raise ProtocolError("a frame is too large")
        if len(self._buffer) < size:
            return None
        frame, self._buffer = self._buffer[:size], self._buffer[size:]
        return frame

    def _go_away(self, last: int) -> None:
        """End the connection; the server has not processed any request after the one named
        `last`."""
        for stream, request in self._requests.items():
            if stream > last:
                request.fail(PushOutcome("not_sent", "the server went away"))
        self.end()

    def _lose(self, outcome: PushOutcome) -> None:
        for request in self._requests.values():
            request.fail(outcome)
        self._is_ending = True
        if self._transport is not None:
            self._transport.close()
        self._wake()

    def _handle(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case RemoteSettingsChanged():
                    allowed = self._h2.remote_settings.max_concurrent_streams
                    self._streams_max = min(STREAMS_MAX, allowed)
                case PingAckReceived():
                    if self._pong is not None and not self._pong.done():
                        self._pong.set_result(None)
                case DataReceived():
                    size = event.flow_controlled_length
                    self._h2.acknowledge_received_data(size, event.stream_id)
                    self._handle_in_stream(event.stream_id, event)
                case ResponseReceived() | StreamEnded() | StreamReset():
                    self._handle_in_stream(event.stream_id, event)
                case _:
                    pass  # priorities, windows and what `h2` has answered itself

    def _handle_in_stream(self, stream: int, event: Event) -> None:
        request = self._requests.get(stream)
        if request is not None:  # otherwise, nobody waits for the answer any more
            request.apply(event)
