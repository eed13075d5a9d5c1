# SPDX-License-Identifier: Apache-2.0
"""The test of the test: a fleet with a planted bug is found out, by the rule that should."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.faults.conftest import Say
from tests.faults.many.fleet import GATEWAYS, WORKERS, a_fleet
from tests.faults.many.many_run import Harm, run_fleet
from tests.faults.many.nemesis import Nemesis
from tests.faults.many.roaming import Roamer
from tests.support.services import KafkaBroker, RedisServer
from tidings.model.push_rules import YOUNG_MS_MAX

HERE: Final = Path(__file__).parent
LOAD_SECONDS: Final = 8.0


async def spoil(nemesis: Nemesis, _roamers: list[Roamer]) -> None:
    """The store answers most of the time."""
    spoiling = asyncio.create_task(nemesis.keep_spoiling())
    await nemesis.kill(GATEWAYS[0])
    await nemesis.silence_store()
    await nemesis.kill(GATEWAYS[1])
    spoiling.cancel()


async def leave_alone(_nemesis: Nemesis, _roamers: list[Roamer]) -> None:
    """Nothing happens but the load."""
    await asyncio.sleep(LOAD_SECONDS)


async def stand_still(nemesis: Nemesis, roamers: list[Roamer]) -> None:
    """Only a pause."""
    await nemesis.pause(GATEWAYS[0], roamers)


async def grow_old(_nemesis: Nemesis, _roamers: list[Roamer]) -> None:
    """Long enough for the first messages not to be new any more."""
    await asyncio.sleep(YOUNG_MS_MAX / 1_000 + LOAD_SECONDS)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("script", "processes", "harm", "replays", "rule"),
    [
        ("sabotage_answers_first.py", GATEWAYS, spoil, False, "lost:"),
        ("sabotage_hands_nothing.py", (*WORKERS, "relay"), leave_alone, False, "incomplete:"),
        ("sabotage_never_paused.py", GATEWAYS, stand_still, False, "stale:"),
        ("sabotage_pushes_old.py", WORKERS, grow_old, True, "pushed again:"),
    ],
    ids=["answers first", "hands nothing", "never paused", "pushes old"],
)
async def test_a_planted_bug_is_found(
    tmp_path: Path,
    say: Say,
    dynamodb_endpoint: str,
    own_kafka: KafkaBroker,
    own_redis: RedisServer,
    script: str,
    processes: Sequence[str],
    harm: Harm,
    replays: bool,
    rule: str,
) -> None:
    async with a_fleet(
        tmp_path / "fleet",
        dynamodb=dynamodb_endpoint,
        kafka=own_kafka,
        redis=own_redis,
        launchers=dict.fromkeys(processes, HERE / script),
        waits="redis",  # without it gateways compare, and deliver what nobody handed over
    ) as fleet:
        report = await run_fleet(fleet, seed=7, harm=harm, replays=replays)
    say(f"{script}: {report}")
    assert any(violation.startswith(rule) for violation in report.violations), str(report)
