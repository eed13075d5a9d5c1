# SPDX-License-Identifier: Apache-2.0
"""The handover through a real Redis: from a sender to the right gateways and back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.integration.redis_places import a_link, new_prefix
from tests.support.message_cipher import a_cipher
from tests.support.services import RedisServer
from tests.support.users import ANN, BOB
from tests.support.waiting import WAIT_SECONDS, until
from tidings.assembly.system import SystemChance
from tidings.cluster import handover
from tidings.cluster.channels import QUIET_SECONDS, Notice, encode
from tidings.cluster.handover import RedisHandover, RedisHandoverReceiver
from tidings.cluster.redis_link import RedisLink
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import BroadcastPosted, CopiesMade, InboxEvent, InboxRead, Retracted
from tidings.ports.delivery import EncodedEntry, HandoverTarget

CHAT = ChatId("0" * 26)


@dataclass
class Step:
    """A gateway's doorstep: what lies on it."""

    held: list[str]
    answers: bool = True
    came: list[tuple[Sequence[EncodedEntry], Sequence[UserKey]]] = field(default_factory=list)
    notices: list[tuple[bytes, Sequence[UserKey], ChatId | None]] = field(default_factory=list)
    hints: list[InboxEvent] = field(default_factory=list)
    doubts: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def entries(
        self,
        encoded_entries: Sequence[EncodedEntry],
        users: Sequence[UserKey],
        answer: Callable[[list[str]], None],
    ) -> None:
        self.came.append((encoded_entries, users))
        if self.answers:
            answer(self.held)
        self.changed.set()

    def notice(self, frame: bytes, users: Sequence[UserKey], chat: ChatId | None) -> None:
        self.notices.append((frame, users, chat))
        self.changed.set()

    def hint(self, event: InboxEvent) -> None:
        self.hints.append(event)
        self.changed.set()

    def request_reconcile(self) -> None:
        self.doubts += 1
        self.changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        await until(holds, describe=lambda: (self.notices, self.hints, self.doubts))


_conforms: type[HandoverTarget] = Step


def a_parcel(sequence: int = 1) -> EncodedEntry:
    return EncodedEntry(
        chat_id=CHAT,
        sequence=sequence,
        kind="removed",
        added=(ANN,),
        removed=(BOB,),
        is_small=True,
        frame=b"\x00frame",
    )


@asynccontextmanager
async def a_gateway(
    link: RedisLink, name: str, step: Step, quiet_seconds: float = QUIET_SECONDS
) -> AsyncIterator[RedisHandoverReceiver]:
    answerers = {"names": lambda asked: asked + name.encode()} if step.answers else {}
    mailbox = RedisHandoverReceiver(link, name, step, answerers, quiet_seconds=quiet_seconds)
    mailbox.start()
    try:
        async with asyncio.timeout(60):
            await mailbox.ready()
        yield mailbox
    finally:
        await mailbox.close()


@asynccontextmanager
async def a_sender(
    link: RedisLink, answer_seconds_max: float = WAIT_SECONDS
) -> AsyncIterator[RedisHandover]:
    handover = RedisHandover(link, SystemChance(), answer_seconds_max=answer_seconds_max)
    handover.start()
    try:
        async with asyncio.timeout(60):
            await handover.ready()
        yield handover
    finally:
        await handover.close()


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    async with a_link(redis_url) as opened:
        yield opened


async def test_each_gateway_gets_what_is_for_its_users_and_answers(link: RedisLink) -> None:
    one, other = Step(["c1", "c2"]), Step([])
    async with (
        a_gateway(link, "g1", one),
        a_gateway(link, "g2", other),
        a_sender(link) as handover,
    ):
        encoded_entries = [a_parcel(1), a_parcel(2)]

        answers = await handover.entries(encoded_entries, {"g1": [ANN], "g2": [ANN, BOB]})

    assert answers == {"g1": {"c1", "c2"}, "g2": frozenset()}
    assert one.came == [(tuple(encoded_entries), (ANN,))]
    assert other.came == [(tuple(encoded_entries), (ANN, BOB))]


async def test_a_gateway_that_is_gone_is_not_waited_for(link: RedisLink) -> None:
    step = Step(["c1"])
    async with a_gateway(link, "g1", step), a_sender(link, 600.0) as handover:
        async with asyncio.timeout(60):
            answers = await handover.entries([a_parcel()], {"g1": [ANN], "gone": [BOB]})

    assert answers == {"g1": {"c1"}}
    assert handover.unanswered == 0


