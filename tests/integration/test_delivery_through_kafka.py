# SPDX-License-Identifier: Apache-2.0
"""From an append to the devices through a real Kafka and the real log; and all of it once more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.support.canary import MARK
from tests.support.delivery import DeliveryDeployment, at_once, open_delivery
from tests.support.dynamo_tables import some_tables
from tests.support.message_cipher import a_cipher
from tests.support.users import ANN, BOB, CAT, DAN
from tests.support.waiting import until
from tidings.buses.kafka import KafkaPublisher
from tidings.buses.kafka_clients import KafkaServers, Topics
from tidings.buses.kafka_feed import KafkaFeed
from tidings.delivery.deliverer import UnreadRecount
from tidings.delivery.worker import Worker
from tidings.model.chats import Unread
from tidings.model.ids import ChatId, UserKey
from tidings.otlp import OtlpTracer
from tidings.tasks import Backlog
from tidings.tracing import spans
from tidings.tracing.spans import Span


@pytest.fixture
async def delivery(dynamodb_endpoint: str, tmp_path: Path) -> AsyncIterator[DeliveryDeployment]:
    async with (
        some_tables(dynamodb_endpoint) as prefix,
        open_delivery(dynamodb_endpoint, prefix, tmp_path) as delivery,
    ):
        yield delivery


@asynccontextmanager
async def working(
    delivery: DeliveryDeployment, address: str, topics: Topics, group: str
) -> AsyncIterator[Worker]:
    async def count(user: UserKey, chat: ChatId) -> Unread | None:
        found = await delivery.store.receipts.unread(user, chat, delivery.clock.now())
        return None if found is None else found.unread

    deliverer = delivery.deliverer()
    worker = Worker(
        KafkaFeed(
            servers=KafkaServers(address),
            topics=topics,
            cipher=a_cipher(),
            group=group,
            partitions=3,
        ),
        deliverer,
        UnreadRecount(deliverer.states, delivery.gateways, delivery.gateways, count),
        at_once,
        Backlog(),
        delivery.clock,
    )
    worker.start()
    try:
        yield worker
    finally:
        await worker.close()


class Traced:
    """A tracer, and the spans that it recorded."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracer = OtlpTracer(self.exporter, {})

    def begun(self) -> Span:
        trace = f"00-{7:032x}-{7:016x}-01"
        span = self.tracer.begin("send", trace, kind="server", attributes={})
        assert span is not None
        return span


async def check_links(traced: Traced) -> None:
    """The delivery is in a trace of its own, and refers to the span that published the event."""
    await traced.tracer.close()
    found = {span.name: span for span in traced.exporter.get_finished_spans()}
    publish, deliver = found["publish"], found["deliver"]
    assert publish.context.trace_id == 7
    assert deliver.parent is None
    assert [link.context.span_id for link in deliver.links] == [publish.context.span_id]
    assert (publish.kind, deliver.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    for span, operation in ((publish, "send"), (deliver, "process")):
        attributes = span.attributes or {}
        assert attributes["messaging.system"] == "kafka"
        assert attributes["messaging.operation.type"] == operation
    assert (deliver.attributes or {})["tidings.connections"] == 2


async def test_everything_arrives_and_a_second_time_does_no_harm(
    delivery: DeliveryDeployment, kafka_address: str
) -> None:
    topics = Topics(f"test-{uuid4().hex[:12]}-")
    traced = Traced()
    spans.install(traced.tracer)
    publisher = KafkaPublisher(
        delivery.bus,
        servers=KafkaServers(kafka_address),
        topics=topics,
        cipher=a_cipher(),
        back_off=at_once,
        backlog=Backlog(),
        partitions=3,
    )
    publisher.start()
    bob, cat = delivery.gateways.connect(BOB), delivery.gateways.connect(CAT, "g2")
    async with working(delivery, kafka_address, topics, "first"):
        chat = await delivery.chat(ANN, BOB, CAT, DAN)
        await delivery.send(ANN, chat, "for all", span=traced.begun())
        await until(lambda: cat.sequences[-1:] == [2])  # otherwise two are delivered together
        await delivery.send(ANN, chat, "regretted")
        await delivery.redact(chat, 3)
        await delivery.remove(chat, BOB)
        await delivery.send(CAT, chat, "without bob")
        await until(lambda: cat.sequences[-1:] == [6])
        await until(lambda: 6 in delivery.push_queue.of(DAN))
    await check_links(traced)
    assert cat.sequences == [1, 2, 3, 4, 5, 6]
    assert max(bob.sequences) == 5
    assert delivery.push_queue.of(DAN)[0] == 2
    assert 6 not in delivery.push_queue.of(BOB)

    # Half a minute later a new group begins at offset 0.
    delivery.clock.time += 30_001
    delivery.push_queue.offers.clear()
    bob.encoded_entries.clear()
    cat.encoded_entries.clear()
    async with working(delivery, kafka_address, topics, "second") as worker:
        await until(lambda: worker.taken == 6 and cat.sequences == [1, 2, 3, 4, 5, 6])
    assert bob.sequences == [5]
    assert cat.frame(2)["content"] == f"{MARK} for all"
    assert cat.frame(3)["redacted"] is True
    assert delivery.push_queue.offers == []
    assert worker.dead_letter == 0
    await publisher.close()
    spans.install(None)
