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
from tests.support.delivery_office import (
    ANN,
    BOB,
    CAT,
    Office,
    at_once,
    open_office,
    tables_for_a_while,
    until,
)
from tests.support.town import Device, ListFeed
from tests.unit.worlds import Gate, Watched
from tidings.delivery.deliverer import Deliverer, UnreadRecount
from tidings.delivery.worker import ATTEMPTS_MAX, Worker
from tidings.model.chats import Unread
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.delivery import DeliveryStore
from tidings.wire.events import CleanedEvent, HintEvent, encode_event


@pytest.fixture(scope="module")
def tables(dynamodb_endpoint: str) -> Iterator[str]:
    yield from tables_for_a_while(dynamodb_endpoint)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the master key of the module's deployment is."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture
async def office(dynamodb_endpoint: str, tables: str, folder: Path) -> AsyncIterator[Office]:
    async with open_office(dynamodb_endpoint, tables, folder) as office:
        yield office


@asynccontextmanager
async def working(
    office: Office, feed: ListFeed, deliverer: Deliverer | None = None
) -> AsyncIterator[Worker]:
    """A worker at work."""

    async def count(user: UserKey, chat: ChatId) -> Unread | None:
        return await office.store.receipts.unread(user, chat, office.clock.now())

    deliverer = deliverer or office.deliverer()
    unread_recount = UnreadRecount(deliverer.states, office.town, office.town, count)
    worker = Worker(feed, deliverer, unread_recount, at_once)
    worker.start()
    try:
        yield worker
    finally:
        await worker.close()


def publish(office: Office, feed: ListFeed) -> list[int]:
    """Put all that was appended on the feed; returns the offsets."""
    offsets = feed.put(*office.events)
    office.events.clear()
    return offsets


def watched(
    office: Office, around: Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
) -> Deliverer:
    """A deliverer with something done around each of its calls to the store."""
    return office.deliverer(cast(DeliveryStore, _Named(office.store.deliveries, around)))


def handed_up_to(device: Device, sequence: int) -> bool:
    return device.sequences[-1:] == [sequence]


