# SPDX-License-Identifier: Apache-2.0
"""A front and its connections when the owner dies, or answers late."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.users import ANN, some_users
from tests.support.waiting import WAIT_SECONDS, some_turns
from tests.unit.fake_wire import Client, Part
from tests.unit.fronts_bench import CALLER, Forwarded, Pair
from tests.unit.fronts_bench import bench as bench
from tests.unit.fronts_bench import pair as pair
from tests.unit.gateway_bench import GatewayBench
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.fronts import front as front_module
from tidings.fronts import questions
from tidings.fronts.forwarding import REPEATED_MS, FrontConnection
from tidings.fronts.front import Front
from tidings.fronts.link import FrontLink, LinkLost
from tidings.fronts.messages import Answered, FrontMessage, LinkQuestion, Moved, Perform
from tidings.fronts.remote import (
    READS_MAX,
    USER_READS_MAX,
    RemoteOwner,
    RemoteReceipts,
    RemoteVerbs,
)
from tidings.gateway.registration import HeadReconciler
from tidings.model.chats import Move
from tidings.model.ids import ChatId, UserKey
from tidings.ports.store import current_requester

_decode = msgspec.msgpack.Decoder(FrontMessage).decode


@pytest.fixture
async def forwarded() -> Forwarded:
    return Forwarded()


@pytest.fixture
async def remote(forwarded: Forwarded) -> RemoteOwner:
    """The owner as a front sees it; it is there."""
    owner = RemoteOwner()
    owner.attach(forwarded)
    return owner


@pytest.fixture
async def client(bench: GatewayBench, remote: RemoteOwner) -> AsyncIterator[Client]:
    """A client of a front whose connection is open."""
    receipts = cast(CoalescedReceipts, RemoteReceipts(remote))
    context = replace(bench.context, receipts=receipts)
    made = Client(FrontConnection(context, remote, 1, None))
    made.connection.conversation.admit(CALLER, "phone")
    yield made
    made.goes()


def says(client: Client, **frame: object) -> None:
    client.says(Part(msgspec.json.encode(frame)))


async def test_a_message_that_two_owners_answer_is_answered_once(client: Client) -> None:
    says(client, op="send", id="r1", chat="ch_1", client_message_id="m1", content="hi")
    connection = client.connection
    assert isinstance(connection, FrontConnection)
    for _ in range(2):
        connection.take(Answered(1, "r1", b'{"op":"sent","id":"r1"}'))
    connection.take(Answered(1, "", b'{"op":"refused","code":"chat_not_found"}'))
    assert [frame["op"] for frame in client.wire.told] == ["sent", "refused"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"content": "x" * 5_000}, "content.too_large"),
        ({"client_message_id": "m" * 60_000}, "request.invalid"),
        ({"ttl_seconds": 2**63}, "request.invalid"),
        ({"mentions": ["m" * 60_000]}, "request.invalid"),
        ({"attachments": ["a" * 60_000]}, "request.invalid"),
    ],
)
async def test_a_front_keeps_no_message_that_is_refused_anyway(
    client: Client, remote: RemoteOwner, forwarded: Forwarded, wrong: dict[str, object], code: str
) -> None:
    remote.detach()
    right = {"op": "send", "id": "r1", "chat": "ch_1", "client_message_id": "m1", "content": "hi"}
    says(client, **right | wrong)
    assert [(frame["op"], frame["code"]) for frame in client.wire.told] == [("refused", code)]
    remote.attach(forwarded)
    client.connection.requests.repeat()  # type: ignore[attr-defined]
    assert forwarded.sent == []


async def test_what_was_read_while_there_was_no_owner_is_stored_by_the_next_one(
    bench: GatewayBench, client: Client, remote: RemoteOwner, forwarded: Forwarded
) -> None:
    connection = client.connection
    assert isinstance(connection, FrontConnection)
    for chat in ("ch_1", "ch_2"):
        connection.progress.start(ChatId(chat), 5, 5, is_small=chat == "ch_1")
        says(client, op="read", chat=chat, sequence=1)
    bench.clock.time += REPEATED_MS
    remote.detach()
    forwarded.sent.clear()
    says(client, op="read", chat="ch_2", sequence=4)
    says(client, op="read", chat="ch_2", sequence=3)
    read_at = bench.clock.time
    bench.clock.time += 1
    remote.attach(forwarded)
    connection.resume()
    assert [one.move for one in forwarded.sent if isinstance(one, Moved)] == [
        Move(ANN, ChatId("ch_2"), 0, 4, read_at)
    ]


async def test_nobody_waits_for_a_full_socket_that_has_closed(client: Client) -> None:
    connection = client.connection
    connection.pause_writing()
    drained = asyncio.ensure_future(connection.drained())
    await some_turns()
    assert not drained.done()
    client.goes()
    await some_turns()
    assert drained.done()
    await connection.drained()


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


@pytest.fixture
async def front(bench: GatewayBench) -> AsyncIterator[Front]:
    reconciler = HeadReconciler(bench.hub, bench.core.store.chats)
    made = Front(bench.context, RemoteOwner(), reconciler, {}, lambda: b"")
    yield made
    await made.close()


async def joined(front: Front, bench: GatewayBench, pair: Pair) -> FrontLink:
    """Let a front join a new owner; return the owner's end of their link."""
    (stream, other), (channel, _kept) = pair(), pair()
    link = FrontLink(_decode, lambda _message: None, lambda _link: None)
    await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=other)
    await front.join(bench.context.epoch, stream, channel)
    return link


async def test_a_front_that_is_given_up_ends(
    bench: GatewayBench, front: Front, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_module, "AWAY_SECONDS_MAX", 0.0)
    monkeypatch.setattr(front_module, "CLOSE_SECONDS_MAX", 0.0)
    (await joined(front, bench, pair)).close()
    async with asyncio.timeout(WAIT_SECONDS):
        await front.ended


async def test_one_busy_user_holds_up_nobody_else_at_a_front(
    remote: RemoteOwner, forwarded: Forwarded
) -> None:
    verbs = RemoteVerbs(remote)

    def readers() -> list[UserKey]:
        """Who reads now, according to what the owner was asked."""
        asked = [one for one in forwarded.sent if isinstance(one, LinkQuestion)]
        return [questions.ENTRIES.decode_arguments(one.arguments)[0] for one in asked]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(verbs.entries(ANN, ChatId(f"ch_{n}"))) for n in range(100)]
        await some_turns()
        assert readers() == [ANN] * USER_READS_MAX
        others = some_users(READS_MAX)
        tasks += [group.create_task(verbs.entries(user, ChatId("ch_1"))) for user in others]
        await some_turns()
        assert readers() == [ANN] * USER_READS_MAX + others[: READS_MAX - USER_READS_MAX]
        for task in tasks:
            task.cancel()


async def test_an_owner_gets_no_answer_to_a_question_of_an_earlier_one(
    bench: GatewayBench, front: Front, pair: Pair, client: Client
) -> None:
    connection = client.connection
    assert isinstance(connection, FrontConnection)
    front._connections[1] = connection
    connection.pause_writing()
    earlier = await joined(front, bench, pair)
    drained = asyncio.ensure_future(earlier.ask(questions.DRAINED, 1))
    await some_turns()
    await earlier.ask(questions.REACHED, ANN, "ch_1", True)
    earlier.close()
    link = await joined(front, bench, pair)
    connection.resume_writing()
    assert await link.ask(questions.REACHED, ANN, "ch_1", True) == 0
    with pytest.raises(LinkLost):
        await drained
    link.close()
