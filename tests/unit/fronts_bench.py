# SPDX-License-Identifier: Apache-2.0
"""Both sides of the link between an owner and its fronts, the other side of which a test plays."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pytest

from tests.support.users import ANN
from tests.support.waiting import until
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.identity.caller import UserCaller
from tidings.fronts import questions
from tidings.fronts.answers import OwnerAnswers
from tidings.fronts.link import FrontLink
from tidings.fronts.messages import Held, HeldSocket, LinkQuestion, Opened, OwnerMessage
from tidings.fronts.owner import Fronts
from tidings.fronts.questions import QuestionKind
from tidings.gateway.context import Admission
from tidings.gateway.http.connection_limits import ConnectionLimits

T = TypeVar("T")
Pair = Callable[..., tuple[socket.socket, socket.socket]]
CALLER: Final = UserCaller(ANN, None, 2**60)

decode: Final = msgspec.msgpack.Decoder(OwnerMessage).decode


@contextmanager
def socket_pairs() -> Iterator[Pair]:
    """Yield a function that makes sockets that are connected with each other."""
    made: list[socket.socket] = []

    def make(kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
        ends = socket.socketpair(socket.AF_UNIX, kind)
        for end in ends:
            end.setblocking(False)
        made.extend(ends)
        return ends

    yield make
    for end in made:
        end.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    with socket_pairs() as make:
        yield make
        await asyncio.sleep(0)


class Told:
    """The end of a link at a front, which keeps what the owner sends."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.link = FrontLink(decode, self.messages.append, lambda _link: None)

    async def asked(self, question: QuestionKind[Any]) -> LinkQuestion:
        """Wait until the owner asks this."""

        def found() -> LinkQuestion | None:
            asked = (one for one in self.messages if isinstance(one, LinkQuestion))
            return next((one for one in asked if one.subject == question.subject), None)

        return await until(found)

    async def is_heard(self) -> None:
        """Wait until the owner has handled everything that was sent so far."""
        await self.link.ask(questions.HEADS, [])

    def got(self, kind: type[T]) -> list[T]:
        """The messages of this kind, the oldest first."""
        return [one for one in self.messages if isinstance(one, kind)]


class Owner:
    """The fronts of an owner, for which a token is valid until it is revoked."""

    def __init__(self, bench: GatewayBench, pair: Pair, *, is_open: bool = True) -> None:
        self._pair = pair
        self.fronts = Fronts("e1", 1)
        self.is_valid = True
        self.may_check = asyncio.Event()
        """Set if tokens can be checked."""
        self.may_check.set()
        self.fronts.count_with(ConnectionLimits(1_000))
        context = bench.context
        answers = OwnerAnswers(context, bench.core.store.chats, self.fronts)
        self.fronts.serve(context, Admission(lambda most: most), answers.of, self._is_valid)
        if is_open:
            self.fronts.open()

    async def _is_valid(self, _caller: UserCaller) -> bool:
        await self.may_check.wait()
        return self.is_valid

    async def linked(self, pid: int, sockets: int = 0, opened: int | None = None) -> Told:
        """A front that holds sockets, each of a connection of Ann, and tells of some of them."""
        opened = sockets if opened is None else opened
        streams, channels = self._pair(), self._pair(socket.SOCK_SEQPACKET)
        told = Told()
        loop = asyncio.get_running_loop()
        await self.fronts.add("front-1", pid, streams[0], channels[0])
        await loop.create_unix_connection(lambda: told.link, sock=streams[1])
        held = [HeldSocket(1 + number, None, None) for number in range(sockets)]
        told.link.send(Held(held, opened))
        for number in range(opened):
            told.link.send(Opened(1 + number, CALLER, "phone", f"c{number}", None, False, False))
        await until(lambda: len(self.fronts.hub) == opened)
        await self.fronts.complete()
        return told


class Forwarded(FrontLink):
    """A link that only keeps what a front sends."""

    def __init__(self) -> None:
        super().__init__(decode, lambda _message: None, lambda _link: None)
        self.sent: list[Any] = []

    def send(self, message: msgspec.Struct) -> None:
        self.sent.append(message)
