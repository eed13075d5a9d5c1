# SPDX-License-Identifier: Apache-2.0
"""Records that no process of ours sealed: put aside without holding up or losing the others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from tests.support.message_cipher import a_cipher
from tidings.buses import kafka_feed
from tidings.buses.kafka_clients import KafkaServers, Topics
from tidings.buses.kafka_feed import KafkaFeed
from tidings.ports.bus import FeedEvent, FeedUnavailable

TOPICS = Topics()
JOBS = TOPICS.inbox_jobs


class Kafka:
    """Stands for the consumer and for the producer: one partition, and a topic for the dead."""

    def __init__(self, *values: bytes) -> None:
        self.records = [
            SimpleNamespace(partition=0, offset=i, value=v, headers=())
            for i, v in enumerate(values)
        ]
        self.dead: list[bytes] = []
        self.is_broken = False
        self.is_silent = False
        self.asked = asyncio.Event()
        self.fails = asyncio.Event()
        self.committed = 0
        self.stops = 0

    async def stop(self) -> None:
        self.stops += 1

    async def getmany(self, *, timeout_ms: int, max_records: int) -> dict[int, list[Any]]:
        some, self.records = self.records[:max_records], self.records[max_records:]
        return {0: some}

    def assignment(self) -> set[object]:
        """Return no partition: metrics of other tests may be read while the feed exists."""
        return set()

    async def commit(self, places: dict[object, int]) -> None:
        (self.committed,) = places.values()

    async def send_and_wait(self, _topic: str, value: bytes, headers: object) -> None:
        self.asked.set()
        if self.is_silent:
            await self.fails.wait()
        if self.is_broken:
            raise KafkaError("too large, or gone")
        self.dead.append(value)


def a_feed(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> KafkaFeed:
    async def start_producer(_: KafkaServers) -> Kafka:
        return kafka

    monkeypatch.setattr(kafka_feed, "start_producer", start_producer)
    feed = KafkaFeed(
        servers=KafkaServers("localhost:9"),
        topics=TOPICS,
        cipher=a_cipher(),
        topic=JOBS,
        keeps_refused=True,
    )
    feed._consumer = feed._producer = kafka
    return feed


def job(number: int) -> bytes:
    return a_cipher().seal(JOBS, b"job %d" % number)


@pytest.mark.attack("S13")
async def test_a_forged_record_that_cannot_be_put_aside_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka(job(1), b"forged", job(2), job(3))
    feed = a_feed(kafka, monkeypatch)
    kafka.is_broken = True

    first = await feed.take(3)
    assert [one.value for one in first] == [b"job 1", b"job 2"]
    assert [one.value for one in await feed.take(3)] == [b"job 3"]
    for one in first:
        feed.finish(one)
    await feed._commit()
    assert (kafka.dead, kafka.committed) == ([], 1), "what is nowhere else comes again"

    assert kafka.stops, "a producer that failed is replaced"
    kafka.is_broken = False
    await feed.take(3)
    await feed._commit()
    assert (kafka.dead, kafka.committed) == ([b"forged"], 3)


@pytest.mark.attack("S13")
async def test_a_record_as_large_as_may_be_is_put_aside_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_feed, "DEAD_LETTER_BYTES_MAX", 10)
    kafka = Kafka(b"x" * 11)
    feed = a_feed(kafka, monkeypatch)
    for _ in range(2):
        assert await feed.take(1) == []
    assert kafka.dead == [b"x" * 10]


@pytest.mark.attack("S13")
async def test_forged_records_that_cannot_be_put_aside_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_feed, "DEAD_LETTERS_WAITING_MAX", 2)
    kafka = Kafka(b"a", b"b", job(1))
    feed = a_feed(kafka, monkeypatch)
    kafka.is_broken = True
    assert await feed.take(2) == []
    with pytest.raises(FeedUnavailable):
        await feed.take(2)
    kafka.is_broken = False
    assert [one.value for one in await feed.take(2)] == [b"job 1"]


async def test_a_dead_letter_does_not_wait_for_the_producer_that_failed_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer that is stopped never ends what it has not sent."""
    broken, good = Kafka(), Kafka()
    feed = a_feed(broken, monkeypatch)
    broken.is_broken = broken.is_silent = True

    async def start_producer(_: KafkaServers) -> Kafka:
        return good

    monkeypatch.setattr(kafka_feed, "start_producer", start_producer)
    one = asyncio.create_task(feed.dead_letter(FeedEvent(0, 1, b"one"), "bad"))
    await broken.asked.wait()
    other = asyncio.create_task(feed.dead_letter(FeedEvent(0, 2, b"other"), "bad"))
    await asyncio.sleep(0)
    broken.fails.set()
    with pytest.raises(FeedUnavailable):
        await one
    await other
    assert (broken.stops, good.dead) == (1, [b"other"])


async def test_a_dead_letter_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_feed, "DEAD_LETTER_SECONDS_MAX", 0.01)
    kafka = Kafka()
    feed = a_feed(kafka, monkeypatch)
    kafka.is_silent = True
    with pytest.raises(FeedUnavailable):
        await feed.dead_letter(FeedEvent(0, 1, b"one"), "bad")
    assert kafka.stops == 1
