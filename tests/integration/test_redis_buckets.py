# SPDX-License-Identifier: Apache-2.0
"""Token buckets on a real Redis: the same verdicts as in memory, shared, gone with Redis."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from tests.integration.redis_places import a_link, new_prefix
from tests.support.services import RedisServer
from tests.support.waiting import until
from tidings.cluster.redis_link import RedisLink
from tidings.limiters import InProcessBuckets, RedisBuckets
from tidings.ports.sessions import Bucket

SECOND_US = 1_000_000


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    async with a_link(redis_url) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(8))
async def test_verdicts_are_those_of_buckets_in_memory(link: RedisLink, seed: int) -> None:
    # Slow buckets: what Redis forgets by itself, it forgets by the time that really passes.
    chance = random.Random(seed)
    now = 1_700_000_000 * SECOND_US
    here = InProcessBuckets(lambda: now * 1_000)
    there = RedisBuckets(link, now_us=lambda: now)
    kinds = [
        Bucket("p", str(number), chance.choice([0.001, 0.003, 0.01]), chance.randint(1, 5))
        for number in range(4)
    ]
    refused = 0
    for _ in range(120):
        now += chance.randint(0, 200 * SECOND_US)
        asked = chance.sample(kinds, chance.randint(1, 3))
        tokens = chance.choice([1, 1, 2, 7])
        expected = await here.take(asked, tokens)
        assert await there.take(asked, tokens) == expected
        refused += not expected.is_allowed
    assert 10 < refused < 110, "some of each"


async def test_processes_share_them_by_the_time_of_redis(link: RedisLink) -> None:
    one, other = RedisBuckets(link), RedisBuckets(link)
    bucket = Bucket("p", "ann", 0.01, 3)
    verdicts = [await way.take([bucket]) for way in (one, other, one, other)]
    assert [verdict.is_allowed for verdict in verdicts] == [True, True, True, False]
    assert 90_000 < verdicts[-1].wait_ms <= 100_000


async def test_however_many_ask_at_once_no_token_is_taken_twice(link: RedisLink) -> None:
    buckets = RedisBuckets(link)
    bucket = Bucket("p", "ann", 0.01, 20)
    failures = link.failures
    verdicts = await asyncio.gather(*(buckets.take([bucket]) for _ in range(100)))
    taken = sum(verdict.is_allowed for verdict in verdicts)
    # A call that Redis does not answer in time, on a busy machine, is judged by the process alone.
    assert abs(taken - 20) <= link.failures - failures


async def test_one_that_is_full_again_is_not_kept(link: RedisLink) -> None:
    buckets = RedisBuckets(link)
    await buckets.take([Bucket("p", "quick", 100, 5), Bucket("p", "slow", 0.01, 5)])
    await until(lambda: link.redis.exists(link.name("bucket", "p:quick")), equals=0)
    assert await link.redis.exists(link.name("bucket", "p:slow"))


async def test_without_redis_a_process_counts_for_itself(own_redis: RedisServer) -> None:
    prefix = new_prefix()
    async with a_link(own_redis.address, prefix) as link:
        buckets = RedisBuckets(link, away_seconds=0)
        bucket = Bucket("p", "ann", 0.01, 2)
        assert (await buckets.take([bucket])).is_allowed
        await asyncio.to_thread(own_redis.stop)
        assert [(await buckets.take([bucket])).is_allowed for _ in range(3)] == [True, True, False]
        await asyncio.to_thread(own_redis.start)
        # It comes back empty, and counts for all again.
        other = RedisBuckets(link)
        taken = [(await way.take([bucket])).is_allowed for way in (buckets, other, buckets)]
        assert taken == [True, True, False]


async def test_a_redis_that_did_not_answer_is_left_alone_for_a_while() -> None:
    async with a_link("redis://127.0.0.1:1/0") as link:
        buckets = RedisBuckets(link, away_seconds=3_600)
        for _ in range(5):
            assert (await buckets.take([Bucket("p", "ann", 1, 10)])).is_allowed
        assert link.failures == 1
