# SPDX-License-Identifier: Apache-2.0
"""The queue of push notices: what it remembers of a busy chat, and when it trusts a receipt."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import cast

from tests.support.clock import ManualClock
from tests.support.users import BOB
from tests.support.waiting import until
from tests.unit.small_deployment import ALICE, CHAT
from tidings.actions.push.journal import PushJournal
from tidings.actions.push.noticing import WaitingMessages
from tidings.assembly.push_queue import NoDevices
from tidings.delivery.push_queue import MESSAGES_MAX, TENANT_WORKERS, PushQueue
from tidings.metrics import declared
from tidings.model.ids import UserKey, tenant_of
from tidings.model.push_rules import ArrivedMessage, Reason
from tidings.model.refusals import StoreUnavailable
from tidings.ports.push import PushNotice


class Recorder:
    """Makes no notice, and records for which messages it was asked to."""

    def __init__(self) -> None:
        self.asked: list[WaitingMessages] = []

    async def make(self, waiting: WaitingMessages) -> PushNotice | Reason:
        self.asked.append(waiting)
        return PushNotice(kind="message", data={}, collapse_key=waiting.chat)

    async def send(self, user: UserKey, notice: PushNotice) -> None:
        """Take a notice."""

    @property
    def sequences(self) -> list[list[int]]:
        return [[one.sequence for one in waiting.messages] for waiting in self.asked]


@asynccontextmanager
async def open_queue(recorder: Recorder, *, wait: float, gather: float) -> AsyncIterator[PushQueue]:
    queue = PushQueue(
        recorder.make,
        recorder.send,
        NoDevices(),
        PushJournal(ManualClock()),
        wait_seconds=wait,
        gather_seconds=gather,
    )
    queue.start()
    yield queue
    await queue.close()


def offer(
    queue: PushQueue,
    sequence: int,
    *,
    is_looking: bool = False,
    receipts_tell: bool = False,
    is_mention: bool = False,
) -> None:
    message = ArrivedMessage(sequence, ALICE, is_mention)
    queue.offer(
        BOB, CHAT, message, is_small=True, is_looking=is_looking, receipts_tell=receipts_tell
    )


async def test_a_user_of_a_busy_chat_is_notified_when_the_first_message_is_due() -> None:
    recorder = Recorder()
    async with open_queue(recorder, wait=0.2, gather=0.2) as queue:
        start = asyncio.get_running_loop().time()
        sequence = 0

        def is_noticed() -> bool:
            nonlocal sequence
            for _ in range(MESSAGES_MAX):
                sequence += 1
                offer(queue, sequence, is_looking=True)
            return bool(recorder.asked)

        await until(is_noticed)
        assert asyncio.get_running_loop().time() >= start + 0.2
        assert recorder.sequences[0][-1] == 1
        assert queue.depths()["messages"] <= MESSAGES_MAX


async def test_messages_that_are_offered_in_another_order_are_one_notice_of_the_newest() -> None:
    recorder = Recorder()
    async with open_queue(recorder, wait=0.0, gather=0.0) as queue:
        for sequence in (3, 5, 4):
            offer(queue, sequence)
        assert [queue._waits(BOB, CHAT, sequence) for sequence in (2, 3, 5, 6)] == [
            False, True, True, False,
        ]  # fmt: skip
        await until(lambda: recorder.sequences, equals=[[5, 4, 3]])


async def test_of_many_messages_those_that_mention_the_user_are_remembered() -> None:
    recorder = Recorder()
    async with open_queue(recorder, wait=0, gather=0.1) as queue:
        offer(queue, 1)
        await until(lambda: len(recorder.asked) == 1)
        for sequence in range(2, 21):
            offer(queue, sequence, is_mention=sequence == 5)
        await until(lambda: len(recorder.asked) == 2)
    assert recorder.sequences == [[1], [20, 19, 18, 17, 16, 15, 5, 2]]


async def test_every_message_is_counted_with_what_became_of_it() -> None:
    before, reasons = Counter(declared.push_messages.counts), iter(("muted", "not_claimed"))

    async def make(waiting: WaitingMessages) -> PushNotice | Reason:
        newest = waiting.messages[0].sequence
        if newest == 40:
            raise StoreUnavailable
        if newest > 20:
            return cast(Reason, next(reasons))
        return PushNotice(kind="message", data={}, collapse_key=waiting.chat)

    recorder = Recorder()
    recorder.make = make  # type: ignore[method-assign]

    def counted() -> Counter[Hashable]:
        return Counter(declared.push_messages.counts) - before

    async with open_queue(recorder, wait=0, gather=0) as queue:
        for number in range(1, 21):
            offer(queue, number)
        await until(lambda: counted()["noticed"], equals=20)
        for number in (21, 22, 40):
            offer(queue, number)
            await until(lambda: 2 * counted()["offered"] == counted().total())
    assert counted() == {"offered": 23, "noticed": 20, "muted": 1, "not_claimed": 1, "failed": 1}


async def test_what_was_known_of_earlier_messages_does_not_make_a_receipt_doubtful() -> None:
    recorder = Recorder()
    async with open_queue(recorder, wait=0.1, gather=0.2) as queue:
        offer(queue, 1)
        await until(lambda: len(recorder.asked) == 1)
        offer(queue, 2)  # nobody looks at a device
        offer(queue, 3, is_looking=True, receipts_tell=True)
        await until(lambda: sum(map(len, recorder.sequences)) == 3)
    told = {waiting.messages[0].sequence: waiting.unless_delivered for waiting in recorder.asked}
    assert told[1] is False
    assert told[3] is True, "a device that is not away got it"


async def test_slow_push_services_of_some_tenants_do_not_delay_another() -> None:
    begun: Counter[str] = Counter()

    async def send(user: UserKey, notice: PushNotice) -> None:
        begun[tenant_of(user)] += 1
        if tenant_of(user).startswith("slow"):
            await asyncio.Event().wait()

    journal = PushJournal(ManualClock())
    queue = PushQueue(Recorder().make, send, NoDevices(), journal, wait_seconds=0, gather_seconds=0)
    queue.start()
    message = ArrivedMessage(1, ALICE, is_mention=False)

    def offer_to(user: str) -> None:
        queue.offer(
            UserKey(user), CHAT, message, is_small=True, is_looking=False, receipts_tell=False
        )

    for tenant in ("slow1", "slow2", "slow3"):
        for number in range(TENANT_WORKERS + 1):
            offer_to(f"{tenant}:u{number}")
    await until(lambda: begun.total() == 3 * TENANT_WORKERS)
    offer_to("quick:ann")
    await until(lambda: begun["quick"] == 1)
    await queue.close()
