# SPDX-License-Identifier: Apache-2.0
"""The link between owner and front when one of them hangs, dies, or hears of things late."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from tests.support.canary import canary
from tests.support.users import ANN, BOB
from tests.support.waiting import WAIT_SECONDS, until
from tests.unit.fake_wire import Client, Part
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.identity.caller import UserCaller
from tidings.fronts import front as front_module
from tidings.fronts import link as link_module
from tidings.fronts import owner as owner_module
from tidings.fronts import questions
from tidings.fronts.answers import OwnerAnswers
from tidings.fronts.forwarding import FrontConnection
from tidings.fronts.front import Front
from tidings.fronts.link import FrontLink
from tidings.fronts.messages import (
    Answered,
    CloseSocket,
    Held,
    HeldSocket,
    LinkAnswer,
    LinkQuestion,
    Opened,
    OwnerMessage,
    Perform,
    Saw,
    SendToSocket,
    SocketClosed,
    WentBlind,
)
from tidings.fronts.owner import Fronts
from tidings.fronts.peers import SILENT_SECONDS_MAX
from tidings.fronts.questions import QuestionKind
from tidings.fronts.remote import RemoteOwner
from tidings.gateway.context import Admission
from tidings.gateway.http.connection_limits import ConnectionLimits
from tidings.gateway.registration import HeadReconciler
from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.ports.store import current_requester
from tidings.wire.codes import Close
from tidings.wire.frames import SendFrame, TypingFrame

_decode = msgspec.msgpack.Decoder(OwnerMessage).decode
T = TypeVar("T")
Pair = Callable[..., tuple[socket.socket, socket.socket]]
CALLER = UserCaller(ANN, None, 2**60)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """Makes sockets that are connected with each other."""
    made: list[socket.socket] = []

    def make(kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
        ends = socket.socketpair(socket.AF_UNIX, kind)
        for end in ends:
            end.setblocking(False)
        made.extend(ends)
        return ends

    yield make
    await asyncio.sleep(0)
    for end in made:
        end.close()


# The owner, and a front that does what a test says.


class Told:
    """The end of a link at a front, which keeps what the owner sends."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.link = FrontLink(_decode, self.messages.append, lambda _link: None)

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

    def __init__(self, bench: GatewayBench, pair: Pair) -> None:
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

    async def _is_valid(self, _caller: UserCaller) -> bool:
        await self.may_check.wait()
        return self.is_valid

    async def linked(self, pid: int, sockets: int = 0) -> Told:
        """A front that holds sockets, each of a connection of Ann."""
        streams, channels = self._pair(), self._pair(socket.SOCK_SEQPACKET)
        told = Told()
        loop = asyncio.get_running_loop()
        await self.fronts.add("front-1", streams[0], channels[0])
        await loop.create_unix_connection(lambda: told.link, sock=streams[1])
        held = [HeldSocket(1 + number, None, None) for number in range(sockets)]
        told.link.send(Held(pid, held, sockets))
        for number in range(sockets):
            told.link.send(Opened(1 + number, CALLER, "phone", f"c{number}", None, False, False))
        await until(lambda: len(self.fronts.hub) == sockets)
        await self.fronts.complete()
        return told


@pytest.fixture
async def owner(bench: GatewayBench, pair: Pair) -> AsyncIterator[Owner]:
    made = Owner(bench, pair)
    yield made
    await made.fronts.close()