async def test_a_gateway_that_does_not_answer_is_left_out(link: RedisLink) -> None:
    silent, quick = Step([], answers=False), Step(["c1"])

    async def handed_over() -> tuple[object, int, int]:
        silent.came.clear()
        async with a_sender(link, 0.5) as handover:
            answers = await handover.entries([a_parcel()], {"g1": [ANN], "g2": [BOB]})
        return answers, handover.unanswered, len(silent.came)

    async with a_gateway(link, "g1", silent), a_gateway(link, "g2", quick):
        # On a busy machine half a second may be too short for both.
        await until(handed_over, equals=({"g2": {"c1"}}, 1, 1))


async def test_answers_find_the_one_who_asked(link: RedisLink) -> None:
    step = Step(["c1"])
    async with (
        a_gateway(link, "g1", step),
        a_sender(link) as one,
        a_sender(link) as other,
        asyncio.TaskGroup() as group,
    ):
        asked = [
            group.create_task(sender.entries([a_parcel(number)], {"g1": [ANN]}))
            for number in range(1, 6)
            for sender in (one, other)
        ]
    assert [task.result() for task in asked] == [{"g1": {"c1"}}] * 10


async def test_a_notice_arrives_without_an_answer(link: RedisLink) -> None:
    step = Step([])
    async with a_gateway(link, "g1", step), a_sender(link) as handover:
        handover.notice(b"typing", {"g1": [ANN, BOB], "gone": [ANN]}, CHAT)
        handover.notice(b"presence", {"g1": [BOB]})
        await step.until(lambda: len(step.notices) == 2)

    assert step.notices == [(b"typing", (ANN, BOB), CHAT), (b"presence", (BOB,), None)]


async def test_a_hint_reaches_one_gateway_or_all_but_who_gave_it(link: RedisLink) -> None:
    one, other = Step([]), Step([])
    first = CopiesMade("acme", "news", "0" * 26, 7, (ANN, BOB))
    events: list[InboxEvent] = [BroadcastPosted("acme", "news", 3), Retracted("acme", "news", "b3")]
    async with (
        a_gateway(link, "g1", one),
        a_gateway(link, "g2", other),
        a_sender(link) as handover,
    ):
        handover.hint(first, "g1", but_not="api")
        handover.hint(InboxRead(ANN, "news"), "g2", but_not="g1")
        for event in events:
            handover.hint(event, None, but_not="g1")
        await other.until(lambda: len(other.hints) == 3)
        handover.hint(first, "g1", but_not="api")
        await one.until(lambda: len(one.hints) == 2)

    assert one.hints == [first, first]
    assert other.hints == [InboxRead(ANN, "news"), *events]


async def test_what_makes_no_sense_is_passed_over(link: RedisLink) -> None:
    step = Step(["c1"])
    async with a_gateway(link, "g1", step), a_sender(link) as handover:
        await link.publish([(link.name("gateway", "g1"), b"\xc1nonsense")])

        assert await handover.entries([a_parcel()], {"g1": [ANN]}) == {"g1": {"c1"}}


async def test_a_broken_subscription_comes_back_and_leaves_doubt(own_redis: RedisServer) -> None:
    step, prefix = Step(["c1"]), new_prefix()
    async with (
        a_link(own_redis.address, prefix) as link,
        a_gateway(link, "g1", step) as mailbox,
        a_sender(link) as handover,
    ):
        assert step.doubts == 1
        await asyncio.to_thread(own_redis.restart)
        await step.until(lambda: step.doubts == 2)
        async with asyncio.timeout(60):
            await mailbox.ready()
            await handover.ready()

        assert await handover.entries([a_parcel()], {"g1": [ANN]}) == {"g1": {"c1"}}


async def test_a_subscription_that_falls_silent_is_made_again(own_redis: RedisServer) -> None:
    step = Step([])
    async with a_link(own_redis.address) as link, a_gateway(link, "g1", step, 0.05):
        before, doubts = link.failures, step.doubts
        await asyncio.to_thread(own_redis.pause)
        try:
            await until(lambda: link.failures > before)
        finally:
            await asyncio.to_thread(own_redis.resume)
        await step.until(lambda: step.doubts > doubts)


