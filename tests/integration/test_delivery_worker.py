# SPDX-License-Identifier: Apache-2.0
"""The delivery worker: order, gathering, what is finished when, and what is put aside."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.canary import MARK
from tests.support.delivery import DeliveryDeployment, at_once, open_delivery, tables_for_a_while
from tests.support.fake_gateways import FakeReader, ListFeed
from tests.support.intercepted import Gate, Intercepted
from tests.support.users import ANN, BOB, CAT
from tests.support.waiting import until
from tidings.delivery.deliverer import Deliverer, UnreadRecount
from tidings.delivery.worker import ATTEMPTS_MAX, Worker
from tidings.model.chats import Unread
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.delivery import DeliveryStore
from tidings.stores.dynamodb.chat import heads
from tidings.tasks import Backlog
from tidings.wire.events import CleanedEvent, HintEvent, encode_event


@pytest.fixture(scope="module")
def tables(dynamodb_endpoint: str) -> Iterator[str]:
    yield from tables_for_a_while(dynamodb_endpoint)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the master key of the module's deployment is."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture
async def delivery(
    dynamodb_endpoint: str, tables: str, folder: Path
) -> AsyncIterator[DeliveryDeployment]:
    async with open_delivery(dynamodb_endpoint, tables, folder) as delivery:
        yield delivery


@asynccontextmanager
async def working(
    delivery: DeliveryDeployment,
    feed: ListFeed,
    deliverer: Deliverer | None = None,
    backlog: Backlog | None = None,
) -> AsyncIterator[Worker]:
    """A worker at work."""

    async def count(user: UserKey, chat: ChatId) -> Unread | None:
        found = await delivery.store.receipts.unread(user, chat, delivery.clock.now())
        return None if found is None else found.unread

    deliverer = deliverer or delivery.deliverer()
    unread_recount = UnreadRecount(deliverer.states, delivery.gateways, delivery.gateways, count)
    worker = Worker(feed, deliverer, unread_recount, at_once, backlog or Backlog(), delivery.clock)
    worker.start()
    try:
        yield worker
    finally:
        await worker.close()


def publish(delivery: DeliveryDeployment, feed: ListFeed) -> list[int]:
    """Put all that was appended on the feed; returns the offsets."""
    offsets = feed.put(*delivery.events)
    delivery.events.clear()
    return offsets


def watched(
    delivery: DeliveryDeployment,
    around: Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]],
) -> Deliverer:
    """A deliverer with something done around each of its calls to the store."""
    return delivery.deliverer(cast(DeliveryStore, _Named(delivery.store.deliveries, around)))


def handed_up_to(device: FakeReader, sequence: int) -> bool:
    return device.sequences[-1:] == [sequence]


class _Named(Intercepted):
    """The same for calls with named arguments."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._port, name)
        return lambda *given, **named: self._around(name, lambda: value(*given, **named))


