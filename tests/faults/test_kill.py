# SPDX-License-Identifier: Apache-2.0
"""Nothing lost: the server is killed at random moments under load, and the clients' word counts."""

from pathlib import Path
from statistics import mean

import pytest

from tests.faults.checker import check
from tests.faults.conftest import Say
from tests.faults.fault_run import crash_under_load
from tests.faults.verdict import ACKNOWLEDGED_MIN, KILLS_IN_FLIGHT_MIN
from tests.support.server import NO_LIMITS, ServerProcess


async def kill_run(folder: Path, say: Say, *, seed: int, kills: int) -> None:
    async with ServerProcess(folder / "data", environment=NO_LIMITS) as server:
        history = await crash_under_load(
            server,
            seed=seed,
            crashes=kills,
            in_flight_min=KILLS_IN_FLIGHT_MIN,
            acknowledged_min=ACKNOWLEDGED_MIN,
        )
        # Leaves a write-ahead log behind for the scan to look into.
        await server.kill()
    history.save(folder / "history.jsonl")
    verdict = check(history)
    starts = history.start_seconds
    say(f"killed, seed {seed}: {verdict}")
    say(f"  starts took {mean(starts):.2f} s on average, {max(starts):.2f} s at most")
    assert verdict.outcome == "valid", str(verdict)
    assert [line for line in server.log_lines() if "exception" in line or "text" in line] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_nothing_is_lost_when_the_server_is_killed(tmp_path: Path, say: Say) -> None:
    await kill_run(tmp_path, say, seed=1, kills=22)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [11, 12, 13])
async def test_nothing_is_lost_in_more_than_a_hundred_kills(
    tmp_path: Path, say: Say, seed: int
) -> None:
    await kill_run(tmp_path, say, seed=seed, kills=120)
