# SPDX-License-Identifier: Apache-2.0
"""The registry on a real Redis: found at once, forgotten by itself, gone with Redis."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.redis_places import a_link
from tests.support.message_cipher import a_cipher
from tests.support.services import RedisServer
from tests.support.users import ANN, BOB, CAT, some_users
from tests.support.waiting import WAIT_SECONDS, retried, until
from tidings.cluster import redis_link
from tidings.cluster.channels import Subscription
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.redis_servers import RedisServers
from tidings.cluster.registry import REFRESHED_AT_ONCE, RedisRegistry
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.ports.delivery import ConnectionAddress, Refreshed, RegistryUnavailable

SHORT_MS = 40


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    async with a_link(redis_url) as opened:
        yield opened


async def run_out(registry: RedisRegistry, user: UserKey) -> None:
    """Wait until nobody is found any more."""
    await until(lambda: registry.find([user]), equals={})


async def test_who_entered_is_found_from_everywhere(link: RedisLink) -> None:
    one, other = RedisRegistry(link, "g1"), RedisRegistry(link, "g2")
    await one.enter(ANN, "c1")
    await one.enter(ANN, "c2")
    await other.enter(ANN, "c3")
    await other.enter(BOB, "c4")

    found = await one.find([ANN, BOB, CAT])

    assert sorted(found[ANN]) == [
        ConnectionAddress("g1", "c1"),
        ConnectionAddress("g1", "c2"),
        ConnectionAddress("g2", "c3"),
    ]
    assert found[BOB] == [ConnectionAddress("g2", "c4")]
    assert CAT not in found


async def test_nobody_is_found_among_nobody(link: RedisLink) -> None:
    assert await RedisRegistry(link, "g1").find([]) == {}


async def test_who_left_is_not_found(link: RedisLink) -> None:
    registry = RedisRegistry(link, "g1")
    await registry.enter(ANN, "c1")
    await registry.enter(ANN, "c2")

    registry.leave(ANN, "c1")
    await registry.close()

    assert await registry.find([ANN]) == {ANN: [ConnectionAddress("g1", "c2")]}


async def test_a_thousand_members_are_found_in_one_round_trip(link: RedisLink) -> None:
    registry = RedisRegistry(link, "g1")
    users = some_users(1_000)
    assert len((await registry.refresh([(user, "c") for user in users])).missing) == 1_000
    await registry.find(users)  # now Redis knows the script
    before = await commands(link)

    found = await registry.find(users)

    assert found == {user: [ConnectionAddress("g1", "c")] for user in users}
    assert await commands(link) - before == {"evalsha": 1}


async def commands(link: RedisLink) -> "Calls":
    stats = await link.redis.info("commandstats")
    return Calls({name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()})


class Calls(dict[str, int]):
    """How often each command was called, without those that looking takes or scripts make."""

    def __sub__(self, earlier: "Calls") -> dict[str, int]:
        inside = {"info", "time", "zrangebyscore"}
        made = {name: times - earlier.get(name, 0) for name, times in self.items()}
        return {name: times for name, times in made.items() if times and name not in inside}


@pytest.mark.attack("C17")
async def test_what_is_not_refreshed_runs_out_by_itself(link: RedisLink) -> None:
    dead, alive = RedisRegistry(link, "g1", ttl_ms=SHORT_MS), RedisRegistry(link, "g2")
    await dead.enter(ANN, "c1")
    await alive.enter(ANN, "c2")
    await dead.enter(BOB, "c3")

    await run_out(alive, BOB)

    assert await alive.find([ANN]) == {ANN: [ConnectionAddress("g2", "c2")]}
    # A place is over with the millisecond it ends in, Redis drops the key with the next one.
    await until(lambda: link.redis.exists(link.name("user", BOB)), equals=0)


async def test_a_refresh_tells_who_was_not_registered_any_more(link: RedisLink) -> None:
    registry = RedisRegistry(link, "g1")
    await registry.enter(ANN, "c1")
    await registry.enter(BOB, "c2")
    assert await registry.refresh([(ANN, "c1"), (BOB, "c2")]) == Refreshed([], [])

    await link.redis.delete(link.name("user", BOB))

    refreshed = await registry.refresh([(ANN, "c1"), (BOB, "c2"), (CAT, "c3")])
    assert refreshed == Refreshed(missing=[(BOB, "c2"), (CAT, "c3")], surplus=[])
    assert set(await registry.find([ANN, BOB, CAT])) == {ANN, BOB, CAT}


async def test_a_refresh_tells_who_had_run_out(link: RedisLink) -> None:
    registry = RedisRegistry(link, "g1", ttl_ms=SHORT_MS)
    await registry.enter(ANN, "c1")
    await RedisRegistry(link, "g2").enter(ANN, "c2")  # keeps the key, not the place

    async def places() -> int:
        return len((await registry.find([ANN]))[ANN])

    await until(places, equals=1)

    assert await registry.refresh([(ANN, "c1")]) == Refreshed([(ANN, "c1")], [])


async def test_a_place_beyond_the_last_is_not_given_until_one_is_free(link: RedisLink) -> None:
    one, other = RedisRegistry(link, "g1"), RedisRegistry(link, "g2")
    names = [f"c{number}" for number in range(limits.USER_CONNECTIONS_MAX)]
    assert all([await one.enter(ANN, name) for name in names])

    assert not await other.enter(ANN, "late")
    assert await other.refresh([(ANN, "late"), (BOB, "c")]) == Refreshed(
        missing=[(BOB, "c")], surplus=[(ANN, "late")]
    )
    assert await one.refresh([(ANN, name) for name in names]) == Refreshed([], [])

    one.leave(ANN, "c0")
    await one.close()
    assert await other.enter(ANN, "late")


async def test_nobody_takes_the_place_of_a_connection_that_is_replaced(link: RedisLink) -> None:
    one, other = RedisRegistry(link, "g1"), RedisRegistry(link, "g2")
    for number in range(limits.USER_CONNECTIONS_MAX):
        assert await one.enter(ANN, f"c{number}")
    for number in range(20):
        async with asyncio.TaskGroup() as group:
            before = [group.create_task(other.enter(ANN, f"a{number}")) for _ in range(3)]
            new = group.create_task(one.enter(ANN, f"c{number}-new", instead_of=f"c{number}"))
            after = [group.create_task(other.enter(ANN, f"b{number}")) for _ in range(3)]
        assert new.result()
        assert not any(rival.result() for rival in (*before, *after))


async def test_who_leaves_during_a_refresh_is_not_put_back(link: RedisLink) -> None:
    registry = RedisRegistry(link, "g1")
    await registry.enter(ANN, "c1")
    before_her = [(user, "c") for user in some_users(3 * REFRESHED_AT_ONCE)]
    async with asyncio.TaskGroup() as group:  # two connections are open
        for _ in range(2):
            group.create_task(registry.find([ANN]))
    refresh = asyncio.create_task(registry.refresh([*before_her, (ANN, "c1")]))
    await asyncio.sleep(0)
    registry.leave(ANN, "c1")

    await refresh
    await registry.close()

    assert await registry.find([ANN]) == {}


async def test_without_redis_nobody_knows_and_soon(own_redis: RedisServer) -> None:
    url = own_redis.address
    async with a_link(url) as opened:
        link = RedisLink(RedisServers(url), "p:", a_cipher())
        registry = RedisRegistry(link, "g1")
        await retried(lambda: registry.enter(ANN, "c1"), RegistryUnavailable)
        await asyncio.to_thread(own_redis.stop)

        for call in (registry.find([ANN]), registry.enter(ANN, "c2")):
            with pytest.raises(RegistryUnavailable):
                await call
        registry.leave(ANN, "c1")
        await registry.close()

        await asyncio.to_thread(own_redis.start)
        again = RedisRegistry(opened, "g1")
        assert await again.refresh([(ANN, "c1")]) == Refreshed([(ANN, "c1")], [])
        await link.close()


async def test_a_redis_that_hangs_is_not_waited_for(own_redis: RedisServer) -> None:
    link = RedisLink(RedisServers(own_redis.address), "p:", a_cipher())
    registry = RedisRegistry(link, "g1", ttl_ms=3_600_000)
    await retried(lambda: registry.enter(ANN, "c1"), RegistryUnavailable)
    await asyncio.to_thread(own_redis.pause)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            with pytest.raises(RegistryUnavailable):
                await registry.find([ANN])
    finally:
        await asyncio.to_thread(own_redis.resume)
    assert ANN in await retried(lambda: registry.find([ANN]), RegistryUnavailable)
    await link.close()


async def test_connections_to_a_primary_that_became_a_replica_are_made_again(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name may lead to another server by now."""
    monkeypatch.setattr(redis_link, "RENEW_SECONDS_MIN", 3_600.0)
    ups = 0

    def came_up() -> None:
        nonlocal ups
        ups += 1

    async with a_link(own_redis.address) as link:
        registry = RedisRegistry(link, "g1")
        subscription = Subscription(link, (link.name("gateway", "g1"),), lambda _: None, came_up)
        subscription.start()
        await subscription.up()
        before = await link.redis.client_id()
        await link.redis.replicaof("127.0.0.1", "1")
        with pytest.raises(RegistryUnavailable):
            await registry.enter(ANN, "c1")
        assert await link.redis.client_id() != before
        await until(lambda: ups, equals=2)
        between = await link.redis.client_id()
        with pytest.raises(RegistryUnavailable):
            await registry.enter(ANN, "c1")
        assert await link.redis.client_id() == between, "it waits before it tries again"
        await subscription.close()
