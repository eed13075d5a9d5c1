# SPDX-License-Identifier: Apache-2.0
"""Nothing lost, nothing leaked: many processes, and all that can go wrong with them at once."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.faults.conftest import Say
from tests.faults.many.fleet import GATEWAYS, WORKERS, Fleet, a_fleet
from tests.faults.many.many_run import run_fleet
from tests.faults.many.nemesis import Nemesis
from tests.faults.many.report import Enough
from tests.faults.many.roaming import Roamer
from tests.support.services import KafkaBroker, RedisServer

SHORT: Final = Enough(
    acknowledged=80,
    kills_in_flight=3,
    reconnects_with_news=10,
    kicks=2,
    guest_told=1,
    # Kafka is away for a part of it, and what it missed is delivered without it.
    finished_events=30,
    pauses_felt=1,
    replayed_events=30,
    replayed_old=5,
    flushes=3,
    broker_restarts=1,
    store_faults=10,
    restarts=5,
)
LONG: Final = Enough(
    acknowledged=1_000,
    kills_in_flight=20,
    reconnects_with_news=50,
    kicks=20,
    guest_told=10,
    finished_events=1_000,
    pauses_felt=3,
    replayed_events=1_000,
    replayed_old=100,
    flushes=20,
    broker_restarts=3,
    store_faults=100,
)
SOAK_SECONDS: Final = float(os.environ.get("SOAK_SECONDS", "480"))


@asynccontextmanager
async def restless(nemesis: Nemesis, roamers: list[Roamer]) -> AsyncIterator[None]:
    """What goes on beside everything else."""
    tasks = [
        asyncio.create_task(nemesis.keep_flushing()),
        asyncio.create_task(nemesis.keep_spoiling()),
        asyncio.create_task(nemesis.keep_wandering(roamers)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def one_after_the_other(nemesis: Nemesis, roamers: list[Roamer]) -> None:
    """Each kind of harm at least once; a pause takes its time, so others go beside it. Then a
    rolling restart."""
    async with restless(nemesis, roamers):
        async with asyncio.TaskGroup() as group:
            group.create_task(nemesis.pause(GATEWAYS[1], roamers))
            await nemesis.kill(WORKERS[0])
            await nemesis.kill("relay")
            await asyncio.gather(nemesis.restart_broker(), nemesis.kill(GATEWAYS[0]))
        await nemesis.kill(GATEWAYS[1], WORKERS[1])
        while nemesis.kills_in_flight < SHORT.kills_in_flight:
            await nemesis.kill(GATEWAYS[1])
        await nemesis.silence_store()
    await nemesis.restart_in_turn()


async def at_random(nemesis: Nemesis, roamers: list[Roamer], seconds: float, seed: int) -> None:
    """Any of it in any order for so long."""
    chance = random.Random(seed)
    until = asyncio.get_running_loop().time() + seconds
    async with restless(nemesis, roamers):
        await some_of_each(nemesis, roamers)
        while asyncio.get_running_loop().time() < until:
            luck = chance.random()
            if luck < 0.75:
                await nemesis.kill_some()
            elif luck < 0.85:
                await nemesis.pause(chance.choice(GATEWAYS), roamers)
            elif luck < 0.93:
                await nemesis.restart_broker()
            else:
                await nemesis.silence_store()
            await asyncio.sleep(chance.uniform(0, 3))


async def some_of_each(nemesis: Nemesis, roamers: list[Roamer]) -> None:
    """What has to happen a few times, whatever chance brings."""
    for _ in range(3):
        await nemesis.restart_broker()
        await nemesis.pause(GATEWAYS[0], roamers)


def no_exceptions(fleet: Fleet) -> list[str]:
    """What processes logged that nobody expected; a library may say what it likes."""
    return [
        f"{name}: {str(line)[:300]}"
        for name, process in fleet.cluster.processes.items()
        for line in process.log_lines()
        if "exception" in line or "text" in line
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_is_lost_or_leaked_whatever_fails(
    tmp_path: Path,
    say: Say,
    dynamodb_endpoint: str,
    own_kafka: KafkaBroker,
    own_redis: RedisServer,
) -> None:
    async with a_fleet(
        tmp_path / "fleet", dynamodb=dynamodb_endpoint, kafka=own_kafka, redis=own_redis
    ) as fleet:
        report = await run_fleet(fleet, seed=1, harm=one_after_the_other)
    say(f"many processes, seed 1: {report.outcome(SHORT)}: {report}")
    assert report.violations == []
    assert report.lacking(SHORT) == []
    assert no_exceptions(fleet) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", [101, 102, 103])
async def test_nothing_is_lost_or_leaked_for_a_long_time(
    tmp_path: Path,
    say: Say,
    dynamodb_endpoint: str,
    own_kafka: KafkaBroker,
    own_redis: RedisServer,
    seed: int,
) -> None:
    async def harm(nemesis: Nemesis, roamers: list[Roamer]) -> None:
        await at_random(nemesis, roamers, SOAK_SECONDS, seed)

    async with a_fleet(
        tmp_path / "fleet", dynamodb=dynamodb_endpoint, kafka=own_kafka, redis=own_redis
    ) as fleet:
        report = await run_fleet(fleet, seed=seed, harm=harm)
    say(f"many processes, seed {seed}: {report.outcome(LONG)}: {report}")
    assert report.violations == []
    assert report.lacking(LONG) == []
