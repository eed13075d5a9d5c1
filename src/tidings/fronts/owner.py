# SPDX-License-Identifier: Apache-2.0
"""All fronts of an owner: spreads sockets over them, delivers entries to them, and asks them."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from tidings.actions.identity.caller import UserCaller
from tidings.delivery.dispatch import encoded
from tidings.delivery.local_delivery import concerned
from tidings.fronts.link import FrontLink, LinkLost
from tidings.fronts.messages import (
    Deliver,
    HeldSocket,
    NotificationHanded,
    Opened,
    OwnerWelcome,
)
from tidings.fronts.mirrors import ConnectionMirror
from tidings.fronts.peers import FrontPeer, close_descriptor
from tidings.fronts.questions import GATEWAY, IDLE, METRICS, REACHED, SHUT, Answering, QuestionKind
from tidings.gateway.context import Admission, GatewayContext
from tidings.gateway.conversation import State
from tidings.gateway.http.connection_limits import ConnectionLimits, Slot
from tidings.gateway.hub import TICK_SECONDS, ConnectionsByUser
from tidings.model.chats import ChatState, Move
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.ports.delivery import ConnectionAddress, GatewayQuestions
from tidings.ports.processes import ProcessState
from tidings.ports.push import LookingDevices
from tidings.tasks import Tasks
from tidings.wire.codes import Close

log = logging.getLogger("tidings.fronts")

T = TypeVar("T")

ANSWER_SECONDS_MAX: Final = 1.0
START_SECONDS_MAX: Final = 30.0
SHUT_SECONDS_MAX: Final = 10.0


class Fronts:
    """The fronts that have a link to this owner."""

    def __init__(self, epoch: str, count: int) -> None:
        """Set up the fronts; `count` is the number of them that a server has."""
        self.hub: ConnectionsByUser[ConnectionMirror] = ConnectionsByUser()
        """The connections of all fronts."""
        self._epoch = epoch
        self._count = count
        self._peers: dict[str, FrontPeer] = {}
        self._awaited: set[FrontPeer] = set()
        """Fronts that have a link, and have not said yet which sockets they hold."""
        self._context: GatewayContext
        self._admission: Admission
        self._limits: ConnectionLimits
        self._make_answers: Callable[[FrontPeer], Answering]
        self._is_valid: Callable[[UserCaller], Awaitable[bool]]
        self._is_open = asyncio.Event()
        self._changed = asyncio.Event()
        self._saw_at: float | None = None
        """Time up to which revocations were read; None if they cannot be read now."""
        self._ended_metrics: list[bytes] = []
        self._tasks = Tasks("fronts")

    def serve(
        self,
        context: GatewayContext,
        admission: Admission,
        make_answers: Callable[[FrontPeer], Answering],
        is_valid: Callable[[UserCaller], Awaitable[bool]],
    ) -> None:
        """Use these parts of the server for all fronts, before the first one comes."""
        self._context, self._admission = context, admission
        self._make_answers, self._is_valid = make_answers, is_valid
        self._tasks.repeat(self._tick)

    async def _tick(self) -> None:
        await asyncio.sleep(TICK_SECONDS)
        for peer in self._linked:
            peer.tick()

    @property
    def _linked(self) -> list[FrontPeer]:
        return [*self._peers.values(), *self._awaited]

    def count_with(self, limits: ConnectionLimits) -> None:
        """Use these limits for the sockets that fronts hold already."""
        self._limits = limits

    def open(self) -> None:
        """Take in fronts from now on, because what they ask can be answered."""
        self._is_open.set()

    async def add(self, name: str, pid: int, stream: socket.socket, channel: socket.socket) -> None:
        """Take in the front with this process id, which has the other ends of these sockets, as
        soon as fronts may come."""
        await self._is_open.wait()
        channel.setblocking(False)
        peer = FrontPeer(name, pid, channel, self)
        self._awaited.add(peer)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: peer.link, sock=stream)
        peer.link.send(OwnerWelcome(self._epoch))

    def came(self, peer: FrontPeer) -> None:
        self._peers[peer.name] = peer
        self._awaited.discard(peer)
        self._changed.set()
        if self._saw_at is not None:
            peer.saw(self._saw_at)

    def went(self, peer: FrontPeer) -> None:
        if peer.metrics is not None:
            self._ended_metrics.append(peer.metrics)
        self._awaited.discard(peer)
        if self._peers.get(peer.name) is peer:
            del self._peers[peer.name]

    async def complete(self) -> None:
        """Wait until all fronts have come, for a limited time."""
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                while len(self._peers) < self._count:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            about = {"action": "fronts_missing", "count": self._count - len(self._peers)}
            log.warning("serving before all fronts have come", extra=about)

    async def close(self) -> None:
        """End all links."""
        await self._tasks.close()
        for peer in self._linked:
            await peer.close()

    # Sockets.

    def pass_on(
        self,
        descriptor: int,
        start: bytes,
        address: str | None,
        limits: ConnectionLimits | None,
        slot: Slot | None,
    ) -> None:
        """Pass an accepted socket to the front with the fewest sockets that takes it."""
        if slot is not None:
            slot.passed_on()
        leave = partial(self._left, address, limits, slot)
        held = HeldSocket(0, slot.address if slot else None, address)
        by_load = sorted(self._peers.values(), key=lambda peer: peer.sockets)
        is_passed = descriptor >= 0 and any(
            peer.hold(descriptor, start, held, leave) for peer in by_load
        )
        close_descriptor(descriptor)
        if not is_passed:
            leave()

    def _left(
        self, address: str | None, limits: ConnectionLimits | None, slot: Slot | None
    ) -> None:
        self._admission.closed(address)
        if limits is not None and slot is not None:
            limits.leave(slot)

    def held(self, socket: HeldSocket) -> Callable[[], None]:
        self._admission.opened(socket.address)
        slot = self._limits.adopt(socket.slot_address)
        return partial(self._left, socket.address, self._limits, slot)

    # Connections.

    def opened(self, opened: Opened, link: FrontLink, address: str | None) -> ConnectionMirror:
        mirror = ConnectionMirror(self._context, link, opened, address)
        self.hub.opened(mirror)
        mirror.has_place = self.hub.enter(opened.caller.user, mirror)
        return mirror

    def closed(self, mirror: ConnectionMirror) -> None:
        self.hub.closed(mirror, mirror.conversation.user)

    async def is_valid(self, caller: UserCaller) -> bool:
        return await self._is_valid(caller)

    def moved(self, move: Move, interval_ms: int) -> None:
        self._context.receipts.note(move, interval_ms)

    def answers(self, peer: FrontPeer) -> Answering:
        return self._make_answers(peer)

    async def has_place(self, mirror: ConnectionMirror) -> bool:
        """Return True if a connection is within the limit of its user.

        If it is not, another connection of the same device is closed that was unused for the
        longest time, at whichever front.
        """
        if not mirror.has_place:
            mirror.has_place = await self._make_place(mirror)
        return mirror.has_place

    async def _make_place(self, mirror: ConnectionMirror) -> bool:
        user, caller = mirror.conversation.user, mirror.conversation.caller
        assert user is not None and caller is not None, "a mirror is made for an identified user"
        asked = await self._ask(self._with(user), IDLE, user, mirror.conversation.device)
        # Without a place, revocations do not find the connection: the token is checked again.
        # Nothing is awaited after the check, or the connection might close meanwhile.
        if not await self._is_valid(caller):
            mirror.close(Close.NOT_AUTHENTICATED)
        if mirror.conversation.state is not State.OPEN:
            return False
        if mirror.has_place:
            return True  # somebody else has asked meanwhile
        idle = sorted((used, name, one) for name, found in asked.items() for one, used in found)
        for _, name, one in idle:
            peer = self._peers.get(name)
            other = peer.connections.get(one) if peer is not None else None
            if other is not None and other is not mirror and other.has_place:
                other.close(Close.TOO_MANY_CONNECTIONS)
                other.has_place = False
                self.hub.give_up(user, other)
                break
        return self.hub.enter(user, mirror)

    # Delivery.

    def deliver(self, entry: Entry, state: ChatState) -> None:
        """Send an entry to each front that has connections of its users."""
        users, encoded_entry = concerned(entry, state), None
        for peer in self._peers.values():
            present = [user for user in users if user in peer.users]
            if present:
                encoded_entry = encoded_entry or encoded(entry, is_small=state.is_small)
                peer.deliver(Deliver(encoded_entry, present))

    def handed_notification(self, notification: str) -> None:
        """Record in the journals of all fronts that a notification was sent to connections."""
        for peer in self._peers.values():
            peer.link.send(NotificationHanded(notification))

    def saw(self, at: float) -> None:
        """Let the fronts write to their sockets for some more seconds."""
        self._saw_at = at
        for peer in self._peers.values():
            peer.saw(at)

    def went_blind(self, *, was_late: bool) -> None:
        """Let the fronts accept nothing, because revocations cannot be read."""
        self._saw_at = None
        for peer in self._peers.values():
            peer.went_blind()

    async def shut(self, seconds: float) -> None:
        """Close all connections of all fronts, spread over this many seconds."""
        await self._ask(self._peers, SHUT, seconds, most=seconds + SHUT_SECONDS_MAX)

    # Questions.

    async def _ask(
        self,
        names: Iterable[str],
        question: QuestionKind[T],
        *arguments: object,
        most: float | None = None,
    ) -> dict[str, T]:
        """Ask fronts; return the answers of those that answer in time."""
        answers: dict[str, T] = {}

        async def ask(name: str, peer: FrontPeer) -> None:
            with suppress(LinkLost, TimeoutError):
                async with asyncio.timeout(most or ANSWER_SECONDS_MAX):
                    answers[name] = await peer.link.ask(question, *arguments)

        async with asyncio.TaskGroup() as group:
            for name in list(names):
                if (peer := self._peers.get(name)) is not None:
                    group.create_task(ask(name, peer))
        return answers

    def _with(self, user: UserKey) -> list[str]:
        """Return the fronts that have connections of a user."""
        return [name for name, peer in self._peers.items() if user in peer.users]

    async def metrics(self) -> tuple[list[bytes], list[bytes]]:
        """Return the metrics of all fronts, and of those that have ended since the last call.

        A front that does not answer in time has the values of its last answer.
        """
        asked = dict(self._peers)
        for name, measured in (await self._ask(asked, METRICS)).items():
            asked[name].metrics = measured
        ended, self._ended_metrics = self._ended_metrics, []
        known = [peer.metrics for peer in self._peers.values() if peer.metrics is not None]
        return known, ended

    async def ask(
        self, subject: str, asked: bytes, gateways: Collection[str] | None = None
    ) -> Mapping[str, bytes]:
        """Ask fronts what they have in memory, as `GatewayQuestions` says."""
        return await self._ask(
            self._peers if gateways is None else gateways, GATEWAY, subject, asked
        )

    async def find(self, users: Iterable[UserKey]) -> Mapping[UserKey, list[ConnectionAddress]]:
        """Return the connections of users at all fronts."""
        return {
            user: [ConnectionAddress(name, "") for name in names]
            for user in users
            if (names := self._with(user))
        }

    def states(self) -> Sequence[ProcessState]:
        """Return the last reported state of each front."""
        return [peer.state for peer in self._peers.values() if peer.state is not None]

    # Push.

    def is_looking(self, user: UserKey) -> bool:
        return any(
            connection.conversation.state is State.OPEN and not connection.conversation.is_away
            for connection in self.hub.of(user)
        )

    def is_away(self, user: UserKey) -> bool:
        return any(connection.conversation.is_away for connection in self.hub.of(user))

    async def taken_up_to(self, user: UserKey, chat: ChatId, *, is_small: bool) -> int:
        found = await self._ask(self._with(user), REACHED, user, chat, is_small)
        return max(found.values(), default=0)


_conform: tuple[type[GatewayQuestions], type[LookingDevices]] = (Fronts, Fronts)
