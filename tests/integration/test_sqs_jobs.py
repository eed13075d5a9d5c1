# SPDX-License-Identifier: Apache-2.0
"""Jobs in a queue that speaks the protocol of SQS: hidden while they are held, never lost."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.inbox_builders import some_jobs
from tests.support.breakable_proxy import a_proxy
from tests.support.delivery import at_once
from tests.support.message_cipher import a_cipher
from tests.support.queues import a_queue, sqs_transport
from tests.support.settings import config_of
from tidings.assembly.jobs import open_jobs
from tidings.assembly.system import SystemClock
from tidings.aws.transport import Throttled, Transport, Unanswered
from tidings.buses.sqs import ATTEMPTS_MAX, SqsJobs
from tidings.doctor.cluster_checks import look_at_sqs
from tidings.doctor.findings import Subject
from tidings.model.setup_error import SetupError
from tidings.ports.bus import JobsUnavailable, Taken, encode_job

VISIBLE_SECONDS = 5
"""Longer than a busy machine keeps a process from hiding again what it holds."""
WAIT_SECONDS = 1


class Wire:
    """The real way to the queue; some of what comes back is changed."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.troubles: list[Exception] = []
        self.turned_away: list[set[str]] = []
        """Of the next batches, those that the queue does not take."""

    async def send(self, operation: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        self.sent.append((operation, request))
        if self.troubles:
            raise self.troubles.pop(0)
        away = self.turned_away.pop(0) if self.turned_away else set()
        if away:
            taken = [entry for entry in request["Entries"] if entry["Id"] not in away]
            request = {**request, "Entries": taken}
        answer = await self._transport.send(operation, request, until)
        if away:
            failed = [{"Id": one, "Code": "InternalError", "SenderFault": False} for one in away]
            answer = {**answer, "Failed": failed}
        return answer


@pytest.fixture
async def queue_url(sqs_endpoint: str) -> AsyncIterator[str]:
    async with a_queue(sqs_endpoint) as url:
        yield url


@asynccontextmanager
async def a_process(endpoint: str, url: str) -> AsyncIterator[tuple[SqsJobs, Wire]]:
    async with sqs_transport(endpoint) as transport:
        wire = Wire(transport)
        jobs = SqsJobs(
            wire,  # type: ignore[arg-type]
            url,
            a_cipher(),
            at_once,
            visible_seconds=VISIBLE_SECONDS,
            hide_again_seconds=0.05,
            wait_seconds=WAIT_SECONDS,
        )
        yield jobs, wire
        await jobs.close()


async def take(jobs: SqsJobs, count: int) -> list[Taken]:
    taken: list[Taken] = []
    async with asyncio.timeout(60):
        while len(taken) < count:
            taken += await jobs.take(100)
    return taken


async def test_the_doctor_asks_the_queue(queue_url: str, tmp_path: Path) -> None:
    config = config_of(data=tmp_path, jobs="sqs", sqs_queue_url=queue_url, sqs_region="eu-west-1")
    found = [finding async for finding in look_at_sqs(Subject(config, SystemClock()))]
    assert found[-1].what == "workers have 0 events of the queue left"
    gone = config_of(data=tmp_path, jobs="sqs", sqs_queue_url=f"{queue_url}-x", sqs_region="x")
    with pytest.raises(SetupError, match="sqs at"):
        await anext(look_at_sqs(Subject(gone, SystemClock())))


async def test_what_a_batch_leaves_over_is_sent_again(sqs_endpoint: str, queue_url: str) -> None:
    wanted = some_jobs(10)
    async with a_process(sqs_endpoint, queue_url) as (jobs, wire):
        wire.turned_away = [{"1", "3", "9"}, {"3"}]
        await jobs.put(wanted)
        sizes = [len(request["Entries"]) for _, request in wire.sent]
        assert sizes == [10, 3, 1]
        taken = await take(jobs, 10)
    assert sorted(one.job.number for one in taken) == list(range(10))


async def test_a_queue_in_trouble_is_asked_again_but_not_for_ever(
    sqs_endpoint: str, queue_url: str
) -> None:
    async with a_process(sqs_endpoint, queue_url) as (jobs, wire):
        wire.troubles = [Unanswered("lost"), Throttled("RequestThrottled")]
        await jobs.put(some_jobs(1))
        wire.sent.clear()
        wire.troubles = [Unanswered("lost")] * ATTEMPTS_MAX
        with pytest.raises(JobsUnavailable):
            await jobs.put(some_jobs(1))
        assert len(wire.sent) == ATTEMPTS_MAX
        wire.troubles = [Unanswered("lost")]
        with pytest.raises(JobsUnavailable):
            await jobs.take(1)
        (taken,) = await take(jobs, 1)
        wire.troubles = [Unanswered("lost")]
        with pytest.raises(JobsUnavailable):
            await jobs.finish(taken)
        await jobs.finish(taken)


async def test_what_waits_here_stays_hidden_and_what_nobody_holds_comes_again(
    sqs_endpoint: str, queue_url: str
) -> None:
    async with (
        a_process(sqs_endpoint, queue_url) as (one, wire),
        a_process(sqs_endpoint, queue_url) as (other, _),
    ):
        await one.put(some_jobs(12))
        held = await take(one, 12)
        # Longer, all looks together, than a job would be hidden by itself.
        for _ in range(VISIBLE_SECONDS // WAIT_SECONDS + 1):
            assert list(await other.take(10)) == []
        hidden = [request for name, request in wire.sent if name.startswith("ChangeMessage")]
        assert {len(request["Entries"]) for request in hidden} == {10, 2}
        for taken in held[:11]:
            await one.finish(taken)
        await one._tasks.close()  # as if the process had died
        (again,) = await take(other, 1)
        assert again.job == held[11].job
        assert again.attempt > 1
        await one.finish(held[11])  # its receipt may not count any more: no harm


async def test_what_is_held_is_given_back_at_the_end(sqs_endpoint: str, queue_url: str) -> None:
    async with a_process(sqs_endpoint, queue_url) as (jobs, _):
        await jobs.put(some_jobs(3))
        await take(jobs, 3)
    async with a_process(sqs_endpoint, queue_url) as (jobs, wire):
        await take(jobs, 3)
        assert len(wire.sent) <= 3, "nobody had to wait until they became visible"


@pytest.mark.attack("S13", "H03")
async def test_what_is_no_job_is_left_for_the_queue_to_put_aside(
    sqs_endpoint: str, queue_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_process(sqs_endpoint, queue_url) as (jobs, wire):
        until = asyncio.get_running_loop().time() + 10
        sealed = b64encode(a_cipher().seal(queue_url, b"strange")).decode()
        for body in (sealed, encode_job(some_jobs(1)[0]).decode()):
            await wire.send("SendMessage", {"QueueUrl": queue_url, "MessageBody": body}, until)
        wanted = some_jobs(1)
        await jobs.put(wanted)
        (taken,) = await take(jobs, 1)
        assert taken.job == wanted[0]
        await jobs.finish(taken)
        async with asyncio.timeout(60):
            # They come again, the one that makes no sense and the one that somebody forged.
            while caplog.text.count("not a job") < 2 or jobs.refused < 2:
                assert list(await jobs.take(10)) == []


async def test_a_queue_that_is_gone_is_told_to_the_operator(
    sqs_endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    there = urlsplit(sqs_endpoint)
    assert there.hostname and there.port
    async with a_proxy(there.hostname, there.port) as way:
        endpoint = f"http://{there.hostname}:{way.port}"
        async with a_process(endpoint, f"{endpoint}/000000000000/gone") as (jobs, _):
            for act in (jobs.put(some_jobs(1)), jobs.take(1)):
                with pytest.raises(JobsUnavailable):
                    await act
            assert "the queue refused a request" in caplog.text
            way.cut()
            with pytest.raises(JobsUnavailable):
                await jobs.take(1)


async def test_a_queue_of_aws_needs_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    config = config_of(
        jobs="sqs",
        sqs_queue_url="https://sqs.eu-west-1.amazonaws.com/000000000000/jobs",
        sqs_region="eu-west-1",
    )
    with pytest.raises(SetupError, match="credentials"):
        async with open_jobs(config, None, a_cipher(), SystemClock()):  # type: ignore[arg-type]
            pass
