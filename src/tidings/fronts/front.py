# SPDX-License-Identifier: Apache-2.0
"""A front: holds sockets that the owner passes to it, and carries out what the owner sends."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from tidings.fronts import questions
from tidings.fronts.forwarding import FrontConnection
from tidings.fronts.link import FrontLink, read_first
from tidings.fronts.messages import (
    Answered,
    Blocked,
    CloseSocket,
    CompareHeads,
    Deliver,
    Held,
    HeldSocket,
    HintFrame,
    LinkQuestion,
    NoticeFrame,
    NotificationHanded,
    OwnerMessage,
    OwnerWelcome,
    PassedSocket,
    Saw,
    SendToSocket,
    SocketClosed,
    WentBlind,
)
from tidings.fronts.passing import receive_socket, serve_socket
from tidings.fronts.questions import Answering, answer_to, answering
from tidings.fronts.remote import AWAY_SECONDS_MAX, RemoteOwner
from tidings.gateway.closing import drain
from tidings.gateway.connection import CLOSE_SECONDS_MAX, Connection
from tidings.gateway.context import GatewayContext
from tidings.gateway.http.connection_limits import ConnectionClass, Slot
from tidings.gateway.http.handshake import make_socket_protocol
from tidings.gateway.looking import ConnectedDevices
from tidings.gateway.registration import HeadReconciler
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.tasks import Tasks
from tidings.wire.codes import Close

log = logging.getLogger("tidings.fronts")

PASSED_AT_ONCE: Final = 64
ASKED_AT_ONCE: Final = 64

GatewayAnswers = Mapping[str, Callable[[bytes], bytes]]
"""What a gateway answers about its memory, by subject."""

_decode = msgspec.msgpack.Decoder(OwnerMessage).decode
_decode_welcome = msgspec.msgpack.Decoder(OwnerWelcome).decode


async def epoch_of(stream: socket.socket) -> str | None:
    """Return the epoch of the owner at the other end; None if it has ended already."""
    first = await read_first(stream)
    return None if first is None else _decode_welcome(first).epoch


class _FrontSlot(Slot):
    """A socket of this front."""

    __slots__ = ("held",)

    def __init__(self, held: HeldSocket) -> None:
        super().__init__(ConnectionClass.SOCKET, held.slot_address)
        self.held = held


class Front:
    """The sockets of this process, and its link to the owner, whichever process that is."""

    def __init__(
        self,
        context: GatewayContext,
        owner: RemoteOwner,
        reconciler: HeadReconciler,
        gateway_answers: GatewayAnswers,
        metrics: Callable[[], bytes],
    ) -> None:
        self._context = context
        self._owner = owner
        self._reconciler = reconciler
        self._gateway_answers = gateway_answers
        self._held: dict[int, _FrontSlot] = {}
        """All sockets of this front, by number."""
        self._connections: dict[int, FrontConnection] = {}
        self._channel: socket.socket | None = None
        self._link: FrontLink | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._looking = ConnectedDevices(context.hub)
        self._tasks = Tasks("front")
        self._answers = self._make_answers(metrics)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the front must end, and another one must replace it."""

    def _make_answers(self, metrics: Callable[[], bytes]) -> Answering:
        return answering(
            (questions.IDLE, self._idle),
            (questions.DRAINED, self._drained),
            (questions.REACHED, self._reached),
            (questions.SHUT, self._shut),
            (questions.METRICS, metrics),
            (questions.GATEWAY, self._ask_gateway),
        )

    # The link.

    async def join(self, epoch: str, stream: socket.socket, channel: socket.socket) -> None:
        """Use these sockets to an owner that has just started, and whose store has this epoch."""
        self._leave_channel()
        if epoch != self._context.epoch:
            self._end()  # the store was restored: clients must start over
            return
        channel.setblocking(False)
        link = FrontLink(_decode, lambda message: self._take(message, link), self._lost)
        self._link, self._channel = link, channel
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: link, sock=stream)
        self._tell(link, channel)

    def _lost(self, link: FrontLink) -> None:
        if link is not self._link:
            return
        self._link = None
        self._owner.detach()
        self._leave_channel()
        loop = asyncio.get_running_loop()
        self._giving_up = loop.call_later(AWAY_SECONDS_MAX, self._give_up)

    def _leave_channel(self) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None

    def _give_up(self) -> None:
        """Close all connections, because no owner has come for too long; then end.

        If the owner runs on, and has only given up this front, a new front gets a new link.
        """
        log.warning("no owner", extra={"action": "owner_missing", "count": len(self._held)})
        for connection in self._context.hub:
            connection.close(Close.RESTARTING)
        loop = asyncio.get_running_loop()
        self._giving_up = loop.call_later(CLOSE_SECONDS_MAX, self._end)

    def _tell(self, link: FrontLink, channel: socket.socket) -> None:
        """Tell a new owner what this front holds; then repeat what is not answered."""
        if self._giving_up is not None:
            self._giving_up.cancel()
        open_connections = [
            (connection, opened)
            for connection in self._connections.values()
            if (opened := connection.opened()) is not None
        ]
        held = [slot.held for slot in self._held.values()]
        link.send(Held(held, len(open_connections)))
        asyncio.get_running_loop().add_reader(channel, self._receive_sockets)
        for _, opened in open_connections:
            link.send(opened)
        self._owner.attach(link)
        for connection, _ in open_connections:
            connection.resume()
        self._tasks.start(self._tell_missed([connection for connection, _ in open_connections]))
        self._reconciler.request(is_thorough=True)

    async def _tell_missed(self, connections: list[FrontConnection]) -> None:
        """Apply changes that the last owner stored, but died before it told this front of them."""
        for first in range(0, len(connections), ASKED_AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for connection in connections[first : first + ASKED_AT_ONCE]:
                    group.create_task(self._tell_missed_by(connection))

    async def _tell_missed_by(self, connection: FrontConnection) -> None:
        try:
            await connection.reload_blocked()
            if connection.erasures is not None:
                asked = connection.socket, connection.erasures, self._context.epoch
                await self._owner.ask(questions.TELL_ERASURES, *asked)
        except Refusal:
            connection.close(Close.OVERLOADED)

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    async def close(self) -> None:
        """End the link, and what runs."""
        await self._tasks.close()
        self._leave_channel()
        if self._link is not None:
            self._link.close()

    # Sockets.

    def _receive_sockets(self) -> None:
        for _ in range(PASSED_AT_ONCE):
            if self._channel is None:
                return
            try:
                received = receive_socket(self._channel)
            except (OSError, EOFError):
                asyncio.get_running_loop().remove_reader(self._channel)
                return
            if received is None:
                return
            self._tasks.start(self._serve(*received))

    async def _serve(self, connection: socket.socket, passed: PassedSocket) -> None:
        held = passed.held
        slot = self._held[held.socket] = _FrontSlot(held)

        def admit(_request: object) -> Connection:
            made = FrontConnection(self._context, self._owner, held.socket, held.address)
            self._connections[held.socket] = made
            return made

        try:
            await serve_socket(connection, make_socket_protocol(admit, self, slot), passed.start)
        except OSError:
            connection.close()
            self.leave(slot)

    def leave(self, slot: Slot) -> None:
        """Forget a socket that has ended."""
        assert isinstance(slot, _FrontSlot)
        number = slot.held.socket
        if self._held.pop(number, None) is not None:
            self._connections.pop(number, None)
            self._owner.send(SocketClosed(number))

    # What the owner sends.

    def _take(self, message: Any, link: FrontLink) -> None:  # noqa: ANN401 - an `OwnerMessage`
        match message:
            case Deliver():
                self._deliver(message)
            case Answered(number) | SendToSocket(number):
                if (connection := self._connections.get(number)) is not None:
                    connection.take(message)
            case NoticeFrame(number, chat, frame):
                if (connection := self._connections.get(number)) is not None:
                    connection.notice(chat, frame)
            case LinkQuestion():
                self._tasks.start(self._answer(message, link))
            case Saw(at):
                self._context.write_lease.renew_feed(at)
                self._context.write_lease.is_blind = False
            case Blocked(number, users):
                if (connection := self._connections.get(number)) is not None:
                    connection.set_blocked(frozenset(users))
            case CloseSocket(number, code, retry_after_ms):
                if (connection := self._connections.get(number)) is not None:
                    connection.close(code, retry_after_ms)
            case _:
                self._take_rare(message)

    def _take_rare(self, message: object) -> None:
        match message:
            case WentBlind():
                self._context.write_lease.is_blind = True
            case CompareHeads():
                self._reconciler.request(is_thorough=True)
            case NotificationHanded(notification):
                self._context.journal.handed_notification(notification)
            case HintFrame(number, frame):
                if (connection := self._connections.get(number)) is not None:
                    connection.hint(frame)
            case _:
                raise AssertionError(f"{message} comes first, or is taken by the link")

    def _deliver(self, deliver: Deliver) -> None:
        entry, connections_of = deliver.entry, self._context.hub.by_user.get
        self._context.journal.handed(entry.chat_id, entry.sequence)
        frame, is_small = entry.frame, entry.is_small
        for user in deliver.users:
            for connection in connections_of(user, ()):
                connection.deliver(entry, frame, is_small=is_small)

    async def _answer(self, ask: LinkQuestion, link: FrontLink) -> None:
        # The next owner may have asked something else under the same number meanwhile.
        link.send(await answer_to(ask, self._answers))

    # What the owner asks.

    def _own(self, user: UserKey) -> Iterable[FrontConnection]:
        for connection in self._context.hub.of(user):
            assert isinstance(connection, FrontConnection)
            yield connection

    def _idle(self, user: UserKey, device: str) -> list[tuple[int, int]]:
        return [
            (connection.socket, connection.conversation.used_at)
            for connection in self._own(user)
            if connection.conversation.device == device
            and connection.conversation.is_idle(connection.now())
        ]

    async def _drained(self, number: int) -> None:
        if (connection := self._connections.get(number)) is not None:
            await connection.drained()

    def _reached(self, user: UserKey, chat: ChatId, is_small: bool) -> int:
        return self._looking.reached(user, chat, is_small=is_small)

    async def _shut(self, seconds: float) -> None:
        await drain(self._context.hub, seconds, self._context.jitter_ms)

    def _ask_gateway(self, subject: str, asked: bytes) -> bytes:
        return self._gateway_answers[subject](asked)
