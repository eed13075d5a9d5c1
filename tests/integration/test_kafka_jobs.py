# SPDX-License-Identifier: Apache-2.0
"""Delivery jobs in a real Kafka: durable when they are put, and shared by workers.

One test kills the broker, and looks at events too.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer

from tests.contract.inbox_builders import some_jobs
from tests.integration.test_kafka import CHATS, a_message, publishing, take_until, taking
from tests.integration.test_kafka import take as take_events
from tests.support.message_cipher import a_cipher
from tests.support.services import KafkaBroker
from tests.support.waiting import WAIT_SECONDS, retried, until
from tidings.buses import kafka_feed, kafka_jobs
from tidings.buses.in_process import InProcessBus
from tidings.buses.kafka_clients import (
    KafkaServers,
    Topics,
    ensure_topics,
    start_producer,
    stop_producer,
)
from tidings.buses.kafka_jobs import KafkaJobs
from tidings.ports.bus import JobsUnavailable, Taken, encode_job
from tidings.wire.events import decode_event


@pytest.fixture
def topics() -> Topics:
    return Topics(f"test-{uuid4().hex[:12]}-")


@asynccontextmanager
async def a_process(address: str, topics: Topics) -> AsyncIterator[KafkaJobs]:
    servers = KafkaServers(address)
    jobs = KafkaJobs(servers=servers, topics=topics, cipher=a_cipher(), group="g", partitions=3)
    try:
        yield jobs
    finally:
        await jobs.close()


async def take(jobs: KafkaJobs, count: int) -> list[Taken]:
    taken: list[Taken] = []

    async def are_there() -> bool:
        taken.extend(await retried(lambda: jobs.take(100), JobsUnavailable))
        return len(taken) >= count

    await until(are_there, describe=lambda: taken)
    return taken


@pytest.mark.attack("S13", "H03")
async def test_what_is_no_job_is_put_aside_and_the_others_come(
    kafka_address: str, topics: Topics
) -> None:
    await ensure_topics(KafkaServers(kafka_address), topics, 3)
    producer = await start_producer(KafkaServers(kafka_address))
    forged = encode_job(some_jobs(1)[0])
    for value in (a_cipher().seal(topics.inbox_jobs, b"strange"), forged):
        await producer.send_and_wait(topics.inbox_jobs, value)
    await stop_producer(producer)
    async with a_process(kafka_address, topics) as jobs:
        await jobs.put(some_jobs(5))
        for one in await take(jobs, 5):
            await jobs.finish(one)
        dead = AIOKafkaConsumer(
            topics.dead_of(topics.inbox_jobs),
            bootstrap_servers=kafka_address,
            auto_offset_reset="earliest",
        )
        await dead.start()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                found = {(await dead.getone()).value for _ in range(2)}
        finally:
            await dead.stop()
    assert found == {b"strange", forged}
    async with a_process(kafka_address, topics) as jobs:
        last = some_jobs(1)
        await jobs.put(last)
        assert [one.job for one in await take(jobs, 1)] == last


async def test_two_workers_share_the_jobs_and_one_takes_over(
    kafka_address: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_feed, "HEARTBEAT_MS", 100)
    wanted = some_jobs(60)
    async with a_process(kafka_address, topics) as one:
        await one.take(1)
        async with a_process(kafka_address, topics) as other:
            async with asyncio.TaskGroup() as group:
                group.create_task(other.take(1))
                group.create_task(one.take(1))
            await one.put(wanted)
            mine: dict[int, Taken] = {}
            others: dict[int, Taken] = {}
            async with asyncio.timeout(WAIT_SECONDS):
                while len(mine | others) < 60:
                    mine |= {taken.job.number: taken for taken in await one.take(100)}
                    others |= {taken.job.number: taken for taken in await other.take(100)}
            assert mine and others
            for taken in mine.values():
                await one.finish(taken)
        again: set[int] = set()
        async with asyncio.timeout(WAIT_SECONDS):
            while not others.keys() <= again:
                again |= {taken.job.number for taken in await one.take(100)}
        assert again == others.keys()


@pytest.mark.slow
async def test_a_broker_that_restarts_has_its_jobs_and_is_found_again(
    own_kafka: KafkaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, bus = own_kafka.address, InProcessBus()
    first, second = some_jobs(20), some_jobs(1)
    async with (
        a_process(address, topics) as jobs,
        publishing(address, topics, bus) as publisher,
        taking(address, topics, "events") as feed,
    ):
        # A broker that has just started may take long to create the topic.
        await retried(lambda: jobs.put(first), JobsUnavailable)
        bus.publish(a_message(CHATS[0], 1))
        (event,) = await take_events(feed, 1)
        feed.finish(event)
        await asyncio.to_thread(own_kafka.kill)
        bus.publish(a_message(CHATS[0], 2))
        assert not await publisher.hint(CHATS[0], 2)
        with monkeypatch.context() as patch:
            patch.setattr(kafka_jobs, "PUT_SECONDS_MAX", 2.0)
            with pytest.raises(JobsUnavailable):
                await jobs.put(second)

        await asyncio.to_thread(own_kafka.start)
        await retried(lambda: jobs.put(second), JobsUnavailable)
        await until(lambda: publisher.hint(CHATS[0], 3))
        received = await take_until(feed, 3)
        wanted = {(job.notification_id, job.number) for job in (*first, *second)}
        taken = set[tuple[str, int]]()

        async def come() -> set[tuple[str, int]]:
            """All that came until now; what was stored without an answer may come twice."""
            some = await retried(lambda: jobs.take(100), JobsUnavailable)
            taken.update((one.job.notification_id, one.job.number) for one in some)
            return taken

        await until(come, equals=wanted)
    assert decode_event(received[-1].value).chat == CHATS[0]
