# SPDX-License-Identifier: Apache-2.0
"""Sends a client the heads of the chats that it does not follow, and lets it follow some of them.

A client with many chats need not read all of them at hello. It gets the head of each chat, and
later the heads of chats with new entries. It gets entries only of the chats that it follows.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from tidings.gateway.client_connection import ClientConnection, LocalConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.progress import (
    Offer,
    Position,
    Unfollowed,
    count_resync,
    is_last,
    start_after,
)
from tidings.model import limits
from tidings.model.chats import ChatHead
from tidings.model.ids import CHAT, ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Unavailable
from tidings.ports.store import set_requester, user_requester
from tidings.wire.codes import Close
from tidings.wire.frames import GoneFrame, HeadsFrame, Resync, encode


class Early(NamedTuple):
    """Facts about a chat whose entries arrived during hello."""

    start: int
    """Sequence after which to start, if the chat is new to the connection."""
    last: int
    """The last sequence that arrived."""
    is_small: bool
    has_ended: bool
    """Whether an entry removed the user, who may have been added again."""


class UnfollowedChats:
    """Sends a connection the heads of chats that it does not follow; follows a chat on request."""

    __slots__ = ("_connection", "_context", "_is_gathering", "_news")

    def __init__(self, context: GatewayContext, connection: LocalConnection) -> None:
        self._context = context
        self._connection = connection
        self._news: dict[ChatId, None] = {}
        """Chats whose heads have changed since the last frame. While the client does not read,
        chats are added here, but no frames are queued."""
        self._is_gathering = False

    @property
    def _user(self) -> UserKey:
        user = self._connection.conversation.user
        assert user is not None
        return user

    # Heads.

    async def enter(
        self, chats: Iterable[ChatHead], early: Mapping[ChatId, Early], have: Collection[str]
    ) -> None:
        """Send the heads of all chats of the user, as fast as the socket accepts them.

        There is at least one frame, so that a client can wait for it. If the device has stored a
        chat of which the user is not a member, the client gets `gone`.
        """
        unfollowed = self._connection.progress.unfollowed
        for row in chats:
            is_small = row.member_count <= limits.SMALL_CHAT_MEMBERS_MAX
            unfollowed[row.chat_id] = Unfollowed(row.head.sequence, is_small)
        for chat, seen in early.items():
            known = unfollowed.get(chat)
            head = max(seen.last, known.head if known else 0)
            unfollowed[chat] = Unfollowed(head, seen.is_small)
        # From here on, entries that arrive are offered.
        for stored in have:
            if stored not in unfollowed:
                self._forget(ChatId(stored))
        for chat, seen in early.items():
            if seen.has_ended and chat in unfollowed:
                await self._look_up(chat, 0, None)  # the user may have been added again
        found = list(unfollowed)
        for start in range(0, max(1, len(found)), limits.HEADS_CHATS_MAX):
            await self._connection.drained()
            self._send(self._heads_of(found[start : start + limits.HEADS_CHATS_MAX]))

    def offer(self, entry: Offer, *, is_small: bool) -> None:
        """Process a new entry of a chat that the connection does not follow."""
        chat = entry.chat_id
        known = self._connection.progress.unfollowed.get(chat)
        if known is not None and entry.sequence <= known.head:
            return
        if not is_last(entry, self._user):
            self.note(chat, entry.sequence, is_small=is_small)
        elif known is not None:
            self._forget(chat)

    def note(self, chat: ChatId, head: int, *, is_small: bool) -> None:
        """Record that a chat has a new head; the client gets it within a second."""
        unfollowed = self._connection.progress.unfollowed
        known = unfollowed.get(chat)
        if known is None or head > known.head:
            unfollowed[chat] = Unfollowed(head, is_small)
            self._news[chat] = None
            self._gather()

    def compare(self, heads: Mapping[ChatId, int]) -> None:
        """Send current heads whose entries have not arrived.

        One of these entries may have removed the user. Therefore the membership is checked first.
        """
        missed = {chat: head for chat, head in heads.items() if self._is_missed(chat, head)}
        if missed:
            self._connection.start(self._note_missed(missed))

    def _is_missed(self, chat: ChatId, head: int) -> bool:
        progress = self._connection.progress
        known = progress.unfollowed.get(chat)
        return progress.get(chat) is None if known is None else head > known.head

    async def _note_missed(self, heads: Mapping[ChatId, int]) -> None:
        set_requester(user_requester(self._user))
        unfollowed = self._connection.progress.unfollowed
        try:
            for chat, head in heads.items():
                known = unfollowed.get(chat)
                found = await self._look_up(chat, None, known)
                if self._connection.progress.get(chat) is not None:
                    self._connection.reconcile({chat: head})  # the client has begun to follow it
                    continue
                # The user may have left the chat meanwhile.
                is_same = (chat in unfollowed) == (known is not None)
                if found is not None and is_same and self._is_missed(chat, head):
                    self.note(chat, max(head, found.head), is_small=found.is_small)
        except Unavailable:
            # The client must not miss these heads, or go on with a chat that it has left.
            self._connection.close(Close.OVERLOADED)

    def _gather(self) -> None:
        if not self._is_gathering:
            self._is_gathering = True
            asyncio.get_running_loop().call_later(limits.HEADS_MS / 1_000, self._send_news)

    def _send_news(self) -> None:
        self._is_gathering = False
        if self._connection.conversation.state is not State.OPEN:
            return
        if self._connection.progress.is_paused:
            self._gather()  # the client does not read: the heads wait here, not in the socket
            return
        news, self._news = self._news, {}
        remaining = iter(news)
        while some := list(islice(remaining, limits.HEADS_CHATS_MAX)):
            if heads := self._heads_of(some):
                self._send(heads)

    def _heads_of(self, chats: Iterable[ChatId]) -> dict[str, int]:
        """Return the heads of chats, without those that are followed or gone by now."""
        unfollowed = self._connection.progress.unfollowed
        return {str(chat): unfollowed[chat].head for chat in chats if chat in unfollowed}

    def _send(self, heads: dict[str, int]) -> None:
        self._connection.send(encode(HeadsFrame(heads)))

    def _forget(self, chat: ChatId) -> None:
        self._connection.progress.unfollowed.pop(chat, None)
        self._connection.send(encode(GoneFrame(chat)))

    # Following.

    async def follow(self, chat: ChatId, after: int | None, *, is_same_epoch: bool) -> None:
        """Follow a chat from the entry after `after`, which is None for a device without entries.

        If too much is missing, or `after` does not match the log, the client gets `resync`. If the
        user is not a member, the client gets `gone`. If the connection follows the chat already,
        nothing changes.
        """
        progress = self._connection.progress
        if progress.get(chat) is not None:
            return
        known = progress.unfollowed.get(chat)
        is_certain = known is not None and (after or 0) <= known.head
        if not is_certain:
            known = await self._look_up(chat, after, known)
        if known is None or progress.get(chat) is not None:
            return
        start = start_after(known.head, after, is_same_epoch=is_same_epoch)
        goal = known.head if start is None else start
        position = progress.start(chat, goal, known.head, is_small=known.is_small)
        if start is None:
            count_resync(known.head, after, is_same_epoch=is_same_epoch)
            self._connection.send(encode(Resync(chat, known.head)))
            mark_resync(self._context, self._connection, chat, position)
        if not is_certain:
            # The user may have been removed meanwhile; the next read of the log notices this.
            position.is_behind = True
        self._connection.wake()

    async def _look_up(
        self, chat: ChatId, after: int | None, known: Unfollowed | None
    ) -> Unfollowed | None:
        """Return the chat with the head of its log; send `gone` and return None if the user may not
        read the log.

        The head in `known` may be outdated, because a head copy is written after its entries were
        sent.
        """
        try:
            if CHAT.fullmatch(chat) is None:
                raise ChatNotFound
            page = await self._context.verbs.read.entries(
                self._user, chat, after=max(0, (after or 0) - 1), limit=1
            )
        except ChatNotFound:
            self._forget(chat)
            return None
        if known is None:
            return Unfollowed(page.head.sequence, is_small=False)
        return Unfollowed(max(page.head.sequence, known.head), known.is_small)


def mark_resync(
    context: GatewayContext, connection: ClientConnection, chat: ChatId, position: Position
) -> None:
    """Record that the client must load a chat again, up to the point from which it follows the
    chat."""
    position.resync = "sent"
    context.journal.note(connection, "resync_sent", chat, 1, position.start)
