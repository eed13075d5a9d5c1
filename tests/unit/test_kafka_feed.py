# SPDX-License-Identifier: Apache-2.0
"""A feed whose consumer has failed, and does not recover."""

from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError

from tests.support.message_cipher import a_cipher
from tidings.buses import kafka_feed
from tidings.buses.kafka_clients import KafkaServers, Topics
from tidings.buses.kafka_feed import FAILURES_MAX, KafkaFeed
from tidings.ports.bus import FeedUnavailable

TOPICS = Topics()


class Consumer:
    """Stands for the consumer of the library, which raises the same error at every poll."""

    made: list["Consumer"]

    def __init__(self, **_: object) -> None:
        self.error: Exception | None = None
        self.is_stopped = False
        self.made.append(self)

    def subscribe(self, *_: object, **__: object) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None:
        self.is_stopped = True

    async def getmany(self, **_: object) -> dict[Any, Any]:
        if self.error is not None:
            raise self.error
        return {}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    """All consumers that were made."""

    async def ensure_topics(*_: object) -> None: ...

    Consumer.made = []
    monkeypatch.setattr(kafka_feed, "ensure_topics", ensure_topics)
    monkeypatch.setattr(kafka_feed, "AIOKafkaConsumer", Consumer)
    return Consumer.made


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
