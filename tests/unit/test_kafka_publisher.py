# SPDX-License-Identifier: Apache-2.0
"""The publisher replaces a producer that does not recover, and goes on after any error."""

import asyncio

import pytest
from aiokafka.errors import KafkaError

from tests.support.delivery import at_once
from tests.support.message_cipher import a_cipher
from tests.support.waiting import until
from tidings import tasks
from tidings.buses import kafka
from tidings.buses.in_process import InProcessBus
from tidings.buses.kafka import KafkaPublisher
from tidings.buses.kafka_clients import KafkaServers, Topics
from tidings.model.ids import ChatId, ulid
from tidings.tasks import Backlog

CHAT = ChatId(ulid(0, bytes(10)))


class Producer:
    """Answers nothing, then fails; or answers everything."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self.unanswered: list[asyncio.Future[None]] = []
        self.is_failing = False
        self.hints = 0
        self.stuck: bytes | None = None
        """A chat for whose partition there is no room, because it has no leader."""
        self.stuck_sends = 0

    async def send_and_wait(self, *_: object, **__: object) -> None:
        self.hints += 1
        if not self._answers:
            await asyncio.Event().wait()

    async def send(self, *_: object, key: bytes, **__: object) -> "asyncio.Future[None]":
        if key == self.stuck:
            self.stuck_sends += 1
            await asyncio.Event().wait()
        if self.is_failing:
            raise KafkaError
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._answers:
            sent.set_result(None)
        else:
            self.unanswered.append(sent)
        return sent

    async def flush(self) -> None:
        """All was answered."""

    async def stop(self) -> None:
        """Like a producer that cannot reach Kafka: the unanswered futures stay as they are."""


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> list[Producer | Exception]:
    """The producers that are started, in order, or the errors of starting one."""
    waiting: list[Producer | Exception] = []

    async def start_producer(_: KafkaServers) -> Producer:
        found = waiting.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def ensure_topics(*_: object) -> None:
        return None

    monkeypatch.setattr(kafka, "start_producer", start_producer)
    monkeypatch.setattr(kafka, "ensure_topics", ensure_topics)
    return waiting


def a_publisher() -> KafkaPublisher:
    return KafkaPublisher(
        InProcessBus(),
        servers=KafkaServers("localhost:9"),
        topics=Topics(),
        cipher=a_cipher(),
        back_off=at_once,
        backlog=Backlog(),
    )


async def test_events_without_an_answer_are_dropped_with_their_producer(
    producers: list[Producer | Exception],
) -> None:
    silent = Producer(answers=False)
    producers += [silent, Producer(answers=True)]
    publisher = a_publisher()
    publisher.start()
    publisher.cleaned(CHAT, (1,))
    await until(lambda: silent.unanswered)
    silent.is_failing = True
    for _ in range(kafka.FAILURES_MAX):
        publisher.cleaned(CHAT, (2,))
    await until(lambda: publisher.dropped == kafka.FAILURES_MAX + 1)
    publisher.cleaned(CHAT, (3,))
    await until(lambda: publisher.published == 1)
    await publisher.close()


async def test_an_unexpected_error_does_not_end_the_publisher(
    producers: list[Producer | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "BACK_OFF_SECONDS", 0.0)
    producers += [RuntimeError("unexpected"), Producer(answers=True)]
    publisher = a_publisher()
    publisher.start()
    publisher.cleaned(CHAT, (1,))
    await until(lambda: publisher.published == 1)
    await publisher.close()


async def test_after_a_hint_without_an_answer_nobody_waits_for_another(
    producers: list[Producer | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "HINT_SECONDS_MAX", 0.01)
    monkeypatch.setattr(kafka, "NO_HINTS_SECONDS", 3_600.0)
    silent = Producer(answers=False)
    producers.append(silent)
    publisher = a_publisher()
    publisher.start()
    await until(lambda: not producers)
    for _ in range(3):
        assert not await publisher.hint(CHAT, 1)
    assert silent.hints == 1
    await publisher.close()


async def test_a_producer_that_confirms_no_hint_is_replaced(
    producers: list[Producer | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay of its own publishes nothing else."""
    monkeypatch.setattr(kafka, "HINT_SECONDS_MAX", 0.01)
    monkeypatch.setattr(kafka, "NO_HINTS_SECONDS", 0.0)
    monkeypatch.setattr(kafka, "FAILURES_MAX", 2)
    producers += [Producer(answers=False), Producer(answers=True)]
    publisher = a_publisher()
    publisher.start()
    await until(lambda: publisher.hint(CHAT, 1))
    assert producers == []
    await publisher.close()


async def test_a_partition_without_a_leader_does_not_hold_up_the_others(
    producers: list[Producer | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "WAITING_EVENTS_MAX", 3)
    monkeypatch.setattr(kafka, "PRODUCER_SECONDS_MAX", 0.01)
    other = ChatId(ulid(0, bytes([1] * 10)))
    producer = Producer(answers=True)
    producer.stuck = CHAT.encode()
    producers.append(producer)
    publisher = a_publisher()
    publisher.start()
    for number in range(1, 9):
        publisher.cleaned(CHAT, (number,))
        publisher.cleaned(other, (number,))
        await until(lambda: publisher.published, equals=number)
        await until(lambda: producer.stuck_sends == 1)
    assert publisher.dropped == 4, "one is being sent, and three wait"
    await publisher.close()
