# SPDX-License-Identifier: Apache-2.0
"""Passes chat events on: entries to the delivery, and notices to connections."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol, assert_never, get_args

import msgspec

from tidings.actions.identity.blocks import BlockLists
from tidings.delivery.local_delivery import concerned
from tidings.model import limits
from tidings.model.blocks import BlockList
from tidings.model.chats import ChatState, Unread
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.refusals import Unavailable
from tidings.ports.bus import (
    Appended,
    Bus,
    Expired,
    Learnt,
    ReceiptMoved,
    Typing,
)
from tidings.tasks import Tasks, TurnBudget
from tidings.tracing.spans import CHAT_NAME, CONNECTIONS, Span
from tidings.wire.frames import (
    ReceiptFrame,
    TypingNotice,
    UnreadFrame,
    encode,
)

_Notice = Learnt | ReceiptMoved | Typing | Expired
"""The events besides `Appended` that are sent to connections here."""


class ReceiptPace:
    """Passes on at most one receipt per second for each user and chat."""

    def __init__(self, pass_on: Callable[[ReceiptMoved], None]) -> None:
        self._pass_on = pass_on
        self._pending: dict[tuple[UserKey, ChatId], ReceiptMoved | None] = {}
        """For each user and chat whose receipt was passed on within the last second: the newest
        receipt since then, or None."""
        self._is_closed = False

    def offer(self, event: ReceiptMoved) -> None:
        """Pass a receipt on now, if none was passed on within the last second.

        Otherwise it is passed on when that second is over, unless a later receipt replaces it.
        """
        key = event.receipt.user, event.chat
        if key not in self._pending:
            self._go(key, event)
            return
        earlier = self._pending[key]
        if earlier is not None and earlier.by_reading:
            event = msgspec.structs.replace(event, by_reading=True)
        self._pending[key] = event

    def close(self) -> None:
        """Stop passing receipts on."""
        self._is_closed = True

    def _go(self, key: tuple[UserKey, ChatId], event: ReceiptMoved) -> None:
        self._pending[key] = None
        asyncio.get_running_loop().call_later(limits.RECEIPT_FRAME_MS / 1_000, self._next, key)
        self._pass_on(event)

    def _next(self, key: tuple[UserKey, ChatId]) -> None:
        event = self._pending.pop(key)
        if event is not None and not self._is_closed:
            self._go(key, event)


class NoticeReceiver(Protocol):
    """A connection that receives notices."""

    def notice(self, chat: ChatId, frame: bytes) -> None:
        """Send a frame that has no sequence, if the connection follows the chat."""
        ...


class NoticeReceivers(Protocol):
    """Finds the connections of users to this process or its fronts."""

    def of(self, user: UserKey) -> Iterable[NoticeReceiver]:
        """Return the user's connections."""
        ...


