# SPDX-License-Identifier: Apache-2.0
"""The owner's view of one front: its sockets, its connections and users, and what it is sent."""

import itertools
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, assert_never

import msgspec

from tidings.actions.identity.caller import UserCaller
from tidings.fronts.link import FrontLink
from tidings.fronts.messages import (
    AwayChanged,
    CompareHeads,
    Deliver,
    FrontMessage,
    Held,
    HeldSocket,
    LinkAnswer,
    LinkQuestion,
    Moved,
    Noted,
    Opened,
    PassedSocket,
    Perform,
    Renewed,
    Saw,
    SocketClosed,
    WentBlind,
)
from tidings.fronts.mirrors import ConnectionMirror
from tidings.fronts.passing import send_socket
from tidings.fronts.questions import Answering, answer_to
from tidings.gateway.conversation import State
from tidings.model import limits
from tidings.model.chats import Move
from tidings.model.ids import UserKey
from tidings.model.refusals import Unavailable
from tidings.ports.processes import ProcessState
from tidings.ports.store import set_requester, unknown_requester
from tidings.tasks import Tasks
from tidings.wire.codes import Close

log = logging.getLogger("tidings.fronts")

ENTRIES_BYTES_MAX: Final = 32 * 1024 * limits.KIB
"""Bytes that may wait for a front. Beyond them it gets no entries, and compares heads later."""
SILENT_SECONDS_MAX: Final = 15
"""How long a front may be silent. It reports its state every five seconds, unless it hangs."""

_decode = msgspec.msgpack.Decoder(FrontMessage).decode
_decode_state = msgspec.msgpack.Decoder(ProcessState).decode


class Reception(Protocol):
    """What a front's messages need of the rest of the owner."""

    def came(self, peer: "FrontPeer") -> None:
        """Take in a front, which has said which sockets it holds."""
        ...

    def went(self, peer: "FrontPeer") -> None:
        """Forget a front whose link has ended."""
        ...

    def opened(self, opened: Opened, link: FrontLink, address: str | None) -> ConnectionMirror:
        """Return a mirror for a new connection, which has a place if its user may have it."""
        ...

    def closed(self, mirror: ConnectionMirror) -> None:
        """Forget a closed connection."""
        ...

    def held(self, socket: HeldSocket) -> Callable[[], None]:
        """Count a socket that a front already held; return what stops counting it."""
        ...

    async def has_place(self, mirror: ConnectionMirror) -> bool:
        """Return True if a connection is within the limit of its user."""
        ...

    async def is_valid(self, caller: UserCaller) -> bool:
        """Ask the store whether a token is still valid."""
        ...

    def moved(self, move: Move, interval_ms: int) -> None:
        """Store a receipt within an interval."""
        ...

    def answers(self, peer: "FrontPeer") -> Answering:
        """Return the answers to the questions of a front."""
        ...


