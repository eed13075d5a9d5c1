# SPDX-License-Identifier: Apache-2.0
"""One run: a server under load that is crashed again and again, and the history of its clients."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from tests.faults.crowd import CATCH_UP_SECONDS_MAX, gather_crowd
from tests.faults.history import History
from tests.faults.verdict import count
from tests.faults.workload import Workload
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

LOAD_SECONDS_MAX: Final = 0.3
START_SECONDS_SPOILT: Final = 1.0
EARLY_EVERY: Final = 8
"""Every eighth crash does not wait until messages are under way again."""

Act = Callable[[ServerProcess], Awaitable[None]]


async def kill(server: ServerProcess) -> None:
    """The plainest crash."""
    await server.kill()


async def change_nothing(_server: ServerProcess) -> None:
    """The server stays as it is."""


async def crash_under_load(
    server: ServerProcess,
    *,
    seed: int,
    crashes: int,
    in_flight_min: int = 0,
    acknowledged_min: int = 0,
    is_enough: Callable[[], bool] = lambda: True,
    spoilt_starts: float = 0.1,
    prepare: Act = change_nothing,
    crash: Act = kill,
    catch_up_seconds: float = CATCH_UP_SECONDS_MAX,
) -> History:
    """Load a running server, crash and restart it, and return what the clients saw.

    There are `crashes`, and more until `in_flight_min` of them have hit a send in flight and they
    are enough.
    `prepare` may change the server once everyone has an account and nobody is connected yet;
    `spoilt_starts` is the share of starts that are crashed too. It ends with a server that runs
    and with everyone's logs read; devices have `catch_up_seconds` to come to the end of them.
    """
    chance = random.Random(seed)
    history = History()
    async with Town(server.url, server.root_key) as town:
        crowd = await gather_crowd(town, chance)
        await prepare(server)
        await crowd.connect()
        try:
            async with asyncio.TaskGroup() as group:
                workload = Workload(crowd, history, chance)
                group.create_task(workload.run())
                while (
                    len(history.kills) < crashes
                    or count(history).kills_in_flight < in_flight_min
                    or not is_enough()
                ):
                    number = len(history.kills) + 1
                    await _random_moment(workload, chance, is_early=number % EARLY_EVERY == 0)
                    history.killed()
                    await crash(server)
                    if chance.random() < spoilt_starts:
                        await _spoil_start(server, chance, crash)
                    await _start(server, history)
                await _acknowledged(workload, acknowledged_min)
                workload.stop()
            await crowd.read_all(history, catch_up_seconds)
        finally:
            await crowd.disconnect()
    return history


async def _start(server: ServerProcess, history: History) -> None:
    began = time.monotonic()
    await server.start()
    history.start_seconds.append(time.monotonic() - began)


async def _random_moment(workload: Workload, chance: random.Random, *, is_early: bool) -> None:
    """While messages are under way, or, if early, while everyone is still coming back."""
    if not is_early:
        await _acknowledged(workload, len(workload.acknowledged) + 1)
    await asyncio.sleep(chance.uniform(0, LOAD_SECONDS_MAX))
    if not is_early:
        await until(lambda: workload.in_flight)


async def _acknowledged(workload: Workload, number: int) -> None:
    await until(lambda: len(set(workload.acknowledged)) >= number)


async def _spoil_start(server: ServerProcess, chance: random.Random, crash: Act) -> None:
    """A crash while the server starts: also then nothing may be lost."""
    server.launch()
    await asyncio.sleep(chance.uniform(0, START_SECONDS_SPOILT))
    await crash(server)