async def test_entries_of_many_chats_arrive_in_order_and_are_finished(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    chats = [await delivery.chat(ANN, BOB) for _ in range(4)]
    for _ in range(5):
        for chat in chats:
            await delivery.send(ANN, chat)
    device = delivery.gateways.connect(BOB)
    async with working(delivery, feed):
        offsets = publish(delivery, feed)
        await until(lambda: sorted(feed.finished) == offsets)
    for chat in chats:
        handed = [one.sequence for one in device.encoded_entries if one.chat_id == chat]
        assert handed == [1, 2, 3, 4, 5, 6]
        assert await delivery.head(chat) == 6


async def test_an_event_is_finished_only_after_the_head_copy_is_written(
    delivery: DeliveryDeployment,
) -> None:
    feed, gate, backlog = ListFeed(), Gate("advance"), Backlog()
    chat = await delivery.chat(ANN, BOB)
    delivery.clock.time += 100_000
    device = delivery.gateways.connect(BOB)
    async with working(delivery, feed, watched(delivery, gate), backlog):
        offsets = publish(delivery, feed)
        await gate.reached.wait()
        assert device.sequences == [1]
        assert feed.finished == []
        assert backlog.seconds >= 100, "so old is the entry"
        gate.opened.set()
        await until(lambda: feed.finished == offsets)
    assert backlog.seconds == 0
    assert await delivery.head(chat) == 1


async def test_a_worker_whose_feed_does_not_answer_counts_as_behind(
    delivery: DeliveryDeployment,
) -> None:
    feed, backlog = ListFeed(), Backlog()
    feed.is_down = True
    async with working(delivery, feed, backlog=backlog):
        await until(lambda: feed.refused > 3)
        assert backlog.seconds > 0, "nobody knows what waits there"
        feed.is_down = False
        await until(lambda: backlog.seconds == 0)


async def test_a_repeat_is_not_finished_before_the_first_is(delivery: DeliveryDeployment) -> None:
    feed, gate = ListFeed(), Gate("advance")
    await delivery.chat(ANN, BOB)
    async with working(delivery, feed, watched(delivery, gate)) as worker:
        again = list(delivery.events)
        publish(delivery, feed)
        await gate.reached.wait()
        feed.put(*again)
        await until(lambda: worker.settled_runs == 2)  # both have taken their first step
        assert feed.finished == []
        gate.opened.set()
        await until(lambda: feed.finished == [0, 1])


async def test_a_busy_chat_is_handed_out_at_once_and_its_head_written_seldom(
    delivery: DeliveryDeployment,
) -> None:
    feed, gate, writes = ListFeed(), Gate("advance"), 0

    async def counted(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        nonlocal writes
        writes += name == "advance"
        return await gate(name, call)

    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    async with working(delivery, feed, watched(delivery, counted)):
        publish(delivery, feed)
        await gate.reached.wait()
        for number in range(2, 12):
            await delivery.send(ANN, chat)
            publish(delivery, feed)
            await until(partial(handed_up_to, device, number))
        assert (writes, feed.finished) == (1, [])
        gate.opened.set()
        await until(lambda: len(feed.finished) == 11)
    assert writes == 2  # the first, and one for all that came meanwhile
    assert device.sequences == list(range(1, 12))
    assert await delivery.head(chat) == 11


@pytest.mark.attack("F11")
async def test_what_makes_no_sense_is_put_aside_and_holds_nobody_up(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    nowhere = ChatId("0" * 26)
    async with working(delivery, feed) as worker:
        feed.put(b"\xc1 no event", encode_event(HintEvent(nowhere, 1)))
        publish(delivery, feed)
        feed.put(encode_event(HintEvent(chat, 999)))
        await until(lambda: sorted(feed.finished) == [0, 1, 2, 3])
        assert worker.dead_letter == 3
    reasons = dict(feed.aside)
    assert sorted(reasons) == [0, 1, 3]
    assert "NotInLog" in reasons[1]
    assert set(device.sequences) == {1}


async def test_while_the_store_does_not_answer_nothing_is_put_aside(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    failures = 3 * ATTEMPTS_MAX

    async def away(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        nonlocal failures
        if name == "entries" and failures:
            failures -= 1
            raise StoreUnavailable
        return await call()

    chat = await delivery.chat(ANN, BOB)
    delivery.clock.time += 60_000  # old events: read from the log
    device = delivery.gateways.connect(BOB)
    async with working(delivery, feed, watched(delivery, away)) as worker:
        publish(delivery, feed)
        await until(lambda: feed.finished == [0])
        assert worker.failed_attempts == 3 * ATTEMPTS_MAX
    assert feed.aside == []
    assert device.sequences == [1]
    assert await delivery.head(chat) == 1


@pytest.mark.attack("F11")
async def test_a_chat_the_store_never_answers_for_is_put_aside_in_the_end(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    bad = await delivery.chat(ANN, BOB)

    async def away(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name == "entries" and delivery.gateways.devices == []:
            await asyncio.sleep(0)
            raise StoreUnavailable
        return await call()

    delivery.clock.time += 60_000
    async with working(delivery, feed, watched(delivery, away)):
        publish(delivery, feed)
        for _ in range(3 * ATTEMPTS_MAX):
            good = await delivery.chat(ANN, CAT)
            feed.put(encode_event(CleanedEvent(good, (1,))))
            delivery.events.clear()
            if feed.aside:
                break
        await until(lambda: bool(feed.aside))
    assert [offset for offset, _ in feed.aside] == [0]
    assert await delivery.head(bad) == 0


@pytest.mark.attack("F11")
async def test_one_bad_event_does_not_take_its_neighbours_with_it(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat)
    device = delivery.gateways.connect(BOB)
    first, second = delivery.events
    feed.put(first, encode_event(HintEvent(chat, 77)), second)
    async with working(delivery, feed):
        await until(lambda: sorted(feed.finished) == [0, 1, 2])
    assert [offset for offset, _ in feed.aside] == [1]
    assert sorted(set(device.sequences)) == [1, 2]
    assert await delivery.head(chat) == 2


async def test_events_of_two_writers_in_the_wrong_order_are_both_handed_out_and_pushed(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat)
    await delivery.send(ANN, chat)
    _, second, third = delivery.events
    async with working(delivery, feed):
        feed.put(third)
        await until(lambda: feed.finished == [0])
        feed.put(second)
        await until(lambda: feed.finished == [0, 1])
    assert sorted(delivery.push_queue.of(BOB)) == [2, 3]
    assert await delivery.head(chat) == 3


async def test_a_new_worker_delivers_earlier_entries_whose_event_was_lost(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    chat = await delivery.chat(ANN, BOB, CAT)
    await delivery.deliver(delivery.deliverer(), chat)
    await delivery.send(ANN, chat)
    await delivery.remove(chat, BOB)
    delivery.events.clear()
    await delivery.send(ANN, chat)
    removed = delivery.gateways.connect(BOB)
    async with working(delivery, feed):
        publish(delivery, feed)
        await until(lambda: feed.finished == [0])
    assert removed.sequences == [3]
    assert sorted(delivery.push_queue.of(CAT)) == [2, 4]
    assert await delivery.head(chat) == 4


async def test_cleaned_messages_bring_fresh_counts_to_the_connected(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    chat = await delivery.chat(ANN, BOB, CAT)
    await delivery.send(ANN, chat, "stays")
    await delivery.send(ANN, chat, "goes", ttl_seconds=5)
    delivery.clock.time += 5_000
    device = delivery.gateways.connect(BOB)
    async with working(delivery, feed):
        feed.put(encode_event(CleanedEvent(chat, (3,))))
        await until(lambda: feed.finished == [0])
    assert device.notices == [
        {"op": "unread", "chat": chat, "unread": 1, "unread_exact": True, "unread_mentions": 0}
    ]
    assert MARK not in str(device.notices)


@pytest.mark.attack("F11")
async def test_no_error_on_the_way_to_gateways_makes_a_dead_letter(
    delivery: DeliveryDeployment,
) -> None:
    feed = ListFeed()
    chat = await delivery.chat(ANN, BOB)
    delivery.gateways.connect(BOB)
    async with working(delivery, feed) as worker:
        delivery.gateways.lookup_error = RuntimeError("no lookup")
        publish(delivery, feed)
        feed.put(encode_event(CleanedEvent(chat, (1,))))
        await until(lambda: sorted(feed.finished) == [0, 1])
        delivery.gateways.lookup_error = None
        delivery.gateways.handover_error = RuntimeError("no handover")
        await delivery.send(ANN, chat)
        publish(delivery, feed)
        await until(lambda: sorted(feed.finished) == [0, 1, 2])
        assert worker.failed_attempts == 0
    assert feed.aside == []
    assert await delivery.head(chat) == 2


async def test_a_feed_that_is_away_is_waited_for(delivery: DeliveryDeployment) -> None:
    feed = ListFeed()
    feed.is_down = True
    await delivery.chat(ANN, BOB)
    async with working(delivery, feed):
        publish(delivery, feed)
        await until(lambda: feed.refused)
        feed.is_down = False
        await until(lambda: feed.finished == [0])


async def test_messages_that_were_stored_together_are_delivered_together(
    delivery: DeliveryDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay learns only where they begin, so the head copy never ends among them."""
    monkeypatch.setattr(heads, "WRITE_SECONDS_MIN", 0.001)
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat)
    await asyncio.gather(*(delivery.send(ANN, chat, f"{number}") for number in range(3)))
    assert [event.until for event in delivery.taken(2, 3, 4, 5)] == [2, 5, 5, 5]
    await delivery.deliver(delivery.deliverer(), chat, delivery.taken(1, 2, 3, 4))
    assert (await delivery.head(chat), device.sequences) == (5, [1, 2, 3, 4, 5])

    await asyncio.gather(*(delivery.send(ANN, chat, f"{number}") for number in range(3)))
    await delivery.deliverer().deliver(chat, after=5, up_to=6)
    assert (await delivery.head(chat), device.sequences) == (8, [1, 2, 3, 4, 5, 6, 7, 8])
