# SPDX-License-Identifier: Apache-2.0
"""The services that other tests stand on: each does the one thing it is there for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from redis import asyncio as redis

from tests.support.services import RedisServer

SETTINGS = {
    "region_name": "local",
    "aws_access_key_id": "local",
    "aws_secret_access_key": "local",
    "config": AioConfig(retries={"total_max_attempts": 1}),
}


async def make_table(client: Any) -> str:
    """A table with one key, under a name of its own."""
    name = f"smoke-{uuid4().hex}"
    await client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


def dynamodb(endpoint: str) -> Any:
    """A client, to be used with `async with`."""
    return get_session().create_client("dynamodb", endpoint_url=endpoint, **SETTINGS)


async def make_topic(address: str) -> str:
    """A topic with one partition, under a name of its own."""
    name = f"smoke-{uuid4().hex}"
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()
    return name


async def produce(address: str, topic: str, value: bytes) -> None:
    """Send one record, and wait until the broker has it."""
    producer = AIOKafkaProducer(bootstrap_servers=address, acks="all")
    await producer.start()
    try:
        await producer.send_and_wait(topic, value, key=b"chat")
    finally:
        await producer.stop()


@asynccontextmanager
async def consumer_of(address: str, topic: str, group: str) -> AsyncIterator[AIOKafkaConsumer]:
    """A member of a group that begins where the group left off, or at the start."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def test_dynamodb_keeps_an_item_and_its_condition(dynamodb_endpoint: str) -> None:
    async with dynamodb(dynamodb_endpoint) as client:
        table = await make_table(client)
        item = {"id": {"S": "chat"}, "sequence": {"N": "1"}}
        put = {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(id)"}
        await client.put_item(**put)
        with pytest.raises(client.exceptions.ConditionalCheckFailedException):
            await client.put_item(**put)
        found = await client.get_item(TableName=table, Key={"id": {"S": "chat"}})
        assert found["Item"] == item
        await client.delete_table(TableName=table)


async def test_kafka_hands_on_what_was_sent_and_remembers_how_far(kafka_address: str) -> None:
    topic = await make_topic(kafka_address)
    await produce(kafka_address, topic, b"one")
    async with consumer_of(kafka_address, topic, group=topic) as consumer:
        assert (await consumer.getone()).value == b"one"
        await consumer.commit()
    await produce(kafka_address, topic, b"two")
    async with consumer_of(kafka_address, topic, group=topic) as consumer:
        assert (await consumer.getone()).value == b"two"


async def test_redis_keeps_a_value(redis_url: str) -> None:
    key = f"smoke:{uuid4().hex}"
    async with redis.from_url(redis_url) as client:
        await client.set(key, "here", ex=60)
        assert await client.get(key) == b"here"
        await client.delete(key)


async def test_redis_is_silent_while_paused_and_empty_after_a_restart(
    own_redis: RedisServer,
) -> None:
    async with redis.from_url(own_redis.address) as client:
        await client.set("key", "value")
    own_redis.pause()
    async with redis.from_url(own_redis.address, socket_timeout=0.05, retry=None) as client:
        with pytest.raises(redis.TimeoutError):
            await client.get("key")
        own_redis.resume()
        await asyncio.to_thread(own_redis.restart)
    async with redis.from_url(own_redis.address) as client:
        assert await client.get("key") is None