class _Named(Watched):
    """The same for calls with named arguments."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._port, name)
        return lambda *given, **named: self._around(name, lambda: value(*given, **named))


async def test_entries_of_many_chats_arrive_in_order_and_are_finished(office: Office) -> None:
    feed = ListFeed()
    chats = [await office.chat(ANN, BOB) for _ in range(4)]
    for _ in range(5):
        for chat in chats:
            await office.send(ANN, chat)
    device = office.town.connect(BOB)
    async with working(office, feed):
        offsets = publish(office, feed)
        await until(lambda: sorted(feed.finished) == offsets)
    for chat in chats:
        handed = [one.sequence for one in device.encoded_entries if one.chat_id == chat]
        assert handed == [1, 2, 3, 4, 5, 6]
        assert await office.head(chat) == 6


async def test_an_event_is_finished_only_after_the_head_copy_is_written(office: Office) -> None:
    feed, gate = ListFeed(), Gate("advance")
    chat = await office.chat(ANN, BOB)
    device = office.town.connect(BOB)
    async with working(office, feed, watched(office, gate)):
        offsets = publish(office, feed)
        await gate.reached.wait()
        assert device.sequences == [1]
        assert feed.finished == []
        gate.opened.set()
        await until(lambda: feed.finished == offsets)
    assert await office.head(chat) == 1


async def test_a_repeat_is_not_finished_before_the_first_is(office: Office) -> None:
    feed, gate = ListFeed(), Gate("advance")
    await office.chat(ANN, BOB)
    async with working(office, feed, watched(office, gate)) as worker:
        again = list(office.events)
        publish(office, feed)
        await gate.reached.wait()
        feed.put(*again)
        await until(lambda: worker.settled_runs == 2)  # both have taken their first step
        assert feed.finished == []
        gate.opened.set()
        await until(lambda: feed.finished == [0, 1])


async def test_a_busy_chat_is_handed_out_at_once_and_its_head_written_seldom(
    office: Office,
) -> None:
    feed, gate, writes = ListFeed(), Gate("advance"), 0

    async def counted(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        nonlocal writes
        writes += name == "advance"
        return await gate(name, call)

    chat = await office.chat(ANN, BOB)
    device = office.town.connect(BOB)
    async with working(office, feed, watched(office, counted)):
        publish(office, feed)
        await gate.reached.wait()
        for number in range(2, 12):
            await office.send(ANN, chat)
            publish(office, feed)
            await until(partial(handed_up_to, device, number))
        assert (writes, feed.finished) == (1, [])
        gate.opened.set()
        await until(lambda: len(feed.finished) == 11)
    assert writes == 2  # the first, and one for all that came meanwhile
    assert device.sequences == list(range(1, 12))
    assert await office.head(chat) == 11


@pytest.mark.attack("F11")
async def test_what_makes_no_sense_is_put_aside_and_holds_nobody_up(office: Office) -> None:
    feed = ListFeed()
    chat = await office.chat(ANN, BOB)
    device = office.town.connect(BOB)
    nowhere = ChatId("0" * 26)
    async with working(office, feed) as worker:
        feed.put(b"\xc1 no event", encode_event(HintEvent(nowhere, 1)))
        publish(office, feed)
        feed.put(encode_event(HintEvent(chat, 999)))
        await until(lambda: sorted(feed.finished) == [0, 1, 2, 3])
        assert worker.dead_letter == 3
    reasons = dict(feed.aside)
    assert sorted(reasons) == [0, 1, 3]
    assert "NotInLog" in reasons[1]
    assert set(device.sequences) == {1}


async def test_while_the_store_does_not_answer_nothing_is_put_aside(office: Office) -> None:
    feed = ListFeed()
    failures = 3 * ATTEMPTS_MAX

    async def away(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        nonlocal failures
        if name == "entries" and failures:
            failures -= 1
            raise StoreUnavailable
        return await call()

    chat = await office.chat(ANN, BOB)
    office.clock.time += 60_000  # old events: read from the log
    device = office.town.connect(BOB)
    async with working(office, feed, watched(office, away)) as worker:
        publish(office, feed)
        await until(lambda: feed.finished == [0])
        assert worker.failed_attempts == 3 * ATTEMPTS_MAX
    assert feed.aside == []
    assert device.sequences == [1]
    assert await office.head(chat) == 1


@pytest.mark.attack("F11")
async def test_a_chat_the_store_never_answers_for_is_put_aside_in_the_end(office: Office) -> None:
    feed = ListFeed()
    bad = await office.chat(ANN, BOB)

    async def away(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name == "entries" and office.town.devices == []:
            await asyncio.sleep(0)
            raise StoreUnavailable
        return await call()

    office.clock.time += 60_000
    async with working(office, feed, watched(office, away)):
        publish(office, feed)
        for _ in range(3 * ATTEMPTS_MAX):
            good = await office.chat(ANN, CAT)
            feed.put(encode_event(CleanedEvent(good, (1,))))
            office.events.clear()
            if feed.aside:
                break
        await until(lambda: bool(feed.aside))
    assert [offset for offset, _ in feed.aside] == [0]
    assert await office.head(bad) == 0


@pytest.mark.attack("F11")
async def test_one_bad_event_does_not_take_its_neighbours_with_it(office: Office) -> None:
    feed = ListFeed()
    chat = await office.chat(ANN, BOB)
    await office.send(ANN, chat)
    device = office.town.connect(BOB)
    first, second = office.events
    feed.put(first, encode_event(HintEvent(chat, 77)), second)
    async with working(office, feed):
        await until(lambda: sorted(feed.finished) == [0, 1, 2])
    assert [offset for offset, _ in feed.aside] == [1]
    assert sorted(set(device.sequences)) == [1, 2]
    assert await office.head(chat) == 2


async def test_events_of_two_writers_in_the_wrong_order_are_both_handed_out_and_pushed(
    office: Office,
) -> None:
    feed = ListFeed()
    chat = await office.chat(ANN, BOB)
    await office.send(ANN, chat)
    await office.send(ANN, chat)
    _, second, third = office.events
    async with working(office, feed):
        feed.put(third)
        await until(lambda: feed.finished == [0])
        feed.put(second)
        await until(lambda: feed.finished == [0, 1])
    assert sorted(office.posts.of(BOB)) == [2, 3]
    assert await office.head(chat) == 3


async def test_cleaned_messages_bring_fresh_counts_to_the_connected(office: Office) -> None:
    feed = ListFeed()
    chat = await office.chat(ANN, BOB, CAT)
    await office.send(ANN, chat, "stays")
    await office.send(ANN, chat, "goes", ttl_seconds=5)
    office.clock.time += 5_000
    device = office.town.connect(BOB)
    async with working(office, feed):
        feed.put(encode_event(CleanedEvent(chat, (3,))))
        await until(lambda: feed.finished == [0])
    assert device.notices == [{"op": "unread", "chat": chat, "unread": 1, "unread_exact": True}]
    assert MARK not in str(device.notices)


async def test_a_feed_that_is_away_is_waited_for(office: Office) -> None:
    feed = ListFeed()
    feed.is_down = True
    await office.chat(ANN, BOB)
    async with working(office, feed):
        publish(office, feed)
        await asyncio.sleep(0.01)
        feed.is_down = False
        await until(lambda: feed.finished == [0])
