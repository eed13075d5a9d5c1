# SPDX-License-Identifier: Apache-2.0
"""Mirrors in the owner of the connections that fronts hold.

The parts of the server that send frames or close connections use a mirror like a connection of
their own process. What was sent on a connection, and what may be sent next, only its front knows.
"""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any

from tidings.fronts.link import FrontLink, LinkLost
from tidings.fronts.messages import (
    Answered,
    Blocked,
    CloseSocket,
    HintFrame,
    NoticeFrame,
    Opened,
    Perform,
    SendToSocket,
)
from tidings.fronts.questions import DRAINED
from tidings.gateway.answer_frames import refusal_frame, sent_frame
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import Conversation, State
from tidings.gateway.writing import WritingRequests
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal, TooManyWaiting
from tidings.tasks import Tasks
from tidings.wire.codes import Close
from tidings.wire.frames import SendFrame


def mirrored_conversation(opened: Opened, now: int) -> Conversation:
    """Return the part of a conversation that the owner needs; its front has the whole."""
    conversation = Conversation(now)
    conversation.state = State.OPEN
    conversation.caller, conversation.user = opened.caller, opened.caller.user
    conversation.device, conversation.client = opened.device, opened.client
    conversation.connection = opened.connection
    conversation.is_away = opened.is_away
    conversation.has_totals = opened.has_totals
    return conversation


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
        self.conversation = mirrored_conversation(opened, self.now())
        self._requests: WritingRequests | None = None
        self._followed: set[ChatId]
        """Chats in which the client has written and which the connection follows. The set is made
        with the requests, because most connections only listen."""
        self._tasks: Tasks | None = None
        self._unchecked: list[Perform] | None = []
        """Frames that wait until the token of the connection was checked; None once it was."""

    def now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    # Requests.

    def carry_out(self, perform: Perform) -> None:
        """Carry out a frame that the front has read, unless the connection is being closed."""
        if self.conversation.state is not State.OPEN:
            return
        if self._unchecked is not None:
            self._keep(perform, self._unchecked)
            return
        if self._requests is None:
            self._followed = set()
            self._requests = WritingRequests(self._context, self, self._followed)
        frame, chat = perform.frame, ChatId(perform.frame.chat)
        if perform.follows:
            self._followed.add(chat)
        else:
            self._followed.discard(chat)
        if isinstance(frame, SendFrame):
            self._requests.send(frame)
        else:
            self._requests.show_typing(chat)

    def _keep(self, perform: Perform, unchecked: list[Perform]) -> None:
        """Keep a frame until the token was checked.

        Until then this process may not know that the token is revoked, or that the user is banned.
        """
        if len(unchecked) < limits.CONNECTION_REQUESTS_MAX:
            unchecked.append(perform)
        elif isinstance(perform.frame, SendFrame):
            self.refuse(TooManyWaiting(), perform.frame.id)

    def checked(self) -> None:
        """Carry out what has waited, because the token of the connection is valid."""
        unchecked, self._unchecked = self._unchecked or [], None
        for perform in unchecked:
            self.carry_out(perform)

    def confirm(self, request: str, entry: Entry) -> None:
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

    def hint(self, frame: bytes) -> None:
        self._link.send(HintFrame(self.socket, frame))

    def set_blocked(self, users: Collection[str]) -> None:
        self._link.send(Blocked(self.socket, list(users)))

    async def drained(self) -> None:
        try:
            await self._link.ask(DRAINED, self.socket)
        except LinkLost:
            self.ended()

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        if self.conversation.state is State.OPEN:
            self.conversation.state = State.CLOSED
            self._link.send(CloseSocket(self.socket, code, retry_after_ms))


_conforms: type[ClientConnection] = ConnectionMirror
