# SPDX-License-Identifier: Apache-2.0
"""The owner when a front hangs, dies, or tells it of connections that outlived another owner."""

import asyncio
import socket
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.support.canary import canary
from tests.support.users import ANN, BOB
from tests.support.waiting import TURNS, WAIT_SECONDS, some_turns, until
from tests.unit.fronts_bench import CALLER, Owner, Pair, Told, decode
from tests.unit.fronts_bench import bench as bench
from tests.unit.fronts_bench import pair as pair
from tests.unit.gateway_bench import GatewayBench
from tidings import tasks
from tidings.fronts import link as link_module
from tidings.fronts import owner as owner_module
from tidings.fronts import questions
from tidings.fronts.link import FrontLink
from tidings.fronts.messages import (
    Answered,
    CloseSocket,
    LinkAnswer,
    LinkQuestion,
    Opened,
    Perform,
    Saw,
    SendToSocket,
    SocketClosed,
    WentBlind,
)
from tidings.fronts.peers import SILENT_SECONDS_MAX
from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.wire.codes import Close
from tidings.wire.frames import SendFrame, TypingFrame


@pytest.fixture
async def owner(
    bench: GatewayBench, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Owner]:
    monkeypatch.setattr(owner_module, "ANSWER_SECONDS_MAX", WAIT_SECONDS)
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


async def test_a_front_that_hangs_before_it_comes_is_killed(
    owner: Owner, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "TICK_SECONDS", 1 / (10 * SILENT_SECONDS_MAX))
    hanging = await asyncio.create_subprocess_exec("sleep", "600")
    (stream, other), (channel, _kept) = pair(), pair(socket.SOCK_SEQPACKET)
    await owner.fronts.add("front-1", hanging.pid, stream, channel)
    async with asyncio.timeout(WAIT_SECONDS):
        assert await hanging.wait() == -9
    other.close()


async def test_an_owner_does_not_wait_for_ever_until_a_front_comes(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owner_module, "START_SECONDS_MAX", 0.0)
    await owner.fronts.complete()
    [record] = [one for one in caplog.records if one.name == "tidings.fronts"]
    assert (vars(record)["action"], vars(record)["count"]) == ("fronts_missing", 1)


async def test_nothing_is_left_of_a_front_that_dies_while_its_messages_wait(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = await owner.linked(1, sockets=TURNS, opened=0)
    monkeypatch.setattr(tasks, "SLICE_SECONDS", -1.0)  # one message per turn
    for number in range(1, 1 + TURNS):
        told.link.send(Opened(number, CALLER, "phone", f"c{number}", None, False, False))
    told.link.close()
    await until(lambda: told.link.is_lost)
    await some_turns()
    await until(lambda: len(owner.fronts.hub), equals=0)
    assert not owner.fronts.is_looking(ANN)


@pytest.mark.parametrize("reason", ["closed", "revoked"])
async def test_a_connection_that_ends_while_it_waits_for_a_place_gets_none(
    owner: Owner, reason: str
) -> None:
    last = limits.USER_CONNECTIONS_MAX + 1
    told = await owner.linked(1, sockets=last, opened=last - 1)
    told.link.send(Opened(last, CALLER, "phone", "c", None, False, False))
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


@pytest.mark.parametrize("has_idle", [True, False])
async def test_no_connection_of_an_earlier_owner_stays_without_a_place(
    owner: Owner, has_idle: bool
) -> None:
    last = limits.USER_CONNECTIONS_MAX + 1
    told = await owner.linked(1, sockets=last)
    asked = await told.asked(questions.IDLE)
    idle = [(1, 0)] if has_idle else []
    told.link.send(LinkAnswer(asked.number, msgspec.Raw(msgspec.msgpack.encode(idle))))
    closed = 1 if has_idle else last
    await until(lambda: told.got(CloseSocket))
    assert told.got(CloseSocket) == [CloseSocket(closed, Close.TOO_MANY_CONNECTIONS, None)]
    reached = [one.socket for one in owner.fronts.hub.of(ANN)]
    assert sorted(reached) == [one for one in range(1, last + 1) if one != closed]


async def test_a_place_is_asked_for_while_one_is_looked_for(owner: Owner) -> None:
    last = limits.USER_CONNECTIONS_MAX + 1
    told = await owner.linked(1, sockets=last)
    place = asyncio.ensure_future(told.link.ask(questions.PLACE, last))
    idle = msgspec.Raw(msgspec.msgpack.encode([(1, 0), (2, 0)]))
    await until(lambda: len(told.got(LinkQuestion)) == 2)
    for asked in told.got(LinkQuestion):
        told.link.send(LinkAnswer(asked.number, idle))
    assert await place
    await told.is_heard()
    assert told.got(CloseSocket) == [CloseSocket(1, Close.TOO_MANY_CONNECTIONS, None)]
    assert len(owner.fronts.hub.of(ANN)) == limits.USER_CONNECTIONS_MAX


async def test_a_front_comes_when_revocations_are_watched_and_hears_that_they_are(
    bench: GatewayBench, pair: Pair
) -> None:
    owner = Owner(bench, pair, is_open=False)
    linked = asyncio.ensure_future(owner.linked(1))
    await some_turns()
    assert not linked.done()
    owner.fronts.saw(5.0)
    owner.fronts.open()
    told = await linked
    await until(lambda: told.got(Saw) == [Saw(5.0)])
    await owner.fronts.close()


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
        *(CloseSocket(number, Close.NOT_AUTHENTICATED, None) for number in (1, 2)),
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
    link = FrontLink(decode, lambda _message: None, lambda _link: None)
    await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=ours)
    for _ in range(100):
        link.send(SendToSocket(1, bytes(100_000)))
        await asyncio.sleep(0)
    await until(lambda: link.is_lost)