async def test_a_front_that_hangs_is_killed(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = await asyncio.create_subprocess_exec("sleep", "600")
    told = await owner.linked(hanging.pid, sockets=2)
    monkeypatch.setattr(owner_module, "TICK_SECONDS", 1 / (10 * SILENT_SECONDS_MAX))
    async with asyncio.timeout(WAIT_SECONDS):
        assert await hanging.wait() == -9
    await until(lambda: told.link.is_lost)
    assert len(owner.fronts.hub) == 0


@pytest.mark.parametrize("reason", ["closed", "revoked"])
async def test_a_connection_that_ends_while_it_waits_for_a_place_gets_none(
    owner: Owner, reason: str
) -> None:
    last = limits.USER_CONNECTIONS_MAX + 1
    told = await owner.linked(1, sockets=last)
    place = asyncio.ensure_future(told.link.ask(questions.PLACE, last))
    asked = await told.asked(questions.IDLE)
    owner.is_valid = reason != "revoked"
    told.link.send(SocketClosed(1))
    if reason == "closed":
        told.link.send(SocketClosed(last))
    told.link.send(LinkAnswer(asked.number, msgspec.Raw(msgspec.msgpack.encode([]))))
    assert not await place
    assert len(owner.fronts.hub.of(ANN)) == last - 2, "those that have a place, without the first"
    closed = told.got(CloseSocket)
    expected = [CloseSocket(last, Close.NOT_AUTHENTICATED, None)] if reason == "revoked" else []
    assert closed == expected


async def posted(bench: GatewayBench, told: Told) -> ChatId:
    """Post a message on the only connection of a front; return its chat."""
    chat = await bench.group(ANN, BOB)
    told.link.send(Perform(1, True, SendFrame("r1", chat, "m1", canary("m1"))))
    told.link.send(Perform(1, True, TypingFrame(chat)))
    await told.is_heard()
    return chat


async def test_a_banned_user_writes_nothing_through_an_owner_that_has_just_started(
    bench: GatewayBench, owner: Owner
) -> None:
    owner.may_check.clear()
    told = await owner.linked(1, sockets=1)
    await posted(bench, told)
    bench.core.bans.learn(ANN, bench.clock.time + 5)
    owner.may_check.set()
    [answer] = await until(lambda: told.got(Answered))
    assert msgspec.json.decode(answer.frame)["code"] == "user.banned"
    assert answer.chat is None


async def test_a_token_that_was_revoked_while_there_was_no_owner_writes_nothing(
    bench: GatewayBench, owner: Owner
) -> None:
    owner.may_check.clear()
    told = await owner.linked(1, sockets=1)
    chat = await posted(bench, told)
    owner.is_valid = False
    owner.may_check.set()
    assert await until(lambda: told.got(CloseSocket)) == [
        CloseSocket(1, Close.NOT_AUTHENTICATED, None)
    ]
    await bench.post(BOB, chat)
    assert (await bench.core.store.chats.heads([chat]))[chat] == 2, "creation, and Bob's message"
    await told.is_heard()
    assert told.got(Answered) == []


async def test_what_waits_for_the_check_of_a_token_is_limited(
    bench: GatewayBench, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTION_REQUESTS_MAX", 1)
    owner.may_check.clear()
    told = await owner.linked(1, sockets=1)
    chat = await posted(bench, told)
    told.link.send(Perform(1, True, SendFrame("r2", chat, "m2", canary("m2"))))
    [refused] = await until(lambda: told.got(Answered))
    assert (refused.request, refused.chat) == ("r2", None)
    owner.may_check.set()
    stored = await until(lambda: told.got(Answered)[1:])
    assert [(one.request, one.chat) for one in stored] == [("r1", chat)]


async def test_a_front_writes_only_after_the_tokens_of_its_connections_are_checked(
    owner: Owner,
) -> None:
    owner.may_check.clear()
    told = await owner.linked(1, sockets=2)
    for at in (5.0, 7.0):
        owner.fronts.saw(at)
    await told.is_heard()
    assert told.got(Saw) == []
    owner.is_valid = False
    owner.may_check.set()
    await until(lambda: told.got(Saw))
    assert told.messages[-3:] == [
        *(CloseSocket(socket, Close.NOT_AUTHENTICATED, None) for socket in (1, 2)),
        Saw(7.0),
    ]
    told.link.send(Opened(3, CALLER, "phone", "c3", None, False, False))
    owner.may_check.clear()
    owner.fronts.saw(9.0)
    await until(lambda: told.got(Saw)[1:] == [Saw(9.0)])


async def test_a_front_accepts_nothing_while_its_owner_is_blind(owner: Owner) -> None:
    owner.may_check.clear()
    told = await owner.linked(1, sockets=1)
    owner.fronts.saw(5.0)
    owner.fronts.went_blind(was_late=False)
    owner.may_check.set()
    await until(lambda: told.got(WentBlind))
    await told.is_heard()
    assert told.got(Saw) == [], "what was seen before is over"


async def test_a_side_that_reads_nothing_is_given_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "QUEUED_BYTES_MAX", 1_000_000)
    ours, _theirs = pair()
    link = FrontLink(_decode, lambda _message: None, lambda _link: None)
    await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=ours)
    for _ in range(100):
        link.send(SendToSocket(1, bytes(100_000)))
        await asyncio.sleep(0)
    await until(lambda: link.is_lost)


