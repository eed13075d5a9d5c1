# SPDX-License-Identifier: Apache-2.0
"""The list of processes in Redis, and the connections of a user on several gateways."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.integration.gateways import Gateways, some_gateways
from tests.integration.redis_places import a_link, new_prefix
from tests.support.clock import ManualClock
from tests.support.message_cipher import a_cipher
from tests.support.users import ANN
from tidings.cluster.processes import RedisProcesses
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.redis_servers import RedisServers
from tidings.cluster.registry import RedisRegistry
from tidings.gateway.connection_states import AllConnections, OwnConnections, RemoteConnections
from tidings.ports.delivery import RegistryUnavailable
from tidings.ports.processes import Lags, Latencies, ProcessState, Quantiles, Rates

NOTHING = Quantiles(None, None)
STATE = ProcessState(
    name="a",
    host="h1",
    pid=1,
    roles=("gateway",),
    version="0.1.0",
    started_at=1,
    reported_at=1,
    trouble=None,
    sockets=3,
    users=2,
    memory_bytes=1,
    rates=Rates(messages=1.5, entries=2, frames_in=3, frames_out=4, requests=5, refusals=0),
    latencies=Latencies(send=NOTHING, delivery=NOTHING, hello=NOTHING, loop=Quantiles(0.1, 0.2)),
    lags=Lags(bus_seconds=0.25, sees_revocations=True, failing_loops=0),
)


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    async with a_link(redis_url) as opened:
        yield opened


async def test_every_process_sees_the_last_report_of_each(link: RedisLink) -> None:
    clock = ManualClock()
    listed = RedisProcesses(link, clock)
    assert await listed.states() == []
    await listed.report(STATE)
    await listed.report(replace(STATE, name="b", trouble="draining"))
    await listed.report(replace(STATE, sockets=4))
    found = {state.name: state for state in await listed.states()}
    assert found.keys() == {"a", "b"}
    assert found["b"].trouble == "draining"
    # Reports are dated by the clock of Redis, so other processes' clocks may be wrong.
    age = clock.now() - found["a"].reported_at
    assert 0 <= age < 60_000
    assert replace(found["a"], reported_at=1) == replace(STATE, sockets=4)
    await listed.forget("a")
    assert [state.name for state in await listed.states()] == ["b"]


async def test_a_process_that_died_long_ago_is_forgotten(link: RedisLink) -> None:
    listed = RedisProcesses(link, ManualClock())
    await listed.report(STATE)
    await link.redis.zadd(listed._times, {"a": 1})
    assert await listed.states() == []
    await listed.report(replace(STATE, name="b"))
    assert await link.redis.zcard(listed._times) == 1


async def test_what_another_deployment_or_version_wrote_is_left_out(redis_url: str) -> None:
    prefix = new_prefix()
    async with a_link(redis_url, prefix) as link:
        foreign = RedisLink(RedisServers(redis_url), prefix, a_cipher(b"another"))
        listed = RedisProcesses(link, ManualClock())
        await listed.report(STATE)
        await RedisProcesses(foreign, ManualClock()).report(replace(STATE, name="b"))
        await foreign.close()
        await listed.report(replace(STATE, name="c"))
        await link.redis.set(listed._key("c"), link.seal(listed._key("c"), b"\x80"))
        await listed.report(replace(STATE, name="d"))
        await link.redis.delete(listed._key("d"))
        assert [state.name for state in await listed.states()] == ["a"]
        # The states tell nothing to those who can read Redis.
        assert "gateway" not in str(await link.redis.get(listed._key("a")))


async def test_without_redis_a_report_is_lost_and_the_list_unknown() -> None:
    async with a_link("redis://127.0.0.1:1/0") as link:
        listed = RedisProcesses(link, ManualClock())
        await listed.report(STATE)
        await listed.forget("a")
        with pytest.raises(RegistryUnavailable):
            await listed.states()
        questions: Any = None  # nobody is asked
        remote = RemoteConnections(RedisRegistry(link, "g1"), questions, "g1")
        assert await remote.of(ANN) == ([], False)


@pytest.fixture
async def gateways(tmp_path: Path, redis_url: str) -> AsyncIterator[Gateways]:
    async with some_gateways(tmp_path / "data", redis_url) as opened:
        yield opened


async def test_connections_are_found_on_every_gateway(gateways: Gateways) -> None:
    one, other = await gateways.open("g1"), await gateways.open("g2")
    clock = gateways.bench.clock
    own = OwnConnections(one.hub, clock, "g1")
    everywhere = AllConnections(own, RemoteConnections(one.registry, one.handover, "g1"))
    assert await everywhere.of(ANN) == ([], True)
    here, there = await one.line().live(ANN), await other.line().live(ANN, client="web/2")
    found, is_complete = await everywhere.of(ANN)
    assert is_complete
    assert {(state.process, state.connection, state.client) for state in found} == {
        ("g1", here.conversation.connection, None),
        ("g2", there.conversation.connection, "web/2"),
    }
    await other.mailbox.close()
    found, is_complete = await everywhere.of(ANN)
    assert ([state.process for state in found], is_complete) == (["g1"], False)
