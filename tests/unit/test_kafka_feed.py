# SPDX-License-Identifier: Apache-2.0
"""A feed whose consumer has failed, or whose Kafka is silent."""

import asyncio
import gc
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, KafkaError

from tests.support.message_cipher import a_cipher
from tests.support.waiting import until
from tidings.buses import kafka_commits, kafka_feed
from tidings.buses.kafka_clients import KafkaServers, Topics
from tidings.buses.kafka_feed import FAILURES_MAX, KafkaFeed
from tidings.ports.bus import FeedEvent, FeedUnavailable
from tidings.tasks import Backlog

TOPICS = Topics()


class Consumer:
    """Stands for the consumer of the library, with one partition."""

    made: list["Consumer"]

    def __init__(self, **_: object) -> None:
        self.error: Exception | None = None
        self.is_stopped = False
        self.answered_at: int | None = None
        self.is_assigned = asyncio.Event()
        self.is_assigned.set()
        self.requests: list[tuple[dict[TopicPartition, int], asyncio.Future[None]]] = []
        self.made.append(self)

    def subscribe(self, *_: object, **__: object) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None:
        self.is_stopped = True
        for _, answer in self.requests:
            if not answer.done():
                answer.set_exception(KafkaConnectionError("stopped"))

    async def getmany(self, **_: object) -> dict[Any, Any]:
        if self.error is not None:
            raise self.error
        await self.is_assigned.wait()
        return {}

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        """Commit like the library: the request goes on if the caller gives up."""
        self.requests.append((offsets, answer := asyncio.get_running_loop().create_future()))
        await asyncio.shield(self._answered(answer))

    async def _answered(self, answer: asyncio.Future[None]) -> None:
        await answer

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(TOPICS.messages, 0)} if self.is_assigned.is_set() else set()

    def last_poll_timestamp(self, _: TopicPartition) -> int | None:
        return self.answered_at


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    """All consumers that were made."""

    async def ensure_topics(*_: object) -> None: ...

    Consumer.made = []
    monkeypatch.setattr(kafka_feed, "ensure_topics", ensure_topics)
    monkeypatch.setattr(kafka_feed, "AIOKafkaConsumer", Consumer)
    monkeypatch.setattr(kafka_feed, "SILENT_SECONDS_MAX", 0.01)
    return Consumer.made


def finished(feed: KafkaFeed, offset: int) -> None:
    """An event is taken and finished."""
    feed._offsets.taken(0, offset)
    feed.finish(FeedEvent(0, offset, b""))


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("g"), RuntimeError("unexpected")])
async def test_a_consumer_that_does_not_recover_is_replaced(
    made: list[Consumer], error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    feed = KafkaFeed(servers=KafkaServers("localhost:9"), topics=TOPICS, cipher=a_cipher())
    assert await feed.take(1) == []
    made[0].error = error
    for _ in range(FAILURES_MAX):
        with pytest.raises((FeedUnavailable, RuntimeError)):
            await feed.take(1)
    assert await feed.take(1) == []
    assert [one.is_stopped for one in made] == [True, False]
    if isinstance(error, GroupAuthorizationFailedError):
        assert caplog.text.count("nothing can be taken from Kafka") == 1
    await feed.close()


async def test_a_worker_whose_kafka_is_silent_counts_as_behind(made: list[Consumer]) -> None:
    """The library raises nothing meanwhile."""
    backlog = Backlog()
    feed = KafkaFeed(
        servers=KafkaServers("localhost:9"), topics=TOPICS, cipher=a_cipher(), backlog=backlog
    )
    assert backlog.seconds == 0, "the worker itself counts a feed that it cannot join"
    await feed.take(1)
    await until(lambda: backlog.seconds > 0)
    made[0].answered_at = 1
    assert backlog.seconds == 0
    await feed.close()
    assert backlog.seconds == 0


async def test_a_worker_that_waits_for_partitions_counts_as_behind(made: list[Consumer]) -> None:
    backlog = Backlog()
    feed = KafkaFeed(
        servers=KafkaServers("localhost:9"), topics=TOPICS, cipher=a_cipher(), backlog=backlog
    )
    await feed.take(1)
    made[0].is_assigned.clear()
    taking = asyncio.create_task(feed.take(1))
    await until(lambda: backlog.seconds > 0)
    made[0].is_assigned.set()
    await taking
    assert backlog.seconds == 0
    await feed.close()


@pytest.mark.parametrize("error", [None, KafkaError("not now")])
async def test_a_commit_that_takes_too_long_is_not_left_alone(
    made: list[Consumer], monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """The next one waits for it, and nobody is told that its error was lost."""
    monkeypatch.setattr(kafka_commits, "COMMIT_SECONDS_MAX", 0.01)
    monkeypatch.setattr(kafka_feed, "COMMIT_SECONDS", 0)
    feed = KafkaFeed(servers=KafkaServers("localhost:9"), topics=TOPICS, cipher=a_cipher())
    await feed.take(1)
    finished(feed, 0)
    await feed.take(1)
    await feed.take(1)
    ((_, answer),) = made[0].requests
    assert (feed.commits, feed.failed_commits) == (0, 2)
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)
    monkeypatch.setattr(kafka_commits, "COMMIT_SECONDS_MAX", 60)
    taking = asyncio.create_task(feed.take(1))
    await until(lambda: len(made[0].requests) == 2)
    offsets, second = made[0].requests[1]
    assert offsets == {TopicPartition(TOPICS.messages, 0): 1}
    second.set_result(None)
    await taking
    assert feed.commits == 1
    await feed.close()
    gc.collect()


async def test_a_commit_that_is_still_under_way_ends_with_its_consumer(
    made: list[Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_commits, "COMMIT_SECONDS_MAX", 0.01)
    feed = KafkaFeed(servers=KafkaServers("localhost:9"), topics=TOPICS, cipher=a_cipher())
    await feed.take(1)
    finished(feed, 0)
    await feed.close()
    assert feed.failed_commits == 1
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    gc.collect()
