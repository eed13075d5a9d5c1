# SPDX-License-Identifier: Apache-2.0
"""Carries out the frames of a client, such as send, receipts, typing, fetch and follow."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic
from typing import Final, assert_never

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import UserCaller
from tidings.gateway.context import ConnectionCharges, GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.hub import ClientConnection
from tidings.gateway.progress import Position
from tidings.logs.requests import Requests as LoggedRequests
from tidings.logs.requests import set_requests, texts_of
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.chats import Move
from tidings.model.entries import Entry
from tidings.model.ids import CHAT, ChatId, UserKey, rfc3339
from tidings.model.refusals import (
    ChatNotFound,
    Invalid,
    NotFollowed,
    RateLimited,
    Refusal,
    StoreUnavailable,
    TooManyWaiting,
    Unauthenticated,
)
from tidings.ports.bus import Typing
from tidings.ports.log import Page
from tidings.ports.store import (
    on_behalf_of,
    set_requester,
    unknown_requester,
    user_requester,
)
from tidings.tracing import spans
from tidings.tracing.spans import CHAT_NAME, MESSAGE_ID, REQUEST, SEQUENCE, Span, Tracer
from tidings.wire.codes import Close
from tidings.wire.frames import (
    Auth,
    Away,
    ClientFrame,
    Fetch,
    Follow,
    Hello,
    PageFrame,
    Ping,
    Read,
    Received,
    SendFrame,
    SentFrame,
    TypingFrame,
    encode,
)
from tidings.wire.records import entry_record

Work = Callable[[], Awaitable[None]]

_OBSERVE_SEND: Final = declared.send_seconds.of["socket"].observe
_OBSERVE_RECEIVED: Final = declared.received_seconds.of[()].observe


class Requests:
    """Handler of the frames that a client sends on an open connection."""

    def __init__(self, context: GatewayContext, connection: ClientConnection) -> None:
        self._context = context
        self._connection = connection
        self._waiting = 0
        self._charges = ConnectionCharges(context.limits)
        self._typed_at: dict[ChatId, int] = {}
        self._timed: str | None = None
        """Request of the message that is being timed; None if none is."""
        self._timed_at = 0.0
        self._fetching = asyncio.Lock()
        self._follows: dict[ChatId, None] = {}
        """Chats for which a request to follow is being carried out."""
        self._renewing = asyncio.Lock()
        self._spans: dict[str, Span] = {}
        """Spans of the messages that are being sent and traced, by the id of their request."""

    @property
    def _user(self) -> UserKey:
        user = self._connection.conversation.user
        assert user is not None
        return user

    def perform(self, frame: ClientFrame) -> None:
        """Carry out a frame; its answer, if any, is sent now or later."""
        match frame:
            case SendFrame():
                self.send(frame)
            case Received():
                self._received(frame)
            case Read():
                self._read(frame)
            case TypingFrame():
                self._type(ChatId(frame.chat))
            case Fetch():
                self._start(partial(self._fetch, frame), frame.id)
            case Follow():
                if self._start(partial(self._follow, frame), frame.id):
                    self._follows[ChatId(frame.chat)] = None
            case Away():
                self._connection.conversation.is_away = frame.away
            case Auth():
                self._start(partial(self._renew, frame.token))
            case Hello() | Ping():
                raise AssertionError("answered by the connection itself")
            case _:
                assert_never(frame)

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
        if chat not in self._connection.progress.positions and CHAT.fullmatch(chat) is None:
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
            self._confirm_sent(request, result)
        self._answered()

    def _confirm_sent(self, request: str, sent: Entry) -> None:
        self._connection.send(sent_frame(request, sent))
        self._connection.progress.sent_own(sent.chat_id, sent.sequence)

    # Receipts.

    def _received(self, frame: Received) -> None:
        position = self._connection.progress.get(ChatId(frame.chat))
        is_unfollowed = position is None and ChatId(frame.chat) not in self._follows
        if is_unfollowed and self._connection.conversation.is_by_heads:
            # The server has sent no entries of this chat, so the client cannot have received them.
            self._connection.refuse(NotFollowed())
            return
        if position is None or frame.sequence > position.sent:
            self._start(partial(self._mark, ChatId(frame.chat), frame.sequence, 0))
            return
        now = self._context.clock.now()
        if 0 < position.timed <= frame.sequence:
            _OBSERVE_RECEIVED((now - position.timed_at) / limits.SECOND_MS)
            position.timed = 0
        self._make_room(position, frame.sequence)
        if position.is_small:
            move = Move(self._user, ChatId(frame.chat), frame.sequence, 0, now)
            self._context.receipts.note(move)

    def _make_room(self, position: Position, sequence: int) -> None:
        was_full = self._connection.progress.room <= 0
        self._connection.progress.received(position, sequence)
        if was_full:
            self._connection.wake()

    def _read(self, frame: Read) -> None:
        position = self._connection.progress.get(ChatId(frame.chat))
        if position is None or frame.sequence > position.sent:
            self._start(partial(self._mark, ChatId(frame.chat), 0, frame.sequence))
            return
        interval = limits.RECEIPT_FRAME_MS if position.is_small else limits.LARGE_CHAT_RECEIPT_MS
        now = self._context.clock.now()
        move = Move(self._user, ChatId(frame.chat), 0, frame.sequence, now)
        self._context.receipts.note(move, interval)

    async def _mark(self, chat: ChatId, delivered: int, read: int) -> None:
        """Store a receipt for entries that were not sent on this connection, such as fetched ones.

        The store checks that the log has these entries.
        """
        if CHAT.fullmatch(chat) is None:
            raise ChatNotFound
        await self._charges.read(self._user)
        await self._context.verbs.mark(self._user, chat, delivered, read)
        position = self._connection.progress.get(chat)
        if position is not None:
            # A client that has received a later entry has received all entries sent here.
            self._make_room(position, min(delivered, position.sent))

    # Typing.

    def _type(self, chat: ChatId) -> None:
        bans = self._context.verbs.post.bans
        if self._has_typed_lately(chat) or (bans is not None and bans.is_banned(self._user)):
            return
        state = self._context.appender.state_nowait(chat)
        is_followed = self._connection.progress.get(chat) is not None
        # The cached state may be older than the user's removal, which the connection has seen.
        if (
            state is not None
            and self._user in state.members
            and is_followed
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

    # Fetching.

    async def _fetch(self, frame: Fetch) -> None:
        chat = ChatId(frame.chat)
        if (frame.after is None) == (frame.before is None):
            raise Invalid("fetch needs either after or before")
        if CHAT.fullmatch(chat) is None:
            raise ChatNotFound
        await self._charges.read(self._user, rate_limits.page_cost(frame.limit))
        # Pages are sent one at a time, as fast as the client reads. After a long time offline it
        # may request a hundred pages; if all were sent at once, it would seem not to read at all.
        async with self._fetching:
            await self._connection.drained()
            page = await self._context.verbs.read.entries(
                self._user, chat, after=frame.after, before=frame.before, limit=frame.limit
            )
            answer = page_frame(frame, page)
            self._connection.send(encode(answer))
        self._note_fetched(chat, page.entries[: len(answer.entries)])

    def _note_fetched(self, chat: ChatId, entries: Sequence[Entry]) -> None:
        position = self._connection.progress.get(chat)
        if position is not None and position.resync:
            position.resync = "fetched"
        if entries:
            ends = sorted((entries[0].sequence, entries[-1].sequence))
            self._context.journal.note(self._connection, "fetched", chat, *ends)

    async def _follow(self, frame: Follow) -> None:
        chat = ChatId(frame.chat)
        known = self._connection.progress.unfollowed.get(chat)
        missing = 0 if known is None else known.head - (frame.after or 0)
        rows = min(max(missing, 1), limits.CATCH_UP_CHAT_ENTRIES_MAX)
        try:
            await self._charges.read(self._user, rate_limits.page_cost(rows))
            await self._connection.follow(chat, frame.after)
        finally:
            self._follows.pop(chat, None)

    # Tokens.

    async def _renew(self, token: str) -> None:
        try:
            # Tokens are checked one at a time: the first invalid token ends the connection, and
            # the store is not asked about the others.
            async with self._renewing:
                if self._connection.conversation.state is State.CLOSED:
                    return
                with on_behalf_of(unknown_requester(self._connection.address)):
                    caller = await self._context.authenticate(token)
        except Unauthenticated:
            self._connection.close(Close.NOT_AUTHENTICATED)
            return
        close: Close | None = Close.FORBIDDEN
        if isinstance(caller, UserCaller):
            close = self._connection.conversation.renew(caller)
        if close is not None:
            self._connection.close(close)


def sent_frame(request: str, entry: Entry) -> bytes:
    """Return the frame that confirms a message."""
    answer = SentFrame(
        request, entry.chat_id, entry.sequence, entry.message_id, rfc3339(entry.created_at)
    )
    return encode(answer)


def page_frame(frame: Fetch, page: Page) -> PageFrame:
    """Return a frame with as many entries of the page as fit, in the order of the log."""
    raws: list[msgspec.Raw] = []
    size = 0
    for entry in page.entries:
        raw = msgspec.Raw(encode(entry_record(entry)))
        size += len(raw)
        if raws and size > limits.PAGE_FRAME_BYTES_MAX:
            break
        raws.append(raw)
    more = len(raws) < len(page.entries) or page.next is not None
    if frame.before is not None:
        raws.reverse()
    return PageFrame(frame.id, frame.chat, raws, page.head.sequence, more)