async def test_who_could_not_reach_redis_has_all_gateways_compare(own_redis: RedisServer) -> None:
    step, prefix = Step([]), new_prefix()
    async with (
        a_link(own_redis.address, prefix) as link,
        a_gateway(link, "g1", step),
        a_link("redis://127.0.0.1:1/0", prefix) as broken,
        a_sender(link) as handover,
    ):
        cut_off = RedisHandover(broken, SystemChance(), answer_seconds_max=WAIT_SECONDS)
        assert await cut_off.entries([a_parcel()], {"g1": [ANN]}) == {}
        assert await cut_off.ask("names", b"") == {}
        assert cut_off.owes_comparison.is_set()
        doubts = step.doubts

        handover.owe_comparison()  # as the same sender would, once its Redis is back
        await step.until(lambda: step.doubts > doubts)

        assert not handover.owes_comparison.is_set()
        assert await handover.entries([], {"g1": [ANN]}) == {}


async def test_comparisons_are_not_asked_for_one_after_the_other(
    link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes all gateways read the chats of all their users."""
    monkeypatch.setattr(handover, "COMPARE_SECONDS_MIN", 3_600.0)
    step = Step([])
    async with a_gateway(link, "g1", step):
        async with a_sender(link) as sender:
            doubts = step.doubts
            sender.owe_comparison()
            await step.until(lambda: step.doubts > doubts)
            sender.owe_comparison()
            sender.notice(b"later", {"g1": [ANN]})
            await step.until(lambda: step.notices)
            assert step.doubts == doubts + 1
        await step.until(lambda: step.doubts == doubts + 2)  # it is asked for at the end


@pytest.mark.attack("S13", "H02")
async def test_a_letter_that_no_process_of_ours_sealed_for_the_gateway_is_dropped(
    redis_url: str,
) -> None:
    prefix, one, other = new_prefix(), Step([]), Step([])
    async with (
        a_link(redis_url, prefix) as link,
        a_link(redis_url, prefix) as listener,
        a_gateway(listener, "g1", one),
        a_gateway(listener, "g2", other),
        a_sender(link) as handover,
    ):
        channel = link.name("gateway", "g1")
        notice = encode(Notice(b"forged", (ANN,)))
        ours, stranger = a_cipher(), a_cipher(bytes(32))
        genuine = ours.seal(channel, notice)
        forged = (
            notice,
            stranger.seal(channel, notice),
            ours.seal(link.name("gateway", "g2"), notice),
            ours.seal(link.name("gateway", "every"), notice),
            genuine[:-1] + bytes([genuine[-1] ^ 1]),
            b"",
        )
        for message in forged:
            await link.redis.publish(channel, message)
        await link.redis.publish(link.name("gateway", "g2"), genuine)
        handover.notice(b"ours", {"g1": [ANN], "g2": [BOB]})
        await one.until(lambda: one.notices)
        await other.until(lambda: other.notices)
        assert one.notices == [(b"ours", (ANN,), None)]
        assert other.notices == [(b"ours", (BOB,), None)]
        assert listener.refused == len(forged) + 1


@pytest.mark.attack("S13", "H02")
async def test_who_listens_in_redis_reads_no_message(link: RedisLink) -> None:
    """A route to a gateway of the attacker's, written into Redis, is worth nothing either."""
    pubsub = await link.pubsub()
    await pubsub.subscribe(link.name("gateway", "attacker"))
    async with a_sender(link) as handover, asyncio.timeout(60):
        handover.notice(b"a secret", {"attacker": [ANN]})
        while (heard := await pubsub.get_message(timeout=1)) is None or heard["type"] != "message":
            pass
    await pubsub.aclose()  # type: ignore[no-untyped-call]
    assert b"secret" not in heard["data"]
    assert ANN.encode() not in heard["data"]


async def test_one_gateway_is_asked_or_all_of_them(link: RedisLink) -> None:
    async with (
        a_gateway(link, "g1", Step([])),
        a_gateway(link, "g2", Step([])),
        a_sender(link, 600.0) as handover,
    ):
        async with asyncio.timeout(60):
            one = await handover.ask("names", b"I am ", ["g2", "gone"])
            everyone = await handover.ask("names", b"I am ")

    assert one == {"g2": b"I am g2"}
    assert everyone == {"g1": b"I am g1", "g2": b"I am g2"}


async def test_a_gateway_that_does_not_know_the_subject_is_left_out(link: RedisLink) -> None:
    async with (
        a_gateway(link, "g1", Step([], answers=False)),
        a_gateway(link, "g2", Step([])),
        a_sender(link, 0.5) as handover,
    ):
        await until(lambda: handover.ask("names", b""), equals={"g2": b"g2"})
