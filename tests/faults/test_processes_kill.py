# SPDX-License-Identifier: Apache-2.0
"""Nothing lost: each process of a server is killed at random moments under load."""

import random
from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.conftest import Say
from tests.faults.fault_run import Act, crash_under_load
from tests.support.many_processes import FRONTS, ManyProcesses
from tests.support.server import NO_LIMITS, ServerProcess


def kill_one(chance: random.Random) -> Act:
    """Kill the owner or one of the fronts; its supervisor starts another one."""

    async def kill(server: ServerProcess) -> None:
        assert isinstance(server, ManyProcesses)
        number = chance.randrange(FRONTS + 1)
        await (server.kill_front(number) if number < FRONTS else server.kill_owner())

    return kill


async def kill_run(folder: Path, say: Say, *, seed: int, kills: int) -> None:
    async with ManyProcesses(folder / "data", environment=NO_LIMITS) as server:
        history = await crash_under_load(
            server,
            seed=seed,
            crashes=kills,
            in_flight_min=1,
            acknowledged_min=20 * kills + 1,
            spoilt_starts=0,
            crash=kill_one(random.Random(seed)),
        )
        supervisor = server.exit_code
    history.save(folder / "history.jsonl")
    verdict = check(history)
    say(f"processes killed, seed {seed}: {verdict}")
    assert verdict.violations == [], str(verdict)
    assert verdict.counts.acknowledged > 20 * kills
    assert verdict.counts.kills_in_flight > 0, "no kill met a message on its way"
    assert supervisor is None, "the supervisor goes on"
    assert [line for line in server.log_lines() if "exception" in line or "text" in line] == []


@pytest.mark.slow
async def test_nothing_is_lost_when_a_process_is_killed(tmp_path: Path, say: Say) -> None:
    await kill_run(tmp_path, say, seed=1, kills=9)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [21, 22])
async def test_nothing_is_lost_in_many_kills_of_processes(
    tmp_path: Path, say: Say, seed: int
) -> None:
    await kill_run(tmp_path, say, seed=seed, kills=60)
