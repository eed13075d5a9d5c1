# SPDX-License-Identifier: Apache-2.0
"""What every queue of delivery jobs promises, wherever it is: nothing is lost, some come twice."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.engines import SqliteEngine
from tests.contract.inbox_builders import in_order, some_jobs
from tests.support.delivery import at_once
from tests.support.dynamo_tables import REGION
from tests.support.message_cipher import a_cipher
from tests.support.queues import a_queue
from tidings.assembly.system import SystemClock
from tidings.buses import kafka_clients, kafka_jobs
from tidings.buses.kafka_clients import KafkaServers, Topics
from tidings.buses.kafka_jobs import KafkaJobs
from tidings.buses.sqs import open_sqs_jobs
from tidings.ports.bus import Job, Jobs, JobsUnavailable, Taken

Open = Callable[[], AbstractAsyncContextManager[Jobs]]
"""Opens the same queue again, as another process would."""


@pytest.fixture(params=["sqlite", "kafka", "sqs"])
async def queue(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    """A queue with nothing in it."""
    if request.param == "sqlite":
        yield lambda: _sqlite(tmp_path / "data")
    elif request.param == "kafka":
        address, prefix = request.getfixturevalue("kafka_address"), f"test-{uuid4().hex[:12]}-"
        monkeypatch.setattr(kafka_clients, "ANSWER_MS_MAX", 60_000)  # on a busy machine
        monkeypatch.setattr(kafka_jobs, "PUT_SECONDS_MAX", 60.0)
        yield lambda: _kafka(address, Topics(prefix))
    else:
        async with a_queue(request.getfixturevalue("sqs_endpoint")) as url:
            yield lambda: _sqs(url)


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[Jobs]:
    async with SqliteEngine(folder).open() as store:
        yield store.jobs
        await store.jobs.close()


@asynccontextmanager
async def _kafka(address: str, topics: Topics) -> AsyncIterator[Jobs]:
    servers = KafkaServers(address)
    jobs = KafkaJobs(servers=servers, topics=topics, cipher=a_cipher(), group="g", partitions=3)
    try:
        yield jobs
    finally:
        await jobs.close()


@asynccontextmanager
async def _sqs(url: str) -> AsyncIterator[Jobs]:
    opening = open_sqs_jobs(
        queue_url=url,
        region=REGION,
        cipher=a_cipher(),
        clock=SystemClock(),
        back_off=at_once,
        wait_seconds=1,
    )
    async with opening as jobs:
        try:
            yield jobs
        finally:
            await jobs.close()


async def take(jobs: Jobs, count: int) -> list[Taken]:
    """Take until so many different ones are there."""
    taken: dict[tuple[str, int], Taken] = {}
    while len(taken) < count:
        for one in await jobs.take(100):
            taken[one.job.notification_id, one.job.number] = one
    return list(taken.values())


def jobs_of(taken: Sequence[Taken]) -> list[Job]:
    return in_order([one.job for one in taken])


async def test_what_was_put_is_taken_as_it_is(queue: Open) -> None:
    crowd = tuple(f"{'x' * 60}{number:04}" for number in range(100))
    wanted = some_jobs(25, users=crowd, category="offers") + some_jobs(2, tenant="acme-2")
    async with queue() as jobs:
        await jobs.put(wanted)
        taken = await take(jobs, len(wanted))
    assert jobs_of(taken) == in_order(wanted)
    assert len({one.handle for one in taken}) == len(wanted)


async def test_an_empty_queue_gives_nothing(queue: Open) -> None:
    async with queue() as jobs:
        await jobs.put([])
        assert list(await jobs.take(10)) == []


async def test_put_by_one_process_it_is_taken_by_another(queue: Open) -> None:
    wanted = some_jobs(3)
    async with queue() as jobs:
        await jobs.put(wanted)
    async with queue() as jobs:
        assert jobs_of(await take(jobs, 3)) == wanted


async def test_what_was_not_finished_comes_again_and_what_was_does_not(queue: Open) -> None:
    wanted = some_jobs(6)
    async with queue() as jobs:
        await jobs.put(wanted)
        for one in await take(jobs, 6):
            if one.job.number:
                await jobs.finish(one)
    async with queue() as jobs:
        again = await take(jobs, 1)
        assert wanted[0] in jobs_of(again)
        for one in again:
            await jobs.finish(one)
        while some := await jobs.take(10):  # Kafka repeats those behind the one
            for one in some:
                await jobs.finish(one)
    async with queue() as jobs:
        assert list(await jobs.take(10)) == []


async def test_finishing_twice_finishes_no_other(queue: Open) -> None:
    first, second = some_jobs(1), some_jobs(1)
    async with queue() as jobs:
        await jobs.put(first)
        (taken,) = await take(jobs, 1)
        await jobs.finish(taken)
        await jobs.put(second)
        await jobs.finish(taken)
        assert jobs_of(await take(jobs, 1)) == second


async def test_all_portions_of_the_largest_notification_are_taken(queue: Open) -> None:
    wanted = some_jobs(1_000, users=tuple(f"user-{number:08}" for number in range(100)))
    async with queue() as jobs:
        await jobs.put(wanted)
        assert jobs_of(await take(jobs, 1_000)) == wanted


@pytest.mark.parametrize("kind", ["kafka", "sqs"])
async def test_a_queue_that_is_not_there_says_so(kind: str) -> None:
    opened = (
        _kafka("127.0.0.1:1", Topics("test-"))
        if kind == "kafka"
        else _sqs("http://127.0.0.1:1/000000000000/none")
    )
    async with opened as jobs:
        with pytest.raises(JobsUnavailable):
            await jobs.put(some_jobs(1))
        with pytest.raises(JobsUnavailable):
            await jobs.take(1)
