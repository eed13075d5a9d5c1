# SPDX-License-Identifier: Apache-2.0
"""Where the workers stand in Kafka: read, and set back to the beginning."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tests.faults.many.fleet import WORKERS, Fleet
from tests.support.waiting import NotInTime, until
from tidings.buses.kafka_clients import PARTITIONS_DEFAULT

GROUP_EMPTY_SECONDS_MAX: Final = 40.0
READ_AGAIN_SECONDS_MAX: Final = 60.0


async def finished_events(fleet: Fleet) -> int:
    """How many events the workers have finished, once they are through with what there is."""
    ends = await _ends(fleet)

    async def are_through() -> bool:
        return _reach(await _places(fleet), ends)

    with suppress(NotInTime):  # then the number says how far they got
        await until(are_through, seconds=READ_AGAIN_SECONDS_MAX)
    return sum((await _places(fleet)).values())


async def read_again_from_the_start(fleet: Fleet, meanwhile: Callable[[], Awaitable[None]]) -> int:
    """Stop the workers, set their places to 0, start them, and wait until they are through.

    `meanwhile` happens before they start. Returns how many events they went through again.
    """
    async with asyncio.TaskGroup() as group:
        for name in WORKERS:
            group.create_task(fleet.cluster[name].terminate())
    before = await _places(fleet)
    # One that was killed a moment ago is still counted as one of them.
    await until(lambda: _set_back(fleet, before), seconds=GROUP_EMPTY_SECONDS_MAX)
    assert sum((await _places(fleet)).values()) == 0, "they were not set back"
    await meanwhile()
    async with asyncio.TaskGroup() as group:
        for name in WORKERS:
            group.create_task(fleet.cluster[name].start())

    async def have_read_again() -> bool:
        return _reach(await _places(fleet), before)

    await until(have_read_again, seconds=READ_AGAIN_SECONDS_MAX)
    return sum(before.values())


def _reach(places: dict[TopicPartition, int], wanted: dict[TopicPartition, int]) -> bool:
    return all(places.get(partition, 0) >= offset for partition, offset in wanted.items())


async def _places(fleet: Fleet) -> dict[TopicPartition, int]:
    async with asyncio.timeout(GROUP_EMPTY_SECONDS_MAX):
        consumer = await _outsider(fleet)
        try:
            return {one: await consumer.committed(one) or 0 for one in _partitions(fleet)}
        finally:
            await consumer.stop()


async def _ends(fleet: Fleet) -> dict[TopicPartition, int]:
    """Where the next event of each partition will stand."""
    async with asyncio.timeout(GROUP_EMPTY_SECONDS_MAX):
        consumer = await _outsider(fleet)
        try:
            ends: dict[TopicPartition, int] = await consumer.end_offsets(_partitions(fleet))
            return ends
        finally:
            await consumer.stop()


def _partitions(fleet: Fleet) -> list[TopicPartition]:
    return [TopicPartition(fleet.topics.messages, n) for n in range(PARTITIONS_DEFAULT)]


async def _set_back(fleet: Fleet, places: dict[TopicPartition, int]) -> bool:
    consumer = await _outsider(fleet)
    try:
        consumer.assign(list(places))
        await consumer.commit(dict.fromkeys(places, 0))
    except KafkaError:
        return False
    finally:
        await consumer.stop()
    return True


async def _outsider(fleet: Fleet) -> AIOKafkaConsumer:
    """Someone who knows the group's name without being one of it."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=fleet.kafka.address, group_id=fleet.group, enable_auto_commit=False
    )
    await consumer.start()

    async def is_known() -> bool:
        return fleet.topics.messages in await consumer.topics()

    await until(is_known)
    return consumer
