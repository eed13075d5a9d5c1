# SPDX-License-Identifier: Apache-2.0
"""Whether head copies can be trusted: as far behind as the process that is furthest behind."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.redis_places import a_link
from tests.support.message_cipher import a_cipher
from tests.support.waiting import until
from tidings.cluster import pulse
from tidings.cluster.pulse import BEHIND_MS_MAX, FORGOTTEN_MS, DeliveryPulse
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.redis_servers import RedisServers
from tidings.tasks import Backlog

TOO_OLD = BEHIND_MS_MAX / 1_000 + 60


@pytest.fixture
async def link(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisLink]:
    monkeypatch.setattr(pulse, "ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(pulse, "BEHIND_MS_MAX", 60_000)  # nobody is slow, only what is old is old
    monkeypatch.setattr(pulse, "FORGOTTEN_MS", 600_000)
    async with a_link(redis_url) as opened:
        yield opened


def process(
    link: RedisLink, name: str, *, is_worker: bool = True, starting_seconds: float = 0.0
) -> DeliveryPulse:
    """A process with a backlog of its own."""
    return DeliveryPulse(
        link, name, Backlog(), is_worker=is_worker, starting_seconds=starting_seconds
    )


async def test_somebody_has_to_deliver(link: RedisLink) -> None:
    gateway, worker = process(link, "g", is_worker=False), process(link, "w")
    assert not await gateway.is_current()
    await gateway.tell()
    assert not await gateway.is_current()
    await worker.tell()
    assert await gateway.is_current()


@pytest.mark.parametrize("is_worker", [True, False])
async def test_the_furthest_behind_decides(link: RedisLink, is_worker: bool) -> None:
    """A worker that does not keep up, or a gateway that cannot pass on what it has."""
    one, other = process(link, "one"), process(link, "other", is_worker=is_worker)
    for each in (one, other):
        await each.tell()
    assert await one.is_current()
    other._backlog.begin("slow", TOO_OLD)
    other._backlog.begin("young")
    await other.tell()
    assert not await one.is_current()
    other._backlog.end("slow")
    await other.tell()
    assert await one.is_current()


async def test_who_died_counts_until_others_have_taken_over(link: RedisLink) -> None:
    dies, lives = process(link, "dies"), process(link, "lives")
    dies._backlog.begin("never done", TOO_OLD)
    await dies.tell()
    for _ in range(2):
        await lives.tell()
        assert not await lives.is_current()
    dies._backlog.begin("for ever", 10 * FORGOTTEN_MS)
    await dies.tell()
    assert not await lives.is_current(), "whoever is very far behind is not forgotten"


@pytest.mark.parametrize("starting_seconds", [0.0, 600.0])
async def test_who_dies_while_far_behind_is_forgotten_no_sooner_than_others(
    link: RedisLink, starting_seconds: float
) -> None:
    dies = process(link, "dies", starting_seconds=starting_seconds)
    dies._backlog.begin("for ever", 10 * pulse.FORGOTTEN_MS)
    await dies.tell()
    reported_at = await link.redis.zscore(dies._key, dies._member)
    assert reported_at is not None
    seconds, _ = await link.redis.time()
    assert seconds * 1_000 - reported_at < pulse.FORGOTTEN_MS / 2


async def test_a_worker_that_has_just_started_counts_as_behind(link: RedisLink) -> None:
    one, new = process(link, "one"), process(link, "new", starting_seconds=600.0)
    await one.tell()
    assert await one.is_current()
    await new.tell()
    assert not await one.is_current(), "the work is divided anew"


async def test_a_gateway_that_goes_is_forgotten_at_once(link: RedisLink) -> None:
    worker, gateway = process(link, "w"), process(link, "g", is_worker=False)
    await worker.tell()
    gateway._backlog.begin("given up", TOO_OLD)
    gateway.start()
    await until(lambda: worker.is_current(), equals=False)
    await gateway.close()
    assert await worker.is_current()


async def test_one_question_serves_many(link: RedisLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "ANSWER_SECONDS", 600.0)
    worker = process(link, "w")
    await worker.tell()
    assert await worker.is_current()
    worker._backlog.begin("slow", TOO_OLD)
    await worker.tell()
    assert await worker.is_current(), "the answer from before"


async def test_without_redis_nobody_can_be_trusted() -> None:
    link = RedisLink(RedisServers("redis://127.0.0.1:1"), "test:", a_cipher())
    try:
        worker = process(link, "w")
        await worker.tell()
        assert not await worker.is_current()
        gateway = process(link, "g", is_worker=False)
        await gateway.close()
    finally:
        await link.close()


async def test_a_backlog_is_as_old_as_its_oldest_part() -> None:
    backlog = Backlog()
    assert backlog.seconds == 0
    backlog.begin("one", 100.0)
    backlog.begin("other", 200.0)
    backlog.begin("early", -5.0)
    assert 200 <= backlog.seconds < 250
    backlog.end("other")
    assert 100 <= backlog.seconds < 150
    backlog.end_later("one", 0.0)
    await until(lambda: backlog.seconds < 50)
    backlog.end("unknown")
