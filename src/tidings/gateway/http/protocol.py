# SPDX-License-Identifier: Apache-2.0
"""One HTTP connection: uvicorn's protocol with limits on the memory that a client can use.

Parsing pauses while a request waits for the answer to another. A request that breaks a rule is
answered after all earlier requests, and ends the connection.
"""

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidings.gateway.http.connection_limits import ConnectionClass, ConnectionLimits, Slot
from tidings.gateway.http.head import (
    CONNECTIONS_TAKEN,
    NOT_HTTP,
    ReadGate,
    RequestHead,
    SocketMaker,
    hand_over,
    read_head,
)
from tidings.gateway.http.later import SOCKETS_TAKEN
from tidings.gateway.http.parsing import ParsingProtocol, RequestRefused
from tidings.gateway.http.uvicorn_internals import RequestResponseCycle, ServerState
from tidings.model import limits

UNREAD_SECONDS_MAX: Final = limits.UNREAD_ANSWER_MS_MAX / limits.SECOND_MS
LINGER_SECONDS: Final = 5.0
"""Time during which bytes from a refused client are read and dropped. If the connection were closed
with unread bytes, it would be reset, and the client might never see the refusal."""


async def _run_with_all_bytes(
    app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run the application, which gets the bytes that arrived before the client disconnected.

    uvicorn drops them. An upload that is cut off again and again would never come to its end. What
    the application answers after the connection was closed is dropped.
    """

    async def receive_all() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect" and cycle.body:
            body, cycle.body = bytes(cycle.body), bytearray()
            return {"type": "http.request", "body": body, "more_body": True}
        return message

    async def send_while_open(message: Message) -> None:
        if cycle.transport.is_closing():
            cycle.disconnected = True  # uvicorn learns of it in the next turn of the loop
        await send(message)

    await app(scope, receive_all, send_while_open)


class HttpProtocol(ParsingProtocol):
    """One HTTP connection, from its first byte until it ends or becomes a socket."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        sockets: SocketMaker | None,
        connection_limits: ConnectionLimits,
        slot: Slot,
        is_root: Callable[[bytes], bool],
    ) -> None:
        super().__init__(config, state)
        self._sockets = sockets
        self._limits = connection_limits
        self._slot = slot
        self._is_root = is_root
        self._running: RequestResponseCycle | None = None
        """Request that is being answered, or was answered last."""
        self._unsent_bytes = 0
        self._unsent_since = 0.0

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = ReadGate(transport, self._read_on)
        self._slot.close = self._make_room

    def _make_room(self) -> None:
        """Close the connection to make room for another one.

        The connection is aborted if part of an answer is still unsent, because a normal close would
        wait for the client to read it, and if it is encrypted, because the client would have to
        confirm the end. A connection in the reserve is always aborted. This is safe: such a
        connection is closed only while it has no admitted request, so the client loses at most a
        refusal.
        """
        would_wait = self.scheme == "https" or self.transport.get_write_buffer_size()
        if would_wait or self._slot.kind is ConnectionClass.RESERVE:
            self.transport.abort()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self._limits.leave(self._slot)
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)
        self._let_go()

    def _let_go(self) -> None:
        """Drop waiting requests, and all references that form cycles with this object.

        Otherwise the objects would stay in memory until the garbage collector visits its oldest
        generation, which is rare. After a flood of requests, hundreds of megabytes stayed.
        """
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self._data, self._is_over = b"", True
        self.flow.release()
        self.parser = None  # type: ignore[assignment]
        self.cycle = None  # type: ignore[assignment]
        self._running = None

    # Callbacks of the parser.

    def on_headers_complete(self) -> None:
        head = read_head(self.parser, self.url, self.headers)
        refusal = self._refusal_of_head(head)
        if refusal is not None:
            self._refusal = refusal
            raise RequestRefused
        self._framing.end_head(head.content_length, is_chunked=head.is_chunked)
        # uvicorn's own server would update the date, but only its protocols run here.
        self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        self._wants_socket = self._sockets is not None and head.is_for_socket
        super().on_headers_complete()
        if self._wants_socket:
            return
        if self._slot.kind is ConnectionClass.RESERVE:
            self.cycle.keep_alive = False
        self._is_last = not self.cycle.keep_alive

    def _refusal_of_head(self, head: RequestHead) -> bytes | None:
        refusal = head.refusal(has_sockets=self._sockets is not None)
        if refusal is None and self._slot.kind is ConnectionClass.RESERVE:
            return self._refusal_in_reserve(head)
        return refusal

    def _refusal_in_reserve(self, head: RequestHead) -> bytes | None:
        """Return the refusal of a request on a reserved connection; None for a health check and for
        a request with the root key."""
        credentials = head.values(b"authorization")
        is_root = len(credentials) == 1 and self._is_root(credentials[0])
        if not head.is_for_health and not is_root:
            return CONNECTIONS_TAKEN
        self._limits.use_reserve(self._slot)
        return None

    # Answering.

    def _is_busy_again(self) -> None:
        self._limits.busy(self._slot)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401
        self._running = cycle
        super()._start_asgi_task(cycle, partial(_run_with_all_bytes, app, cycle))

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal:
            self._write_refusal()
            return
        self._read_on()
        # The rest of the data may have made this a socket, which no timer here may close.
        if not self._is_answering and not self._is_over:
            self._wait_for_more()

    def _wait_for_more(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self._limits.keep_alive_seconds, self.timeout_keep_alive_handler
        )
        if self._framing.is_idle:
            self._limits.idle(self._slot)

    @property
    def _is_answering(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def shutdown(self) -> None:
        """Answer the requests that have arrived and accept no more."""
        self._is_last = True
        super().shutdown()

    # Refusing.

    def _refuse(self, refusal: bytes) -> None:
        """Stop reading; send the refusal after all earlier requests are answered."""
        self._is_over, self._refusal = True, refusal
        self._stop_clock()
        if self._is_last and refusal is NOT_HTTP and not self._framing.is_in_body:
            self._refusal = b""  # bytes after the last request need no answer
            return
        if self._framing.is_in_body:
            self._give_up_body()
        elif not self._is_answering:
            self._write_refusal()

    def _give_up_body(self) -> None:
        """Abandon a request whose body breaks a rule.

        If the request still waits, it is dropped. If it is being answered, its handler learns that
        the client has disconnected.
        """
        broken: RequestResponseCycle = self.cycle
        if broken is not self._running:
            self.pipeline.popleft()
        elif broken.response_complete or broken.response_started:
            self._disconnect(broken)
            self.transport.close()
        else:
            self._disconnect(broken)
            self._write_refusal()

    def _disconnect(self, cycle: RequestResponseCycle) -> None:
        cycle.disconnected = True
        cycle.message_event.set()

    def _write_refusal(self) -> None:
        """Send the refusal as the last answer. Further bytes are read for a moment and dropped."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self.transport.write(self._refusal)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.reopen()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def check_progress(self, now: float) -> None:
        """Cut the client off if it has read nothing of its answer for too long."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self._unsent_bytes or self._unsent_bytes == 0:
            self._unsent_since = now
        elif now - self._unsent_since >= UNREAD_SECONDS_MAX:
            self.transport.abort()
        self._unsent_bytes = unsent

    def resume_writing(self) -> None:
        self._unsent_bytes = 0  # the client has read most of it
        super().resume_writing()

    # Becoming a socket.

    def _should_upgrade(self) -> bool:
        return self._wants_socket

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: the request is answered like any other."""

    def _become_socket(self) -> None:
        """Give the connection to a WebSocket protocol, with the bytes after the request."""
        assert self._sockets is not None, "`_wants_socket` is only set if there are sockets"
        peer = self.client[0] if self.client else None
        if self._is_answering:
            self._is_over = True
            self.transport.close()  # frames would mix with the answer that is being sent
            return
        refusal = self._sockets.refusal(self.headers, peer)
        if refusal is None and not self._limits.move_to_sockets(self._slot):
            refusal = SOCKETS_TAKEN.answer(self.headers)
        if refusal is not None:
            self._refuse(refusal)
            return
        socket, head = self._sockets.protocol(self.headers, peer, self._limits, self._slot)
        rest, transport = self._data[self._at :], self.transport
        self._slot.close = transport.abort
        self._stop_clock()
        self.connections.discard(self)
        self._let_go()
        hand_over(transport, socket, head + rest)
