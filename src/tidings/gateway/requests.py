# SPDX-License-Identifier: Apache-2.0
"""Carries out the frames of a client whose socket is in this process: receipts, fetch, follow,
tokens, and what `writing` carries out."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, assert_never

from tidings.actions import rate_limits
from tidings.actions.identity.caller import UserCaller
from tidings.gateway.answer_frames import page_frame
from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.progress import Position
from tidings.gateway.writing import WritingRequests
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.chats import Move
from tidings.model.entries import Entry
from tidings.model.ids import CHAT, ChatId
from tidings.model.refusals import ChatNotFound, Invalid, NotFollowed, Unauthenticated
from tidings.ports.store import on_behalf_of, unknown_requester
from tidings.wire.codes import Close
from tidings.wire.frames import (
    Auth,
    Away,
    ClientFrame,
    Fetch,
    Follow,
    Hello,
    Ping,
    Read,
    Received,
    SendFrame,
    TypingFrame,
    encode,
)

_OBSERVE_RECEIVED: Final = declared.received_seconds.of[()].observe


class Requests(WritingRequests):
    """Handler of the frames that a client sends on an open connection."""

    _connection: LocalConnection

    def __init__(self, context: GatewayContext, connection: LocalConnection) -> None:
        super().__init__(context, connection, connection.progress.positions)
        self._fetching = asyncio.Lock()
        self._follows: dict[ChatId, None] = {}
        """Chats for which a request to follow is being carried out."""
        self._renewing = asyncio.Lock()

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
                self.show_typing(ChatId(frame.chat))
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
        self._note_read(Move(self._user, ChatId(frame.chat), 0, frame.sequence, now), interval)

    def _note_read(self, move: Move, interval_ms: int) -> None:
        """Let a read mark be stored within an interval."""
        self._context.receipts.note(move, interval_ms)

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
