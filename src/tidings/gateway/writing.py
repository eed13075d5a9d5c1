# SPDX-License-Identifier: Apache-2.0
"""Carries out the requests of a client that write in a chat: messages, and that the user types.

They need nothing that only the process with the socket has. An owner therefore carries them out for
the connections of its fronts.
"""

from collections.abc import Awaitable, Callable, Container
from functools import partial
from time import monotonic
from typing import Final

from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.context import ConnectionCharges, GatewayContext
from tidings.logs.requests import Requests as LoggedRequests
from tidings.logs.requests import set_requests, texts_of
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import CHAT, ChatId, UserKey
from tidings.model.refusals import (
    ChatNotFound,
    RateLimited,
    Refusal,
    StoreUnavailable,
    TooManyWaiting,
)
from tidings.ports.bus import Typing
from tidings.ports.store import set_requester, user_requester
from tidings.tracing import spans
from tidings.tracing.spans import CHAT_NAME, MESSAGE_ID, REQUEST, SEQUENCE, Span, Tracer
from tidings.wire.codes import Close
from tidings.wire.frames import SendFrame

Work = Callable[[], Awaitable[None]]

_OBSERVE_SEND: Final = declared.send_seconds.of["socket"].observe


class WritingRequests:
    """Posts the messages of a connection, and publishes that its user is typing."""

    def __init__(
        self, context: GatewayContext, connection: ClientConnection, followed: Container[ChatId]
    ) -> None:
        """Set up the requests; `followed` always contains the chats that the connection follows."""
        self._context = context
        self._connection = connection
        self._followed = followed
        self._waiting = 0
        self._charges = ConnectionCharges(context.limits)
        self._typed_at: dict[ChatId, int] = {}
        self._timed: str | None = None
        """Request of the message that is being timed; None if none is."""
        self._timed_at = 0.0
        self._spans: dict[str, Span] = {}
        """Spans of the messages that are being sent and traced, by the id of their request."""

    @property
    def _user(self) -> UserKey:
        user = self._connection.conversation.user
        assert user is not None
        return user

    def _start(self, work: Work, request: str | None = None) -> bool:
        """Start work that waits for the store, and return True. If too much work is running
        already, refuse the request and return False."""
        if self._waiting >= limits.CONNECTION_REQUESTS_MAX:
            self._connection.refuse(TooManyWaiting(), request)
            return False
        self._waiting += 1
        self._connection.start(self._counted(work, request))
        return True

    def _named(self, request: str) -> LoggedRequests:
        """Return the name of a request in the log."""
        return ((self._connection.conversation.connection, request),)

    async def _counted(self, work: Work, request: str | None) -> None:
        set_requester(user_requester(self._user))
        if request is not None:
            set_requests(self._named(request))
        try:
            await work()
        except Refusal as refusal:
            self._connection.refuse(refusal, request)
        finally:
            self._answered()

    def _answered(self) -> None:
        self._waiting -= 1
        if not self._waiting and self._charges.is_leaving:
            self._connection.close(Close.TOO_FAST)

    # Sending.

    def send(self, frame: SendFrame) -> None:
        """Post a message; it is answered later, or refused now."""
        if self._waiting >= limits.CONNECTION_REQUESTS_MAX:
            self._connection.refuse(TooManyWaiting(), frame.id)
            return
        if self._context.write_lease.is_blind:
            self._connection.refuse(StoreUnavailable("revocations cannot be read"), frame.id)
            return
        if self._context.limits is not None and (wait_ms := self._charges.send(self._user)):
            self._refuse_as_too_fast(frame.id, wait_ms)
            return
        chat = ChatId(frame.chat)
        if chat not in self._followed and CHAT.fullmatch(chat) is None:
            self._connection.refuse(ChatNotFound(), frame.id)
            return
        self._waiting += 1
        if spans.tracer is not None and frame.id not in self._spans:
            self._begin_span(frame, spans.tracer)
        if self._timed is None:
            self._timed, self._timed_at = frame.id, monotonic()
        self._context.in_turn.do(self._post, frame)

    def _refuse_as_too_fast(self, request: str, wait_ms: int) -> None:
        """Refuse a message over the rate limit; after too many refusals the connection closes.

        It closes only after all accepted messages are answered, because otherwise the client would
        send them again and again.
        """
        self._waiting += 1
        self._connection.refuse(RateLimited(retry_after_ms=wait_ms), request)
        self._answered()

    def _post(self, frame: SendFrame) -> None:
        self._context.verbs.post(
            self._user,
            ChatId(frame.chat),
            frame.client_message_id,
            frame.content,
            frame.content_type,
            frame.ttl_seconds,
            partial(self._sent, frame.id),
            after=frame.after,
            options=frame.options,
            requests=((self._connection.conversation.connection, frame.id),),
            span=self._spans.get(frame.id) if self._spans else None,
        )

    def _begin_span(self, frame: SendFrame, tracer: Tracer) -> None:
        attributes = {CHAT_NAME: frame.chat, REQUEST: texts_of(self._named(frame.id))[0]}
        span = tracer.begin("send", frame.trace, kind="server", attributes=attributes)
        if span is not None:
            self._spans[frame.id] = span

    def _end_span(self, span: Span, result: Entry | Refusal) -> None:
        if isinstance(result, Refusal):
            span.end(error=result.code)
        else:
            span.end({MESSAGE_ID: result.message_id, SEQUENCE: result.sequence})

    def _sent(self, request: str, result: Entry | Refusal, is_replay: bool) -> None:
        if request == self._timed:
            self._timed = None
            if not isinstance(result, Refusal):
                _OBSERVE_SEND(monotonic() - self._timed_at)
        if self._spans and (span := self._spans.pop(request, None)) is not None:
            self._end_span(span, result)
        if isinstance(result, Refusal):
            self._connection.refuse(result, request)
        else:
            if is_replay:
                self._context.refusals.repeated(request, result.message_id, "socket", self._user)
            self._connection.confirm(request, result)
        self._answered()

    # Typing.

    def show_typing(self, chat: ChatId) -> None:
        """Publish that the user is typing in a chat, unless that was published lately. Only a
        refusal is answered."""
        bans = self._context.verbs.post.bans
        if self._has_typed_lately(chat) or (bans is not None and bans.is_banned(self._user)):
            return
        state = self._context.appender.state_nowait(chat)
        # The cached state may be older than the user's removal, which the connection has seen.
        if (
            state is not None
            and self._user in state.members
            and chat in self._followed
            and not state.is_deleted
        ):
            self._publish_typing(chat, is_small=state.is_small)
        else:
            self._start(partial(self._type_cold, chat))

    async def _type_cold(self, chat: ChatId) -> None:
        """Publish a typing event in a chat that is not cached, if the user may write there."""
        if CHAT.fullmatch(chat) is None:
            raise ChatNotFound
        await self._charges.read(self._user)
        row = await self._context.verbs.get(self._user, chat)
        if not self._has_typed_lately(chat):
            self._publish_typing(chat, is_small=row.member_count <= limits.SMALL_CHAT_MEMBERS_MAX)

    def _has_typed_lately(self, chat: ChatId) -> bool:
        typed_at = self._typed_at.get(chat)
        return typed_at is not None and self._connection.now() - typed_at < limits.TYPING_MS_MIN

    def _publish_typing(self, chat: ChatId, *, is_small: bool) -> None:
        self._typed_at[chat] = self._connection.now()
        if is_small:
            self._context.bus.publish(Typing(chat, self._user))
