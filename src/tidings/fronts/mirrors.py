# SPDX-License-Identifier: Apache-2.0
"""Mirrors in the owner of the connections that fronts hold.

The parts of the server that send frames, close connections or carry out requests use a mirror
like a connection of their own process. What was sent on a connection, and what may be sent next,
only its front knows.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final

from tidings.fronts.link import FrontLink, LinkLost
from tidings.fronts.messages import (
    Answered,
    Blocked,
    CloseSocket,
    NoticeFrame,
    Opened,
    Perform,
    SendToSocket,
)
from tidings.fronts.questions import DRAINED
from tidings.gateway.connection import refusal_frame
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import Conversation, State
from tidings.gateway.hub import ClientConnection, Hub
from tidings.gateway.progress import DeliveryProgress, Offer, Position
from tidings.gateway.requests import Requests, sent_frame
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal
from tidings.tasks import Tasks
from tidings.wire.codes import Close
from tidings.wire.frames import ClientFrame


class MirrorHub(Hub):
    """The connections of all fronts. Their fronts measure them, and check their deadlines."""

    def __init__(self) -> None:
        super().__init__(is_measured=False)

    def opened(self, connection: ClientConnection) -> None:
        self._all.add(connection)


class MirrorConversation(Conversation):
    """The part of a conversation that the owner needs; its front has the whole."""

    def __init__(self, opened: Opened, link: FrontLink, now: int) -> None:
        self._link = link
        self._socket = opened.socket
        self._blocked: Collection[str] = ()
        super().__init__(now)
        self.state = State.OPEN
        self.user, self.device, self.caller = opened.caller.user, opened.device, opened.caller
        self.connection, self.client = opened.connection, opened.client
        self.is_away = opened.is_away

    @property
    def blocked(self) -> Collection[str]:
        """Ids of the users whom the user blocks; a change is passed on to the front."""
        return self._blocked

    @blocked.setter
    def blocked(self, users: Collection[str]) -> None:
        if users != self._blocked:
            self._blocked = users
            self._link.send(Blocked(self._socket, list(users)))


class MirrorProgress(DeliveryProgress):
    """Knows of the entries of a connection only whether it follows the chat of a request."""

    def __init__(self) -> None:
        super().__init__()
        self.follows = False

    def get(self, chat: ChatId) -> Position | None:
        return _FOLLOWED if self.follows else None


_FOLLOWED: Final = Position(0, 0, is_small=True)


class MirrorRequests(Requests):
    """Carries out the requests of a connection, and sends the front the answers."""

    def __init__(self, context: GatewayContext, connection: "ConnectionMirror") -> None:
        super().__init__(context, connection)
        self._mirror = connection

    def _confirm_sent(self, request: str, sent: Entry) -> None:
        self._mirror.confirm(request, sent)


class ConnectionMirror:
    """Stands in the owner for one connection of a front."""

    def __init__(
        self, context: GatewayContext, link: FrontLink, opened: Opened, address: str | None
    ) -> None:
        self._context = context
        self._link = link
        self.socket = opened.socket
        self.address = address
        self.has_place = False
        """Whether the hub counts the connection under its user."""
        self.conversation = MirrorConversation(opened, link, self.now())
        self.progress: DeliveryProgress = _NO_PROGRESS
        self._requests: Requests | None = None
        self._tasks: Tasks | None = None

    @property
    def pending_bytes(self) -> int:
        """Zero, because the front has the bytes that wait."""
        return 0

    def now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    # Requests.

    def carry_out(self, perform: Perform) -> None:
        """Carry out a frame that the front has read, unless the connection is being closed."""
        if self.conversation.state is not State.OPEN:
            return
        if self._requests is None:
            # Most connections only listen. They need neither requests nor progress.
            self.progress, self._requests = MirrorProgress(), MirrorRequests(self._context, self)
        assert isinstance(self.progress, MirrorProgress)
        self.progress.follows = perform.follows
        self._requests.perform(perform.frame)

    def confirm(self, request: str, entry: Entry) -> None:
        """Send the client the answer to a message that was stored."""
        frame = sent_frame(request, entry)
        self._link.send(Answered(self.socket, request, frame, entry.chat_id, entry.sequence))

    def refuse(self, refusal: Refusal, request: str | None = None) -> None:
        frame = refusal_frame(self._context, self.conversation, refusal, request)
        self._link.send(Answered(self.socket, request or "", frame))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            self._tasks = Tasks("connection")
        self._tasks.start(work)

    def ended(self) -> None:
        """Cancel what runs for the connection, which is closed."""
        self.conversation.state = State.CLOSED
        if self._tasks is not None:
            self._tasks.cancel()

    # Frames.

    def send(self, frame: bytes) -> None:
        self._link.send(SendToSocket(self.socket, frame))

    def notice(self, chat: ChatId, frame: bytes) -> None:
        self._link.send(NoticeFrame(self.socket, chat, frame))

    async def drained(self) -> None:
        try:
            await self._link.ask(DRAINED, self.socket)
        except LinkLost:
            self.ended()

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        if self.conversation.state is State.OPEN:
            self.conversation.state = State.CLOSED
            self._link.send(CloseSocket(self.socket, code, retry_after_ms))

    # What only the front can do.

    def deliver(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        raise NotImplementedError("entries are delivered to fronts")

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        raise NotImplementedError("fronts compare heads")

    async def follow(self, chat: ChatId, after: int | None) -> None:
        raise NotImplementedError("fronts follow chats")

    def wake(self) -> None:
        raise NotImplementedError("fronts read from the log")

    def perform(self, frame: ClientFrame) -> None:
        raise NotImplementedError("fronts carry out frames that came early")

    def watch_frames(self, saw: Callable[[bytes], None]) -> None:
        raise NotImplementedError("fronts see the frames")

    def tick(self) -> None:
        raise NotImplementedError("fronts check deadlines")


_NO_PROGRESS: Final = DeliveryProgress()
_conforms: type[ClientConnection] = ConnectionMirror
