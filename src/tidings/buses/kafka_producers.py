# SPDX-License-Identifier: Apache-2.0
"""Producers: what was sent is durable once Kafka has answered, on all brokers that are in step."""

from typing import Any

from aiokafka import AIOKafkaProducer

from tidings.buses.kafka_clients import KafkaServers, start_client
from tidings.buses.kafka_closing import stop_producer
from tidings.buses.kafka_topics import ANSWER_MS_MAX, RETRY_MS


async def start_producer(servers: KafkaServers) -> Any:  # noqa: ANN401 - the library has no types
    """A producer that is connected.

    Raises:
        KafkaError, OSError: Kafka cannot be reached.
    """
    producer = AIOKafkaProducer(
        **servers.options(),
        acks="all",
        enable_idempotence=True,
        request_timeout_ms=ANSWER_MS_MAX,
        retry_backoff_ms=RETRY_MS,
    )
    try:
        await start_client(producer)
    except BaseException:
        await stop_producer(producer)
        raise
    return producer
