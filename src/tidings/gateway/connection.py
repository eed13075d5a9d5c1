# SPDX-License-Identifier: Apache-2.0
"""One WebSocket connection: reads frames, writes frames in batches, and closes on errors."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from tidings.gateway.answer_frames import refusal_frame, sent_frame
from tidings.gateway.context import Admission, GatewayContext
from tidings.gateway.conversation import CloseRequest, Conversation, State
from tidings.gateway.metering import LOST, NO_CODE, SENT, count_closed, slot_of
from tidings.gateway.progress import DeliveryProgress
from tidings.gateway.requests import Requests
from tidings.gateway.stream import Stream
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal
from tidings.tasks import Tasks
from tidings.wire.codes import RECONNECT, Close
from tidings.wire.frames import PONG, Bye, ClientFrame, Hello, Ping, Refused, SendFrame, encode
from tidings.wire.websocket import PING_FRAME, PONG_FRAME, header, may_be_sent, text_header

log = logging.getLogger("tidings.gateway")

CLOSE_SECONDS_MAX = 2.0
"""Maximum time for a client to answer a close frame: two ticks. Then the socket is dropped."""

FRAMES_UNLIMITED = 1 << 62
_TEXT: Final = WSMsgType.TEXT
"""A constant is read ten times as fast as a member of an enum."""

WRITE_BYTES_MAX = 32 * limits.KIB
"""If more bytes than this are queued, they are written at once, not at the end of the event loop
turn."""


class Connection(WSListener):
    """A client's WebSocket, from accept to close."""

    def __init__(
        self,
        context: GatewayContext,
        admission: Admission | None = None,
        address: str | None = None,
    ) -> None:
        self._context = context
        self._admission = admission
        self.address = address
        self._frames_left = self._frames_most = (
            FRAMES_UNLIMITED if context.limits is None else limits.CONNECTION_FRAMES_BURST
        )
        """Number of frames that the client may still send; each tick adds some."""
        self._loop = asyncio.get_running_loop()
        self._transport: WSTransport | None = None
        self._parts: bytearray | None = None
        """Fragments of an unfinished message."""
        self._unwritten: list[bytes] = []
        """Headers and payloads that wait for the end of the event loop turn, to be sent in one
        write. If each frame were written alone, the system calls would be a sixth of the cost of a
        message."""
        self._unwritten_bytes = 0
        self._is_leaving = False
        """Whether the close frame was sent and the client was still connected at the last tick."""
        self._takes_more: asyncio.Event | None = None
        """Event for which senders wait while the socket is full; otherwise None, because an event
        takes 0.8 KB and most connections never need one."""
        self._saw: Callable[[bytes], None] | None = None
        """Called with each frame that is sent, and with those that are left out because the client
        did not ask for them or does not follow their chat; None for nearly all connections."""
        self._close_code = LOST
        """Code with which the socket was closed, or would have been closed if the client had read.
        It is `LOST` if neither side named a code."""
        self._tasks = Tasks("connection")
        self.conversation = Conversation(self.now())
        self.progress = DeliveryProgress()
        self.stream = Stream(context, self)
        self.deliver: Final = self.stream.offer
        self.requests = Requests(context, self)

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait until the socket accepts them."""
        unsent = _backlog(self._transport) if self._transport is not None else 0
        return self._unwritten_bytes + unsent

    def now(self) -> int:
        """Return the time of a monotonic clock, in milliseconds."""
        return int(self._loop.time() * 1_000)

    # Callbacks of picows.

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        # picows keeps the request and the answer of the handshake; the headers take 1.5 KB.
        transport.request.headers.clear()
        transport.response.headers.clear()
        transport.underlying_transport.set_write_buffer_limits(limits.OUTBOX_PAUSE_BYTES)
        self._context.hub.opened(self)
        declared.sockets_opened.counts[()] += 1
        if self._admission is not None:
            self._admission.opened(self.address)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self._frames_left -= 1
        if self._frames_left < 0:
            self.close(Close.TOO_FAST)
        elif frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(Close.PROTOCOL_ERROR)
        elif frame.msg_type == _TEXT and frame.fin and self._parts is None:
            self._take(frame.get_payload_as_memoryview())
        elif frame.msg_type in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._take_part(frame)
        elif frame.msg_type == WSMsgType.PING:
            self.conversation.heard(self.now())
            self._queue(PONG_FRAME, frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.PONG:
            self.conversation.heard(self.now())
        elif frame.msg_type == WSMsgType.CLOSE:
            self._answer_close(transport, frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.BINARY:
            self.close(Close.BAD_FRAME)

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        self._transport = None
        self.conversation.state = State.CLOSED
        user = self.conversation.user
        self._context.hub.closed(self, user)
        count_closed(self._close_code)
        if self._admission is not None:
            self._admission.closed(self.address)
        if user is not None:
            self._context.unregister(user, self.conversation.connection)
            self._context.journal.closed(self)
        self._let_senders_go()  # those of other tasks than the connection's own
        self._tasks.cancel()

    def pause_writing(self) -> None:
        self.progress.is_paused = True
        self._takes_more = asyncio.Event()

    def resume_writing(self) -> None:
        self.progress.is_paused = False
        self._let_senders_go()
        self.stream.wake()

    def _let_senders_go(self) -> None:
        if self._takes_more is not None:
            self._takes_more.set()
            self._takes_more = None

    def _take_part(self, frame: WSFrame) -> None:
        """Join the fragments of a message, up to the length limit of a frame."""
        if (frame.msg_type == WSMsgType.TEXT) != (self._parts is None):
            self.close(Close.PROTOCOL_ERROR)
            return
        parts = bytearray() if self._parts is None else self._parts
        parts += frame.get_payload_as_memoryview()
        is_too_long = len(parts) > self.conversation.frame_bytes_max
        self._parts = None if frame.fin or is_too_long else parts
        if self._parts is None:
            self._take(bytes(parts))

    def _answer_close(self, transport: WSTransport, said: bytes) -> None:
        self.flush()
        self.conversation.state = State.CLOSED
        if not transport.is_close_frame_sent:
            self._close_code = int.from_bytes(said[:2]) if said else NO_CODE
            is_right = not said or may_be_sent(int.from_bytes(said[:2]))
            transport.send_close(WSCloseCode.OK if is_right else WSCloseCode.PROTOCOL_ERROR)
        transport.disconnect()

    def _take(self, payload: bytes | memoryview) -> None:
        got = self.conversation.receive(payload, int(self._loop.time() * 1_000))
        if type(got) is SendFrame:
            self.requests.send(got)
            return
        match got:
            case None:
                return
            case CloseRequest(code):
                self.close(code)
            case Refused() as answer:
                declared.refusals.counts[answer.code, "socket"] += 1
                self.send(encode(answer))
            case Ping():
                self.send(PONG)
            case Hello() as hello:
                self.start(self.stream.enter(hello))
            case frame:
                self.perform(frame)

    def perform(self, frame: ClientFrame) -> None:
        """Carry out a frame from the client."""
        self.requests.perform(frame)

    # Calls from the rest of the gateway.

    def notice(self, chat: ChatId, frame: bytes) -> None:
        """Send a frame that has no sequence, if the connection follows the chat."""
        if self.progress.get(chat) is not None:
            self.send(frame)
        elif chat in self.progress.unfollowed:
            self.hint(frame)  # the total also includes chats of which only heads are sent

    def hint(self, frame: bytes) -> None:
        """Show a frame to the watcher of the connection's frames; the client does not get it."""
        if self._saw is not None:
            self._saw(frame)

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        """Compare the entries sent with the current heads; read missing entries from the log.

        Returns False if the connection has not read the user's chats yet.
        """
        return self.stream.reconcile(heads)

    async def follow(self, chat: ChatId, after: int | None) -> None:
        """Send the entries of a chat after the sequence `after`, and all new entries."""
        await self.stream.follow(chat, after)

    def send(self, frame: bytes) -> None:
        """Send a frame at the end of the event loop turn.

        A client that leaves more than a megabyte unread is disconnected.
        """
        if self._saw is not None:
            self._saw(frame)
        SENT[frame[7] + 4 * frame[10]] += 1  # this is `slot_of`, without the cost of a call
        unwritten = self._unwritten
        if not unwritten:
            if self._transport is None:
                return
            self._context.writes.defer(Connection.flush, self)
        size = len(frame)
        unwritten += (text_header(size), frame)
        self._unwritten_bytes += size
        if self._unwritten_bytes > WRITE_BYTES_MAX:
            self.flush()

    def watch_frames(self, saw: Callable[[bytes], None]) -> None:
        """Call `saw` with every frame for this connection from now on."""
        self._saw = saw

    def _queue(self, kind: int, payload: bytes) -> None:
        if self._transport is None:
            return
        if not self._unwritten:
            self._context.writes.defer(Connection.flush, self)
        self._unwritten += (header(kind, len(payload)), payload)
        self._unwritten_bytes += len(payload)
        if self._unwritten_bytes > WRITE_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write all queued frames."""
        transport, frames = self._transport, self._unwritten
        if not frames:
            return
        lease = self._context.write_lease
        if transport is not None and lease.now() > lease.until:
            self._defer_or_disconnect(transport)
            return
        self._unwritten, self._unwritten_bytes = [], 0
        if transport is None or transport.is_close_frame_sent:
            return
        transport.underlying_transport.write(b"".join(frames))
        if self.progress.is_paused and _backlog(transport) > limits.OUTBOX_BYTES_MAX:
            self.close(Close.OVERLOADED)

    def _defer_or_disconnect(self, transport: WSTransport) -> None:
        """Defer the write until the lease is renewed, or disconnect if that is not possible."""
        is_too_much = _backlog(transport) or self._unwritten_bytes > limits.OUTBOX_BYTES_MAX
        if not (transport.is_close_frame_sent or self._context.write_lease.was_away or is_too_much):
            self._context.write_lease.defer(self._flush_later)
            return
        self._unwritten, self._unwritten_bytes = [], 0
        if not transport.is_close_frame_sent:
            self._disconnect(transport)

    def _flush_later(self) -> None:
        self._context.writes.defer(Connection.flush, self)

    def _disconnect(self, transport: WSTransport) -> None:
        """Close without writing the queued frames, because the lease to write has ended."""
        code = self._context.write_lease.close_code()
        if _backlog(transport):
            self._drop(transport, code)
        else:
            self.close(code)

    def _drop(self, transport: WSTransport, code: Close) -> None:
        self.conversation.state, self._transport = State.CLOSED, None
        self._close_code = code
        transport.disconnect(False)

    def confirm(self, request: str, entry: Entry) -> None:
        """Send the answer to a request whose message was stored as this entry."""
        self.send(sent_frame(request, entry))
        self.progress.sent_own(entry.chat_id, entry.sequence)

    def refuse(self, refusal: Refusal, request: str | None = None) -> None:
        """Send a refusal."""
        self.send(refusal_frame(self._context, self.conversation, refusal, request))

    def wake(self) -> None:
        """Continue to read from the log if the window has room."""
        self.stream.wake()

    def set_blocked(self, users: Collection[str]) -> None:
        self.conversation.blocked = users

    async def drained(self) -> None:
        """Wait until the socket accepts more bytes."""
        if self._takes_more is not None:
            await self._takes_more.wait()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that is cancelled when the connection closes."""
        if self._transport is not None:
            self._tasks.start(work)
        else:
            work.close()

    def tick(self) -> None:
        """Refill the frame budget and close an overdue connection; called about once a second."""
        refilled = self._frames_left + limits.CONNECTION_FRAMES_PER_SECOND
        self._frames_left = min(self._frames_most, refilled)
        if self._transport is not None and self._transport.is_close_frame_sent:
            self._drop_if_lingering(self._transport)
            return
        overdue = self.conversation.overdue(self.now(), self._context.clock.now())
        if overdue is None and self.stream.is_stalled(self.now()):
            overdue = Close.OVERLOADED
        if overdue is not None:
            self.close(overdue)
        elif self.conversation.needs_probe(self.now()):
            self._queue(PING_FRAME, b"")

    def _drop_if_lingering(self, transport: WSTransport) -> None:
        """Disconnect a client that does not answer the close frame, so that the socket is freed."""
        if self._is_leaving:
            transport.disconnect(False)
        self._is_leaving = True

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        """Send `bye` with the reason, then close.

        A client that has left too many bytes unread is disconnected without a `bye`.
        """
        self.flush()
        transport, self.conversation.state = self._transport, State.CLOSED
        if transport is None or transport.is_close_frame_sent:
            return
        if _backlog(transport) > limits.OUTBOX_BYTES_MAX:
            self._drop(transport, code)
            return
        if code is Close.OVERLOADED and self._context.write_lease.is_expired:
            code = self._context.write_lease.close_code()  # after a pause every client seems slow
        if retry_after_ms is None:
            retry_after_ms = self._wait_ms(code)
        self._close_code = code
        bye = encode(Bye(code, code in RECONNECT, retry_after_ms))
        SENT[slot_of(bye)] += 1
        transport.send(WSMsgType.TEXT, bye)
        # picows has names for the standard codes only, but accepts any number.
        transport.send_close(code, b"")  # type: ignore[arg-type]

    def _wait_ms(self, code: Close) -> int:
        """Return the time after which the client may reconnect, in milliseconds."""
        if code not in RECONNECT:
            return 0
        if code is Close.TOO_MANY_CONNECTIONS:
            # Other connections of the device may be idle by then.
            return limits.IDLE_MS + self._context.jitter_ms(limits.IDLE_MS)
        return self._context.jitter_ms(5_000)


def _backlog(transport: WSTransport) -> int:
    """Return the bytes that the socket has not sent yet."""
    return transport.underlying_transport.get_write_buffer_size()
