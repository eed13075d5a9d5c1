# SPDX-License-Identifier: Apache-2.0
"""One HTTP connection: uvicorn's protocol with bounds on what a client can make it keep.

Requests are parsed piece by piece, and no further while one waits for the answer to another. What
breaks a rule is answered after all that came before it, and ends the connection.
"""

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Final

import uvicorn

from tidings.gateway.http import refusals
from tidings.gateway.http.connection_limits import ConnectionClass, ConnectionLimits, Slot
from tidings.gateway.http.head import ReadGate, RequestHead, SocketMaker, hand_over, read_head
from tidings.gateway.http.parsing import ParsingProtocol, RequestRefused
from tidings.gateway.http.uvicorn_internals import RequestResponseCycle, ServerState
from tidings.model import limits

UNREAD_SECONDS_MAX: Final = limits.UNREAD_ANSWER_MS_MAX / limits.SECOND_MS
LINGER_SECONDS: Final = 1.0
"""How long a client that was refused is still read from: a connection that is closed with unread
bytes is reset, and the client might never see why."""


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
        """The request that is being answered, or was answered last."""
        self._unsent_bytes = 0
        self._unsent_since = 0.0

    # What the transport says.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = ReadGate(transport, self._read_on)
        self._slot.close = self._make_room

    def _make_room(self) -> None:
        """End for another connection. A client that has not read its answer would stay until it
        has: so it is cut off, and so is whoever sits in the reserve."""
        if self._slot.kind is ConnectionClass.RESERVE or self.transport.get_write_buffer_size():
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
        """Drop all that waits, and every reference that leads back here.

        What is in a cycle would stay until the collector looks at its oldest generation, which
        it rarely does: hundreds of megabytes waited for it after a flood.
        """
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self._data, self._is_over = b"", True
        self.flow.release()
        self.parser = None  # type: ignore[assignment]
        self.cycle = None  # type: ignore[assignment]
        self._running = None

    # What the parser says.

    def on_headers_complete(self) -> None:
        head = read_head(self.parser, self.url, self.headers)
        refusal = self._refusal_of_head(head)
        if refusal is not None:
            self._refusal = refusal
            raise RequestRefused
        self._framing.end_head(head.content_length, is_chunked=head.is_chunked)
        # uvicorn's own server would keep the date; here nothing but the protocols runs.
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
            return self._refusal_of_stranger(head)
        return refusal

    def _refusal_of_stranger(self, head: RequestHead) -> bytes | None:
        """All other connections are taken: only health checks and the root key are answered."""
        credentials = head.values(b"authorization")
        is_root = len(credentials) == 1 and self._is_root(credentials[0])
        if not head.is_for_health and not is_root:
            return refusals.CONNECTIONS_TAKEN
        self._limits.use_reserve(self._slot)
        return None

    # Answering.

    def _is_busy_again(self) -> None:
        self._limits.busy(self._slot)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401
        self._running = cycle
        super()._start_asgi_task(cycle, app)

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
        # What was left to parse may have made it a socket, which no timer of ours may close.
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
        """Answer what is there and take nothing more."""
        self._is_last = True
        super().shutdown()

    # Refusing.

    def _refuse(self, refusal: bytes) -> None:
        """Read nothing more; say why, once everything before it is answered."""
        self._is_over, self._refusal = True, refusal
        self._stop_clock()
        if self._is_last and refusal is refusals.NOT_HTTP and not self._framing.is_in_body:
            self._refusal = b""  # whatever follows the last request was not asked for
            return
        if self._framing.is_in_body:
            self._give_up_body()
        elif not self._is_answering:
            self._write_refusal()

    def _give_up_body(self) -> None:
        """The request that is broken has its turn already, or waits for it."""
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
        """The last answer. Bytes that still come are read for a moment, and thrown away."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self.transport.write(self._refusal)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.reopen()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def check_progress(self, now: float) -> None:
        """Cut the client off if it has taken nothing of what it was sent for too long."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self._unsent_bytes or self._unsent_bytes == 0:
            self._unsent_since = now
        elif now - self._unsent_since >= UNREAD_SECONDS_MAX:
            self.transport.abort()
        self._unsent_bytes = unsent

    def resume_writing(self) -> None:
        self._unsent_bytes = 0  # the client has taken most of it
        super().resume_writing()

    # Becoming a socket.

    def _should_upgrade(self) -> bool:
        return self._wants_socket

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to warn of: it is answered like any other request."""

    def _become_socket(self) -> None:
        """Hand the connection over, with what came after the request."""
        assert self._sockets is not None, "only with sockets is a request one for a socket"
        peer = self.client[0] if self.client else None
        if self._is_answering:
            self._is_over = True
            self.transport.close()  # frames would get into the answer that is still under way
            return
        refusal = self._sockets.refusal(self.headers, peer)
        if refusal is None and not self._limits.move_to_sockets(self._slot):
            refusal = refusals.SOCKETS_TAKEN
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
