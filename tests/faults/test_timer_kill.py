# SPDX-License-Identifier: Apache-2.0
"""What is due is delivered once and not early, however often processes are killed meanwhile."""

import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

import pytest

from tests.faults.conftest import Say
from tests.faults.due_load import DueLoad, gather_load, histogram, lateness, now_ms
from tests.support.cluster import Services, a_cluster
from tests.support.dynamo_tables import some_tables
from tests.support.engine import ENGINES, as_environment, some_engine
from tests.support.many_processes import ManyProcesses
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until
from tidings.model.limits import SECOND_MS

ROLES: Final = {"front": "api,gateway,relay", "worker-1": "worker", "worker-2": "worker"}
SOAK_DUE: Final = int(os.environ.get("SOAK_DUE", "100000"))
LEAD: Final = max(30, SOAK_DUE * 4 // 1_000)
"""Seconds in which two cores can schedule all of them, even beside other programs."""
SOAK_FLEET_DUE: Final = int(os.environ.get("SOAK_FLEET_DUE", "10000"))
FLEET_LEAD: Final = 60 + SOAK_FLEET_DUE // 100
"""DynamoDB Local takes much longer than SQLite."""
SMALL_SHARE: Final = 10
"""One of this many items belongs to a second tenant, which must not wait for the first."""


async def kill_run(
    town_of: Callable[[str], Town],
    kill: Sequence[Callable[[], Awaitable[None]]],
    say: Say,
    *,
    due: int,
    lead_seconds: int,
    spread_seconds: int,
    kills: int,
    wait_seconds: float = 3_600,
) -> None:
    """Schedule, kill in turn while things become due, and compare."""
    chance, loads = random.Random(due), dict[str, DueLoad]()
    async with AsyncExitStack() as stack:
        for tenant, count in (("large", due - due // SMALL_SHARE), ("small", due // SMALL_SHARE)):
            town = await stack.enter_async_context(town_of(tenant))
            loads[tenant] = await gather_load(town, count // 180 + 2)
        began = time.monotonic()
        begin = now_ms() + lead_seconds * SECOND_MS
        for tenant, count in (("small", due // SMALL_SHARE), ("large", due - due // SMALL_SHARE)):
            await loads[tenant].schedule(count, begin, spread_seconds * SECOND_MS, chance)
        say(f"{due:,} scheduled in {time.monotonic() - began:.0f} s")
        for number, kill_one in zip(range(kills), cycle(kill), strict=False):
            at = begin + spread_seconds * SECOND_MS * (number + 1) // (kills + 1)
            await until(partial(is_past, at), seconds=lead_seconds + spread_seconds + 60)
            await kill_one()
        for tenant, load in loads.items():
            late = lateness(load.planned, await load.arrived(wait_seconds))
            what = f"{tenant}: {len(late):,} due in {spread_seconds} s, {kills} kills"
            say(f"{what}: {histogram(late)}")


def is_past(at: int) -> bool:
    """Return True if a time has passed."""
    return now_ms() >= at


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_killed_server_delivers_what_is_due_once(
    tmp_path: Path, say: Say, request: pytest.FixtureRequest, engine: str
) -> None:
    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    async with some_engine(engine, endpoint) as settings:
        environment = {**NO_LIMITS, **as_environment(settings)}
        async with ServerProcess(
            tmp_path / "data", environment=environment, waits="due_items"
        ) as server:
            town_of = partial(Town, server.url, server.root_key)
            await kill_run(
                town_of,
                [server.restart],
                say,
                due=150,
                lead_seconds=3,
                spread_seconds=3,
                kills=2,
                wait_seconds=300,
            )


@pytest.mark.soak
async def test_100_000_are_due_within_a_minute(tmp_path: Path, say: Say) -> None:
    async with ServerProcess(tmp_path / "data", environment=NO_LIMITS) as server:
        await soak_run(server, [server.restart], say)


@pytest.mark.soak
async def test_100_000_are_due_in_a_server_of_several_processes(tmp_path: Path, say: Say) -> None:
    async with ManyProcesses(tmp_path / "data", environment=NO_LIMITS) as server:
        await soak_run(server, [server.kill_owner, server.kill_front], say)


async def soak_run(
    server: ServerProcess, kill: Sequence[Callable[[], Awaitable[None]]], say: Say
) -> None:
    """Let as much be due within a minute as `SOAK_DUE` says."""
    town_of = partial(Town, server.url, server.root_key)
    await kill_run(town_of, kill, say, due=SOAK_DUE, lead_seconds=LEAD, spread_seconds=60, kills=6)


@pytest.mark.soak
async def test_two_workers_are_killed_in_turn_while_thousands_are_due(
    tmp_path: Path, say: Say, dynamodb_endpoint: str, kafka_address: str, redis_url: str
) -> None:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    off = {"limits": "off"}
    async with (
        some_tables(dynamodb_endpoint) as prefix,
        a_cluster(tmp_path / "fleet", services, prefix, ROLES, more=off) as cluster,
    ):
        workers = [cluster["worker-1"].restart, cluster["worker-2"].restart]
        town_of = partial(cluster.town, api="front")
        await kill_run(
            town_of,
            workers,
            say,
            due=SOAK_FLEET_DUE,
            lead_seconds=FLEET_LEAD,
            spread_seconds=60,
            kills=6,
        )
