# SPDX-License-Identifier: Apache-2.0
"""A connection of a front: sends entries itself, and leaves to the owner what changes a chat."""

from typing import Final

import msgspec

from tidings.actions.chat.sending import check_draft
from tidings.fronts.messages import Answered, AwayChanged, Opened, Perform, Renewed, SendToSocket
from tidings.fronts.remote import RemoteOwner
from tidings.gateway.connection import Connection
from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.requests import Requests
from tidings.model import limits
from tidings.model.chats import Move
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal, TooManyWaiting
from tidings.wire.frames import Away, ClientFrame, SendFrame, TypingFrame

REPEATED_MS: Final = 30_000
"""Age up to which a read mark is repeated. An owner stores it within seconds, and another one comes
within ten."""
_ERASED: Final = b'{"op":"erased"'


class _ErasedFrame(msgspec.Struct):
    """The field of an `erased` frame with which a device continues."""

    n: int


_decode_erased = msgspec.json.Decoder(_ErasedFrame).decode


class ForwardingRequests(Requests):
    """Passes messages and typing on to the owner, and carries out everything else itself."""

    def __init__(
        self, context: GatewayContext, connection: "FrontConnection", owner: RemoteOwner
    ) -> None:
        super().__init__(context, connection)
        self._owner = owner
        self._socket = connection.socket
        self._sends: list[SendFrame] = []
        """Messages that the owner has not answered, in their order."""
        self._reads: dict[ChatId, Move] = {}
        """The last read mark of each chat that the client has read lately, the oldest first."""

    def perform(self, frame: ClientFrame) -> None:
        super().perform(frame)
        if isinstance(frame, Away):
            self._owner.send(AwayChanged(self._socket, frame.away))

    def send(self, frame: SendFrame) -> None:
        if self._waiting + len(self._sends) >= limits.CONNECTION_REQUESTS_MAX:
            self._connection.refuse(TooManyWaiting(), frame.id)
            return
        try:
            check_draft(
                frame.client_message_id,
                frame.content,
                frame.content_type,
                frame.ttl_seconds,
                frame.options,
            )
        except Refusal as refusal:
            # The owner would refuse it too. While there is none, long frames would fill the memory.
            self._connection.refuse(refusal, frame.id)
            return
        self._sends.append(frame)
        self._forward(frame)

    def _forward(self, frame: SendFrame | TypingFrame) -> None:
        follows = ChatId(frame.chat) in self._followed
        self._owner.send(Perform(self._socket, follows, frame))

    def _note_read(self, move: Move, interval_ms: int) -> None:
        super()._note_read(move, interval_ms)
        earlier = self._reads.pop(move.chat, move)
        self._reads[move.chat] = max(earlier, move, key=lambda one: one.read)
        oldest = next(iter(self._reads.values()))
        if oldest.at <= move.at - REPEATED_MS:
            del self._reads[oldest.chat]

    def show_typing(self, chat: ChatId) -> None:
        if self._has_typed_lately(chat):
            return
        if chat in self._followed:
            # A client may name chats that do not exist, and those are not kept here.
            self._typed_at[chat] = self._connection.now()
        self._forward(TypingFrame(chat))

    async def _renew(self, token: str) -> None:
        await super()._renew(token)
        conversation = self._connection.conversation
        if conversation.state is State.OPEN and conversation.caller is not None:
            self._owner.send(Renewed(self._socket, conversation.caller))

    def answered(self, request: str) -> bool:
        """Note that an owner has answered a message; return False if another one did before."""
        for place, frame in enumerate(self._sends):
            if frame.id == request:
                del self._sends[place]
                return True
        return False

    def repeat(self) -> None:
        """Pass on again what no owner has answered.

        A message that was stored before is not stored twice: its `client_message_id` is known.
        """
        for frame in self._sends:
            self._forward(frame)

    def repeat_reads(self, now: int) -> None:
        """Pass on again the read marks of the last seconds, which no owner may have stored.

        Clients repeat them only on a new connection.
        """
        for move in self._reads.values():
            if move.at > now - REPEATED_MS:
                self._context.receipts.note(move)


class FrontConnection(Connection):
    """A client's WebSocket at a front."""

    requests: ForwardingRequests

    def __init__(
        self, context: GatewayContext, owner: RemoteOwner, socket: int, address: str | None
    ) -> None:
        self.socket = socket
        """Number by which the owner names the socket."""
        self.erasures: int | None = None
        """Position of the last erasure that the device was sent; None if it gets none."""
        self._owner = owner
        super().__init__(context, None, address)
        self.requests = ForwardingRequests(context, self, owner)

    def opened(self) -> Opened | None:
        """Return the message that makes this connection known; None before hello."""
        told = self.conversation
        if told.state is not State.OPEN or told.caller is None or not told.connection:
            return None
        assert told.device is not None, "a connection is open after its device was chosen"
        return Opened(
            self.socket,
            told.caller,
            told.device,
            told.connection,
            told.client,
            told.is_away,
            told.has_totals,
        )

    def take(self, message: SendToSocket | Answered) -> None:
        """Send a frame of the owner, and note what it says."""
        if isinstance(message, Answered) and message.request:
            self._take_answer(message)
            return
        self.send(message.frame)
        if message.frame.startswith(_ERASED):
            self.erasures = _decode_erased(message.frame).n

    def _take_answer(self, answer: Answered) -> None:
        # The answer of an owner that has died may be handled after the message was repeated.
        if self.requests.answered(answer.request):
            self.send(answer.frame)
        if answer.chat is not None:
            self.progress.sent_own(answer.chat, answer.sequence)

    def resume(self) -> None:
        """Repeat to a new owner what the last one may not have stored."""
        user = self.conversation.user
        if user is not None:
            now = self._context.clock.now()
            for chat, received in self.progress.confirmed():
                self._context.receipts.note(Move(user, chat, received, 0, now))
            self.requests.repeat_reads(now)
        self.requests.repeat()

    async def reload_blocked(self) -> None:
        """Ask the owner whom the user blocks, unless the owner tells of a change meanwhile.

        Raises:
            Refusal: The owner cannot tell.
        """
        user, before = self.conversation.user, self.conversation.blocked
        if user is None:
            return
        found = await self._context.blocked_of(user)
        if self.conversation.blocked is before:
            self.set_blocked(found)