class FanOut:
    """Passes the chat events of this process to its connections, and those of its fronts."""

    def __init__(
        self,
        bus: Bus,
        connections: NoticeReceivers,
        deliver: Callable[[Entry, ChatState], None],
        cached_state: Callable[[ChatId], ChatState | None],
        read_state: Callable[[ChatId], Awaitable[ChatState | None]],
        count_unread: Callable[[UserKey, ChatId], Awaitable[Unread | None]],
        open_entries: Callable[[Sequence[Entry]], Awaitable[None]],
        blocks: BlockLists,
    ) -> None:
        """Create the fan-out; `deliver` delivers an entry to the connections of this process or its
        fronts, and `open_entries` decrypts the content of entries."""
        self._connections = connections
        self._deliver = deliver
        self._cached_state = cached_state
        self._read_state = read_state
        self._count_unread = count_unread
        self._open_entries = open_entries
        self._blocks = blocks
        self._pace = ReceiptPace(self._notify_or_read)
        self._tasks = Tasks("fan-out")
        self._slices = TurnBudget()
        self._is_closed = False
        bus.subscribe(self._on_appended, Appended)
        bus.subscribe(self._on_event, *get_args(_Notice))

    async def close(self) -> None:
        """Cancel running work, and ignore later events."""
        self._is_closed = True
        self._pace.close()
        await self._tasks.close()

    def _on_appended(self, event: Appended) -> None:
        if self._is_closed:
            return
        if event.span is None:
            self._deliver(event.entry, event.state)
        else:
            self._deliver_traced(event.span, event.entry, event.state)

    def _on_event(self, event: _Notice) -> None:
        if self._is_closed:
            return  # the last receipts are stored after the connections are closed
        match event:
            case Learnt():
                self._later(self._learnt(event))
            case ReceiptMoved():
                self._pace.offer(event)
            case Typing():
                self._notify_or_read(event)
            case Expired():
                self._later(self._expired(event))
            case _:
                assert_never(event)

    def _notify_or_read(self, event: ReceiptMoved | Typing) -> None:
        state = self._cached_state(event.chat)
        blocks = self._blocks.cached(_user_of(event))
        if state is not None and blocks is not None:
            self._notify_members(event, state, blocks)
        else:
            self._later(self._notify_after_reading(event))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that reads from the store; if the store does not answer, nothing is sent."""
        self._tasks.start(_best_effort(work))

    async def _learnt(self, event: Learnt) -> None:
        """Deliver messages that this process has read, before the worker hands them over."""
        if any(self._connections.of(user) for user in event.state.members):
            await self._open_entries(event.entries)
            for entry in event.entries:
                self._slices.do(self._deliver_learnt, (entry, event.state))

    def _deliver_learnt(self, learnt: tuple[Entry, ChatState]) -> None:
        self._deliver(*learnt)

    def _deliver_traced(self, span: Span, entry: Entry, state: ChatState) -> None:
        found = sum(1 for user in concerned(entry, state) for _ in self._connections.of(user))
        delivering = span.child("deliver", attributes={CHAT_NAME: entry.chat_id})
        self._deliver(entry, state)
        delivering.end({CONNECTIONS: found})

    async def _notify_after_reading(self, event: ReceiptMoved | Typing) -> None:
        state = await self._read_state(event.chat)
        if state is not None:
            others = state.members if isinstance(event, Typing) and state.is_small else ()
            self._notify_members(event, state, await self._blocks.of(_user_of(event), others))

    def _notify_members(
        self, event: ReceiptMoved | Typing, state: ChatState, blocks: BlockList
    ) -> None:
        others = others_to_notify(event, state, blocks)
        match event:
            case Typing():
                frame = encode(TypingNotice(event.chat, user_id(event.user)))
                self._notify_others(state, others, frame)
            case ReceiptMoved(chat, receipt, by_reading):
                user = receipt.user
                frame = encode(ReceiptFrame(chat, user_id(user), receipt.delivered, receipt.read))
                self._notify_others(state, others, frame)
                own = tuple(self._connections.of(user))
                if len(own) > 1 and state.is_small:
                    _send_notice(own, chat, frame)
                if own and by_reading:
                    self._later(self._send_unread(user, chat))

    def _notify_others(self, state: ChatState, others: Iterable[UserKey], frame: bytes) -> None:
        """Send a frame to other members of a small chat.

        Nothing is sent in large chats, because the receipts of a thousand members would be a
        million frames per message.
        """
        if not state.is_small or state.is_deleted:
            return
        for other in others:
            _send_notice(self._connections.of(other), state.chat_id, frame)

    async def _expired(self, event: Expired) -> None:
        state = await self._read_state(event.chat)
        for user in state.members if state else ():
            await self._send_unread(user, event.chat)

    async def _send_unread(self, user: UserKey, chat: ChatId) -> None:
        if not tuple(self._connections.of(user)):
            return
        unread = await self._count_unread(user, chat)
        if unread is not None:
            frame = encode(UnreadFrame(chat, unread.count, unread.exact, unread.mentions))
            _send_notice(self._connections.of(user), chat, frame)


def _user_of(event: ReceiptMoved | Typing) -> UserKey:
    return event.user if isinstance(event, Typing) else event.receipt.user


def others_to_notify(
    event: ReceiptMoved | Typing, state: ChatState, blocks: BlockList
) -> list[UserKey]:
    """Return the other members who may learn of an event; `blocks` are those of its user.

    A member does not learn that a user whom they block is typing. In a direct chat, a blocked user
    learns nothing of the blocker.
    """
    user, is_direct = _user_of(event), state.type == "direct"
    others = [other for other in state.members if other != user]
    if isinstance(event, Typing):
        return [other for other in others if blocks.hears(other, is_direct=is_direct)]
    return [other for other in others if not (is_direct and other in blocks.blocked)]


async def _best_effort(work: Coroutine[Any, Any, None]) -> None:
    with suppress(Unavailable):
        await work


def _send_notice(connections: Iterable[NoticeReceiver], chat: ChatId, frame: bytes) -> None:
    for connection in connections:
        connection.notice(chat, frame)
