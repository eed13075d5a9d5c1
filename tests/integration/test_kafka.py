# SPDX-License-Identifier: Apache-2.0
"""Events through a real Kafka: in order, sealed, again until finished, and never waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import aiokafka.client
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.conn import AIOKafkaConnection, create_conn

from tests.support.canary import MARK, canary
from tests.support.delivery import at_once
from tests.support.message_cipher import a_cipher
from tests.support.users import ANN
from tests.support.waiting import WAIT_SECONDS, retried, until
from tidings.buses import kafka, kafka_clients, kafka_feed
from tidings.buses.in_process import InProcessBus
from tidings.buses.kafka import KafkaPublisher
from tidings.buses.kafka_clients import (
    KafkaServers,
    Topics,
    ensure_topics,
    start_producer,
    stop_producer,
)
from tidings.buses.kafka_feed import KafkaFeed
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, ulid
from tidings.ports.bus import Appended, FeedEvent, FeedUnavailable
from tidings.tasks import Backlog
from tidings.wire.events import CleanedEvent, EntryEvent, HintEvent, decode_event, encode_event

CHATS = [ChatId(ulid(0, bytes([number] * 10))) for number in range(6)]


def servers_at(address: str | KafkaServers) -> KafkaServers:
    return KafkaServers(address) if isinstance(address, str) else address


@pytest.fixture
def topics() -> Topics:
    return Topics(f"test-{uuid4().hex[:12]}-")


def a_message(chat: ChatId, sequence: int) -> Appended:
    """A message as the appender publishes it: with its content open."""
    entry = Entry(
        chat_id=chat,
        kind="message",
        sender=ANN,
        sequence=sequence,
        client_message_id=f"m{sequence}",
        box=b"sealed",
        box_key=1,
        content=canary("open"),
    )
    state = ChatState(chat_id=chat, tenant="acme", type="group", name=None, members={})
    return Appended(entry, state)


@asynccontextmanager
async def publishing(
    address: str | KafkaServers, topics: Topics, bus: InProcessBus, partitions: int = 3
) -> AsyncIterator[KafkaPublisher]:
    publisher = KafkaPublisher(
        bus,
        servers=servers_at(address),
        topics=topics,
        cipher=a_cipher(),
        back_off=at_once,
        backlog=Backlog(),
        partitions=partitions,
    )
    publisher.start()
    try:
        yield publisher
    finally:
        await publisher.close()


@asynccontextmanager
async def taking(
    address: str | KafkaServers, topics: Topics, group: str
) -> AsyncIterator[KafkaFeed]:
    servers = servers_at(address)
    feed = KafkaFeed(servers=servers, topics=topics, cipher=a_cipher(), group=group, partitions=3)
    try:
        yield feed
    finally:
        await feed.close()


async def take(feed: KafkaFeed, count: int) -> list[FeedEvent]:
    """So many events, or as many as come."""
    received: list[FeedEvent] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(received) < count:
            received += await feed.take(100)
    return received


async def test_a_chats_events_arrive_in_order_and_sealed(
    kafka_address: str, topics: Topics
) -> None:
    bus = InProcessBus()
    async with publishing(kafka_address, topics, bus) as publisher:
        for sequence in range(1, 21):
            for chat in CHATS:
                bus.publish(a_message(chat, sequence))
        await until(lambda: publisher.published == 120)
        async with taking(kafka_address, topics, "g") as feed:
            received = await take(feed, 120)
    assert MARK.encode() not in b"".join(one.value for one in received)
    assert len({one.partition for one in received}) > 1
    for chat in CHATS:
        events = [decode_event(one.value) for one in received]
        places = [one.sequence for one in events if isinstance(one, EntryEvent)
                  and one.chat == chat]  # fmt: skip
        assert places == list(range(1, 21))
        assert len({one.partition for one in received if decode_event(one.value).chat == chat}) == 1
    assert publisher.dropped == 0


async def test_what_was_not_finished_comes_again(kafka_address: str, topics: Topics) -> None:
    bus = InProcessBus()
    chat = CHATS[0]
    async with publishing(kafka_address, topics, bus):
        for sequence in range(1, 6):
            bus.publish(a_message(chat, sequence))
        async with taking(kafka_address, topics, "g") as feed:
            first = await take(feed, 5)
            for index in (0, 1, 3, 4):  # the third is still under way: so is all after it
                feed.finish(first[index])
        async with taking(kafka_address, topics, "g") as feed:
            again = await take(feed, 3)
            assert [one.offset for one in again] == [2, 3, 4]
            for one in again:
                feed.finish(one)
        bus.publish(a_message(chat, 6))
        async with taking(kafka_address, topics, "g") as feed:
            (last,) = await take(feed, 1)
            assert last.offset == 5


async def test_two_workers_share_the_work_and_one_takes_over(
    kafka_address: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_feed, "HEARTBEAT_MS", 100)
    bus = InProcessBus()
    async with publishing(kafka_address, topics, bus):
        async with taking(kafka_address, topics, "g") as one:
            await one.take(1)
            async with taking(kafka_address, topics, "g") as other:
                async with asyncio.TaskGroup() as group:
                    group.create_task(other.take(1))
                    group.create_task(one.take(1))
                for chat in CHATS:
                    bus.publish(a_message(chat, 1))
                taken: list[tuple[KafkaFeed, FeedEvent]] = []
                async with asyncio.timeout(WAIT_SECONDS):
                    while len({received.value for _, received in taken}) < len(CHATS):
                        for feed in (one, other):
                            taken += [(feed, received) for received in await feed.take(100)]
                assert {id(feed) for feed, _ in taken} == {id(one), id(other)}
                for feed, received in taken:
                    if feed is one:
                        feed.finish(received)
            unfinished = {received.value for feed, received in taken if feed is other}
            again: set[bytes] = set()
            async with asyncio.timeout(WAIT_SECONDS):
                while not unfinished <= again:
                    again |= {received.value for received in await one.take(100)}
            assert again == unfinished


async def test_hints_and_cleanings_travel_too(
    kafka_address: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "HINT_SECONDS_MAX", WAIT_SECONDS)  # one that is late counts twice
    async with publishing(kafka_address, topics, InProcessBus()) as publisher:
        await until(lambda: publisher.hint(CHATS[0], 7))
        publisher.cleaned(CHATS[0], (3, 4))
        async with taking(kafka_address, topics, "g") as feed:
            received = await take(feed, 2)
    assert [decode_event(one.value) for one in received] == [
        HintEvent(CHATS[0], 7),
        CleanedEvent(CHATS[0], (3, 4)),
    ]


@pytest.mark.attack("S13", "H03")
async def test_an_event_that_no_process_of_ours_sealed_for_the_topic_is_dropped(
    kafka_address: str, topics: Topics
) -> None:
    elsewhere = Topics(f"{topics.prefix}other-")
    hint = encode_event(HintEvent(CHATS[0], 7))
    ours, stranger = a_cipher(), a_cipher(bytes(32))
    genuine = ours.seal(topics.messages, hint)
    forged = (
        hint,
        stranger.seal(topics.messages, hint),
        ours.seal(elsewhere.messages, hint),
        ours.seal(topics.inbox_jobs, hint),
        genuine[:-1] + bytes([genuine[-1] ^ 1]),
        b"",
    )
    await ensure_topics(KafkaServers(kafka_address), topics, 1)
    producer = await start_producer(KafkaServers(kafka_address))
    for value in (*forged, genuine):
        await producer.send_and_wait(topics.messages, value)
    await stop_producer(producer)
    async with taking(kafka_address, topics, "g") as feed:
        (received,) = await take(feed, 1)
        assert (received.value, received.offset) == (hint, len(forged))
        assert feed.refused == len(forged)
        feed.finish(received)
    async with taking(kafka_address, topics, "g") as feed:
        assert await feed.take(1) == [], "what was refused is finished, too"
        assert feed.refused == 0


@pytest.mark.attack("F11")
async def test_what_is_put_aside_is_kept_with_its_reason(
    kafka_address: str, topics: Topics
) -> None:
    async with taking(kafka_address, topics, "g") as feed:
        await feed.take(1)
        await feed.dead_letter(FeedEvent(2, 41, b"strange"), "makes no sense")
    consumer = AIOKafkaConsumer(
        topics.dead_of(topics.messages),
        bootstrap_servers=kafka_address,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            record = await consumer.getone()
    finally:
        await consumer.stop()
    assert record.value == b"strange"
    assert dict(record.headers) == {
        "reason": b"makes no sense",
        "partition": b"2",
        "offset": b"41",
    }


async def test_topics_are_made_once(kafka_address: str, topics: Topics) -> None:
    await ensure_topics(KafkaServers(kafka_address), topics, 5)
    await ensure_topics(KafkaServers(kafka_address), topics, 7)
    consumer = AIOKafkaConsumer(topics.messages, bootstrap_servers=kafka_address)
    await consumer.start()
    try:
        assert len(consumer.partitions_for_topic(topics.messages)) == 5
    finally:
        await consumer.stop()


async def test_without_kafka_events_are_dropped_and_nobody_waits(
    monkeypatch: pytest.MonkeyPatch, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kafka, "WAITING_EVENTS_MAX", 10)
    bus = InProcessBus()
    servers = KafkaServers("127.0.0.1:1")
    backlog = Backlog()
    publisher = KafkaPublisher(
        bus, servers=servers, topics=topics, cipher=a_cipher(), back_off=at_once, backlog=backlog
    )
    publisher.start()
    for sequence in range(1, 31):
        bus.publish(a_message(CHATS[0], sequence))
    assert publisher.dropped == 20
    assert backlog.seconds > 0, "dropped ones count until the relay has delivered them"
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "LOG_SECONDS_MIN", 0.0)
        assert not await publisher.hint(CHATS[0], 1)
        await until(lambda: "Kafka cannot be reached" in caplog.text)
    await publisher.close()
    assert MARK not in caplog.text
    assert caplog.text.count("events are dropped") <= 1
    with pytest.raises(FeedUnavailable):
        await KafkaFeed(servers=servers, topics=topics, cipher=a_cipher()).take(1)


async def test_a_group_that_does_not_say_good_bye_is_left_all_the_same(
    kafka_address: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.all_tasks()
    bus = InProcessBus()
    async with publishing(kafka_address, topics, bus):
        bus.publish(a_message(CHATS[0], 1))
        feed = KafkaFeed(
            servers=KafkaServers(kafka_address),
            topics=topics,
            cipher=a_cipher(),
            group="g",
            partitions=3,
        )
        await take(feed, 1)
    connections = list(feed._consumer._client._conns.values())
    monkeypatch.setattr(kafka_clients, "CONSUMER_SECONDS_MAX", 0.0)
    await feed.close()
    assert connections
    assert not any(one.connected() for one in connections)
    await until(lambda: asyncio.all_tasks() == before)


async def test_who_gives_up_while_it_starts_leaves_no_connection(
    kafka_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: asyncio.Queue[AIOKafkaConnection] = asyncio.Queue()

    async def create(*where: object, **how: object) -> AIOKafkaConnection:
        connection = await create_conn(*where, **how)
        made.put_nowait(connection)
        return connection

    monkeypatch.setattr(aiokafka.client, "create_conn", create)
    starting = asyncio.create_task(start_producer(KafkaServers(kafka_address)))
    first = await made.get()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert starting.cancelled()
    assert not first.connected()


async def take_until(feed: KafkaFeed, sequence: int) -> list[FeedEvent]:
    """All events up to the one that tells of this sequence."""
    received: list[FeedEvent] = []

    async def is_there() -> bool:
        received.extend(await retried(lambda: feed.take(100), FeedUnavailable))
        events = [decode_event(one.value) for one in received]
        return any(not isinstance(one, CleanedEvent) and one.sequence == sequence for one in events)

    await until(is_there, describe=lambda: received)
    return received