# A front, and an owner that does what a test says.


class Forwarded(FrontLink):
    """A link that only keeps what a front sends."""

    def __init__(self) -> None:
        super().__init__(_decode, lambda _message: None, lambda _link: None)
        self.sent: list[Any] = []

    def send(self, message: msgspec.Struct) -> None:
        self.sent.append(message)


@pytest.fixture
async def forwarded() -> Forwarded:
    return Forwarded()


@pytest.fixture
async def client(bench: GatewayBench, forwarded: Forwarded) -> AsyncIterator[Client]:
    """A client of a front whose connection is open."""
    owner = RemoteOwner()
    owner.attach(forwarded)
    made = Client(FrontConnection(bench.context, owner, 1, None))
    made.connection.conversation.admit(CALLER, "phone")
    yield made
    made.goes()


def says(client: Client, **frame: str) -> None:
    client.says(Part(msgspec.json.encode(frame)))


async def test_a_message_that_two_owners_answer_is_answered_once(client: Client) -> None:
    says(client, op="send", id="r1", chat="ch_1", client_message_id="m1", content="hi")
    connection = client.connection
    assert isinstance(connection, FrontConnection)
    for _ in range(2):
        connection.take(Answered(1, "r1", b'{"op":"sent","id":"r1"}'))
    connection.take(Answered(1, "", b'{"op":"refused","code":"chat_not_found"}'))
    assert [frame["op"] for frame in client.wire.told] == ["sent", "refused"]


async def test_a_front_does_not_keep_chats_that_a_client_only_names(
    client: Client, forwarded: Forwarded
) -> None:
    client.connection.progress.start("ch_1", 0, 0, is_small=True)  # type: ignore[arg-type]
    for chat in ("ch_1", "ch_2", "ch_1", "ch_2"):
        says(client, op="typing", chat=chat)
    typed = [one.frame.chat for one in forwarded.sent if isinstance(one, Perform)]
    assert typed == ["ch_1", "ch_2", "ch_2"], "only a chat that is followed is remembered"


async def test_a_question_whose_answer_fails_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("unexpected")

    ask = LinkQuestion(7, "drained", msgspec.Raw(msgspec.msgpack.encode((1,))), current_requester())
    answer = await questions.answer_to(ask, questions.answering((questions.DRAINED, fail)))
    assert (answer.number, answer.refusal) == (7, "StoreUnavailable")
    assert "a question of another process failed" in caplog.text


async def test_a_front_that_is_given_up_ends(
    bench: GatewayBench, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_module, "AWAY_SECONDS_MAX", 0.0)
    monkeypatch.setattr(front_module, "CLOSE_SECONDS_MAX", 0.0)
    reconciler = HeadReconciler(bench.hub, bench.core.store.chats)
    front = Front(bench.context, RemoteOwner(), reconciler, {}, lambda: b"")
    (stream, other), (channel, _kept) = pair(), pair()
    await front.join(bench.context.epoch, stream, channel)
    other.close()
    async with asyncio.timeout(WAIT_SECONDS):
        await front.ended
    await front.close()
