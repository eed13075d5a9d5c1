# SPDX-License-Identifier: Apache-2.0
"""Clients of Kafka that are closed while their connections do not end."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection

from tidings.buses import kafka_clients
from tidings.buses.kafka_clients import stop_consumer, stop_producer


class Endless(AIOKafkaConnection):  # type: ignore[misc]
    """A connection whose transport never says that it is closed."""

    def __init__(self) -> None:
        self._reader = self._idle_handle = None
        self._host, self._port = "kafka.example", 9092
        self._closed_fut = asyncio.get_running_loop().create_future()


async def a_client() -> AIOKafkaClient:
    client = AIOKafkaClient()
    client._conns = {("1", 0): Endless()}
    return client


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "CONSUMER_SECONDS_MAX", 0.0)
    monkeypatch.setattr(kafka_clients, "PRODUCER_SECONDS_MAX", 0.0)


async def test_a_consumer_whose_connections_do_not_end_is_given_up() -> None:
    client = await a_client()
    await stop_consumer(SimpleNamespace(stop=client.close, _client=client, _coordinator=None))


async def test_a_producer_whose_connections_do_not_end_is_given_up() -> None:
    client = await a_client()

    async def close_sender() -> None: ...

    sender = SimpleNamespace(close=close_sender)
    await stop_producer(SimpleNamespace(stop=client.close, client=client, _sender=sender))


async def test_whoever_is_cancelled_meanwhile_stays_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_clients, "CONSUMER_SECONDS_MAX", 60.0)
    client = await a_client()
    consumer = SimpleNamespace(stop=client.close, _client=client, _coordinator=None)
    stopping = asyncio.create_task(stop_consumer(consumer))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
