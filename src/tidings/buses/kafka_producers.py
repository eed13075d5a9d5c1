# SPDX-License-Identifier: Apache-2.0
"""Producers: what was sent is durable once Kafka has answered, on all brokers that are in step."""

import asyncio
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tidings.buses.kafka_clients import KafkaServers, start_client
from tidings.buses.kafka_topics import ANSWER_MS_MAX, RETRY_MS

CLOSE_SECONDS_MAX: Final = 2.0


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


async def stop_producer(producer: Any) -> None:  # noqa: ANN401
    """Let go of it; what it has not sent is lost."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await producer.stop()
    except TimeoutError:
        # It waits for what it could not send. Left alone it would go on trying for ever.
        await producer._sender.close()
        await producer.client.close()
    except (KafkaError, OSError):
        pass
