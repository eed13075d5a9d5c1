# SPDX-License-Identifier: Apache-2.0
"""The link to Redis, as far as it needs none."""

import asyncio

import pytest

from tests.support.message_cipher import a_cipher
from tests.support.users import BOB
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.redis_servers import RedisServers
from tidings.cluster.registry import RedisRegistry
from tidings.limiters import RedisBuckets
from tidings.ports.delivery import RegistryUnavailable
from tidings.ports.sessions import Bucket

NOWHERE = RedisServers("redis://127.0.0.1:1/0")


async def forgets_that_it_was_cancelled() -> int:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return 1
    return 2


async def test_a_cancellation_that_the_library_forgets_is_heeded() -> None:
    task = asyncio.create_task(
        RedisLink(NOWHERE, "p:", a_cipher()).call(forgets_that_it_was_cancelled())
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_time_out_that_the_library_forgets_is_no_cancellation() -> None:
    link = RedisLink(NOWHERE, "p:", a_cipher(), answer_seconds_max=0.01)
    assert await link.call(forgets_that_it_was_cancelled()) == 1


async def test_what_takes_too_long_is_unavailable() -> None:
    link = RedisLink(NOWHERE, "p:", a_cipher(), answer_seconds_max=0.01)
    with pytest.raises(RegistryUnavailable):
        await link.call(asyncio.Event().wait())
    assert link.failures == 1


@pytest.mark.parametrize("is_cluster", [False, True], ids=["one server", "a cluster"])
async def test_redis_out_of_reach_is_unavailable_each_time(is_cluster: bool) -> None:
    servers = RedisServers("redis://127.0.0.1:1/0", is_cluster=is_cluster)
    link = RedisLink(servers, "p:", a_cipher(), answer_seconds_max=5)
    registry = RedisRegistry(link, "g1")
    buckets = RedisBuckets(link, away_seconds=0)
    for _ in range(2):  # after the first failure the library raises other errors
        with pytest.raises(RegistryUnavailable):
            await registry.find([BOB])
        with pytest.raises(RegistryUnavailable):
            await registry.enter(BOB, "c1")
        with pytest.raises(RegistryUnavailable):
            await link.publish([("p:c", b"m")])
        verdict = await buckets.take([Bucket("p", "bob", 1, 1_000)])
        assert verdict.is_allowed, "the buckets of the process do"
    await link.close()
