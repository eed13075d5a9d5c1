# SPDX-License-Identifier: Apache-2.0
"""Reads the entries that one connection missed from the log, while its window has room."""

import asyncio

from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.progress import Position
from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Unavailable
from tidings.ports.requesters import set_requester, user_requester
from tidings.wire.codes import Close
from tidings.wire.frames import GoneFrame, encode, encode_entry


class Pump:
    """Catch-up for chats that are behind, one page at a time."""

    def __init__(self, context: GatewayContext, connection: ClientConnection) -> None:
        self._context = context
        self._connection = connection
        self._is_busy = True
        """Whether pages are being read; true during hello, which reads them itself."""
        self._has_room: asyncio.Event | None = None
        """Set only while a page waits for room."""
        self._stalled_at: int | None = None

    @property
    def _user(self) -> UserKey:
        user = self._connection.conversation.user
        assert user is not None
        return user

    def start(self) -> None:
        """Read chats that fall behind from now on."""
        self._is_busy = False
        self.wake()

    def wake(self) -> None:
        """Continue if the window has room or a chat is behind."""
        if self._connection.progress.room > 0:
            self._stalled_at = None
            if self._has_room is not None:
                self._has_room.set()
        if not self._is_busy and self._is_open() and self._connection.progress.behind():
            self._is_busy = True
            self._connection.start(self._work())

    def is_stalled(self, now: int) -> bool:
        """Return whether the window was full, or the socket unread, for too long."""
        return (
            self._stalled_at is not None and now - self._stalled_at > limits.WINDOW_STALLED_MS_MAX
        )

    async def bring_to(self, head: int, chat: ChatId, position: Position) -> None:
        """Send the missing entries up to a head."""
        while position.sent < head and self._is_open():
            await self._send_page(chat, position)

    def _is_open(self) -> bool:
        return self._connection.conversation.state is State.OPEN

    async def _work(self) -> None:
        set_requester(user_requester(self._user))
        try:
            while self._is_open() and (behind := self._connection.progress.behind()):
                for chat in behind:
                    position = self._connection.progress.get(chat)
                    if position is not None:
                        await self._send_page(chat, position)
        except Unavailable:
            # The missing entries cannot be read now, and must not be skipped.
            self._connection.close(Close.OVERLOADED)
        finally:
            self._is_busy = False

    async def _send_page(self, chat: ChatId, position: Position) -> None:
        """Send a page from the log while there is room, then the entries that arrived meanwhile."""
        progress = self._connection.progress
        await self._wait_for_room()
        position.kept = []
        try:
            page = await self._context.verbs.read.entries(
                self._user, chat, after=position.sent, limit=min(progress.room, limits.PAGE_MAX)
            )
        except ChatNotFound:
            self._leave(chat, position)
            return
        kept, position.kept = position.kept or [], None
        if progress.get(chat) is not position:
            return
        for entry in page.entries:
            if not self._send_next(position, entry.sequence, encode_entry(entry)):
                break
        for sequence, frame in kept:
            self._send_next(position, sequence, frame)
        position.head = max(position.head, page.head.sequence)
        progress.caught_up(position)
        is_deleted = bool(page.entries) and page.entries[-1].kind == "deleted"
        if is_deleted and position.sent == page.entries[-1].sequence:
            progress.leave(chat)  # nothing follows: no typing and no receipts either

    def _send_next(self, position: Position, sequence: int, frame: bytes) -> bool:
        """Send an entry if it is next and there is room."""
        progress = self._connection.progress
        if sequence != position.sent + 1 or progress.room <= 0 or not self._is_open():
            return False
        self._connection.send(frame)
        progress.sent(position, sequence)
        return True

    def _leave(self, chat: ChatId, position: Position) -> None:
        if self._connection.progress.get(chat) is position:
            self._connection.progress.leave(chat)
            self._connection.send(encode(GoneFrame(chat)))
        position.sent = position.head

    async def _wait_for_room(self) -> None:
        while self._connection.progress.room <= 0:
            if self._stalled_at is None:
                self._stalled_at = self._connection.now()
            self._has_room = asyncio.Event()
            await self._has_room.wait()
        self._has_room = None