class FrontPeer:
    """One front, as long as its link lasts."""

    def __init__(
        self,
        name: str,
        pid: int,
        channel: socket.socket,
        reception: Reception,
    ) -> None:
        """Set up the view of the front with this process id; `channel` takes the descriptors of
        sockets for it."""
        self.name = name
        self.pid = pid
        self.state: ProcessState | None = None
        self.metrics: bytes | None = None
        """The metrics of the front when it was last asked."""
        self.users: dict[UserKey, int] = {}
        """Users with the number of their connections at this front."""
        self.connections: dict[int, ConnectionMirror] = {}
        self._sockets: dict[int, Callable[[], None]] = {}
        """Sockets of the front, each with what stops counting it."""
        self._addresses: dict[int, str | None] = {}
        self._numbers = itertools.count(1)
        self._channel = channel
        self._reception = reception
        self._has_missed = False
        self._untold = 0
        """Number of connections of an earlier owner that the front has not told of yet."""
        self._unchecked = 0
        """Number of connections of an earlier owner whose tokens are not checked yet."""
        self._saw_at: float | None = None
        """What the front hears as `Saw` once all those tokens are checked; None if nothing."""
        self._silent_seconds = 0
        self._tasks = Tasks("front")
        self._answers = reception.answers(self)
        self.link = FrontLink(_decode, self._take, self._lost, self._drained)

    @property
    def sockets(self) -> int:
        """Number of sockets that the front holds."""
        return len(self._sockets)

    async def close(self) -> None:
        """End the link; the front ends too, or waits for another owner."""
        self._saw_at = None
        self.link.close()
        await self._tasks.close()

    # To the front.

    def hold(
        self, descriptor: int, start: bytes, held: HeldSocket, leave: Callable[[], None]
    ) -> bool:
        """Pass a socket to the front; return False if the front does not take it."""
        number = next(self._numbers)
        numbered = msgspec.structs.replace(held, socket=number)
        if not send_socket(self._channel, descriptor, PassedSocket(numbered, start)):
            return False
        self._sockets[number], self._addresses[number] = leave, held.address
        return True

    def deliver(self, deliver: Deliver) -> None:
        """Send the front an entry, unless too much waits for the front already."""
        if self.link.queued_bytes < ENTRIES_BYTES_MAX:
            self.link.send(deliver)
            return
        if not self._has_missed:
            about = {"action": "front_behind", "front": self.name}
            log.warning("a front does not keep up", extra=about)
        self._has_missed = True

    def saw(self, at: float) -> None:
        """Let the front write to its sockets for some more seconds, once it is certain which of its
        connections have to be closed."""
        if self._unchecked:
            self._saw_at = at
        else:
            self.link.send(Saw(at))

    def went_blind(self) -> None:
        """Let the front accept nothing, because revocations cannot be read."""
        self._saw_at = None
        self.link.send(WentBlind())

    def tick(self) -> None:
        """Kill a front that has been silent for too long; called once a second.

        Its clients would wait for ever. The supervisor starts another front. Ticks are counted, so
        that a pause of this process does not count as silence.
        """
        self._silent_seconds += 1
        if self._silent_seconds > SILENT_SECONDS_MAX:
            about = {"action": "front_killed", "front": self.name}
            log.error("a front says nothing any more", extra=about)
            self.link.abort()
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _drained(self) -> None:
        if self._has_missed:
            self._has_missed = False
            self.link.send(CompareHeads())

    # From the front.

    def _take(self, message: FrontMessage) -> None:
        self._silent_seconds = 0
        match message:
            case Perform(number):
                if (mirror := self.connections.get(number)) is not None:
                    mirror.carry_out(message)
            case Moved(move, interval_ms):
                self._reception.moved(move, interval_ms)
            case LinkQuestion():
                self._tasks.start(self._answer(message))
            case Opened():
                self._open(message)
            case SocketClosed(number):
                self._close(number)
            case Renewed(number, caller):
                self._renew(number, caller)
            case AwayChanged(number, is_away):
                if (mirror := self.connections.get(number)) is not None:
                    mirror.conversation.is_away = is_away
            case Noted(state):
                self.state = _decode_state(state)
            case Held():
                self._held(message)
            case LinkAnswer():
                raise AssertionError("the link takes answers")
            case _:
                assert_never(message)

    async def _answer(self, ask: LinkQuestion) -> None:
        self.link.send(await answer_to(ask, self._answers))

    def _held(self, held: Held) -> None:
        for one in held.sockets:
            self._sockets[one.socket] = self._reception.held(one)
            self._addresses[one.socket] = one.address
        self._numbers = itertools.count(1 + max((one.socket for one in held.sockets), default=0))
        self._untold = self._unchecked = held.connections
        self._reception.came(self)

    def _open(self, opened: Opened) -> None:
        # From here on, a revocation finds the connection. One that came before is found by asking.
        address = self._addresses.get(opened.socket)
        mirror = self._reception.opened(opened, self.link, address)
        self.connections[opened.socket] = mirror
        user = opened.caller.user
        self.users[user] = self.users.get(user, 0) + 1
        if self._untold:
            self._untold -= 1
            self._tasks.start(self._check_told(mirror, opened.caller))
        else:
            self._tasks.start(self._check(mirror, opened.caller))

    def _renew(self, number: int, caller: UserCaller) -> None:
        mirror = self.connections.get(number)
        if mirror is not None:
            mirror.conversation.caller = caller
            self._tasks.start(self._check(mirror, caller))

    async def _check_told(self, mirror: ConnectionMirror, caller: UserCaller) -> None:
        """Check the token of a connection of an earlier owner, and find a place for it.

        While the first fronts came, another connection of the user may have taken its place.
        """
        try:
            await self._check(mirror, caller)
            is_open = mirror.conversation.state is State.OPEN
            if is_open and not await self._reception.has_place(mirror):
                mirror.close(Close.TOO_MANY_CONNECTIONS)
        except Unavailable:
            mirror.close(Close.OVERLOADED)
        finally:
            self._unchecked -= 1
            if not self._unchecked and self._saw_at is not None:
                self.link.send(Saw(self._saw_at))

    async def _check(self, mirror: ConnectionMirror, caller: UserCaller) -> None:
        set_requester(unknown_requester(mirror.address))
        try:
            is_valid = await self._reception.is_valid(caller)
        except Unavailable:
            mirror.close(Close.OVERLOADED)
            return
        except Exception:
            # A connection whose token is never checked could only read.
            mirror.close(Close.OVERLOADED)
            raise
        if mirror.conversation.caller is not caller:
            return  # another token came meanwhile, and is checked too
        if is_valid:
            mirror.checked()
        else:
            mirror.close(Close.NOT_AUTHENTICATED)

    def _close(self, number: int) -> None:
        mirror = self.connections.pop(number, None)
        if mirror is not None:
            self._forget(mirror)
        self._addresses.pop(number, None)
        if (leave := self._sockets.pop(number, None)) is not None:
            leave()

    def _forget(self, mirror: ConnectionMirror) -> None:
        user = mirror.conversation.user
        assert user is not None, "a mirror is made for an identified user"
        left = self.users[user] - 1
        if left:
            self.users[user] = left
        else:
            del self.users[user]
        mirror.ended()
        self._reception.closed(mirror)

    def _lost(self, _link: FrontLink) -> None:
        """Forget everything about a front whose link has ended."""
        for number in list(self._sockets):
            self._close(number)
        for mirror in list(self.connections.values()):
            mirror.conversation.state = State.CLOSED
        self._channel.close()
        self._tasks.cancel()
        self._reception.went(self)


def close_descriptor(descriptor: int) -> None:
    """Close a socket that no front has taken."""
    if descriptor >= 0:
        os.close(descriptor)
