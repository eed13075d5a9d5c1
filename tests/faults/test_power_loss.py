# SPDX-License-Identifier: Apache-2.0
"""Nothing lost when the power goes: whatever was not synced is taken from the disk."""

import random
from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.conftest import Say
from tests.faults.crowd import CATCH_UP_SECONDS_MAX
from tests.faults.disk_shim import DiskShim
from tests.faults.fault_run import crash_under_load
from tests.faults.verdict import LIARS_CATCH_UP_SECONDS, Verdict
from tests.support.server import NO_LIMITS, ServerProcess

NO_SYNC = Path(__file__).with_name("sabotage_no_sync.py")


async def lose_power_under_load(
    folder: Path,
    shim: Path,
    *,
    seed: int,
    losses: int,
    launcher: Path | None = None,
    catch_up_seconds: float = CATCH_UP_SECONDS_MAX,
) -> tuple[Verdict, list[int]]:
    """The verdict, and for each loss how many writes it hit; there are more until one hits some.

    Every other loss leaves some of what was not synced on the disk, whole or in part.
    """
    chance = random.Random(seed)
    hit: list[int] = []
    disk: DiskShim | None = None

    async def put_shim_in_place(server: ServerProcess) -> None:
        nonlocal disk
        disk = DiskShim(server, shim)
        server.launcher = launcher
        await server.restart()

    async def lose_power(server: ServerProcess) -> None:
        assert disk is not None
        await server.kill()
        hit.append(disk.lose_power(chance if len(hit) % 2 else None))

    async with ServerProcess(folder / "data", environment=NO_LIMITS) as server:
        history = await crash_under_load(
            server,
            seed=seed,
            crashes=losses,
            is_enough=lambda: any(hit),
            prepare=put_shim_in_place,
            crash=lose_power,
            catch_up_seconds=catch_up_seconds,
        )
    history.save(folder / "history.jsonl")
    return check(history), hit


async def power_loss_run(folder: Path, shim: Path, say: Say, *, seed: int, losses: int) -> None:
    verdict, hit = await lose_power_under_load(folder, shim, seed=seed, losses=losses)
    say(f"lost power, hitting {hit} writes, seed {seed}: {verdict.counts}")
    assert verdict.violations == []


@pytest.mark.slow
async def test_nothing_is_lost_with_what_was_not_synced(
    tmp_path: Path, shim: Path, say: Say
) -> None:
    await power_loss_run(tmp_path, shim, say, seed=2, losses=12)


@pytest.mark.soak
async def test_nothing_is_lost_in_a_hundred_losses_of_power(
    tmp_path: Path, shim: Path, say: Say
) -> None:
    await power_loss_run(tmp_path, shim, say, seed=21, losses=100)


@pytest.mark.slow
async def test_a_server_that_does_not_sync_is_found_out(tmp_path: Path, shim: Path) -> None:
    verdict, _ = await lose_power_under_load(
        tmp_path,
        shim,
        seed=3,
        losses=1,
        launcher=NO_SYNC,
        catch_up_seconds=LIARS_CATCH_UP_SECONDS,
    )
    assert verdict.outcome == "invalid"
    assert any(violation.startswith("lost:") for violation in verdict.violations), str(verdict)
