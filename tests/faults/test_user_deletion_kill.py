# SPDX-License-Identifier: Apache-2.0
"""A server that is killed while it deletes a user ends in a receipt with exact counts, and leaves
nothing of the person behind but what the receipt lists."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from tests.contract.engines import SqliteEngine
from tests.faults.conftest import Say
from tests.faults.deleted_user import TRACES, DeletedUser, fill, traces_in_text
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until
from tidings.assembly.system import SystemClock

MOMENT_SECONDS_MAX = 0.25


def traces_in(folder: Path) -> list[str]:
    """Which files say something about the person."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        f"{path.name} has {trace}" for path in files for trace in traces_in_text(path.read_bytes())
    ]


async def deletion_run(folder: Path, say: Say, kills: int) -> None:
    chance = random.Random(kills)
    async with ServerProcess(folder / "data", environment=NO_LIMITS) as server:
        async with Town(server.url, server.root_key) as town:
            user = DeletedUser(town)
            await user.make()
            await server.terminate()
            async with SqliteEngine(folder / "data").open() as store:
                await fill(store, user.has, SystemClock().now())
            shutil.copytree(folder / "data", folder / "backup")
            assert len(traces_in(folder / "data")) >= len(TRACES)
            await server.start()
            for _ in range(kills):
                asked = asyncio.create_task(user.ask())
                await asyncio.sleep(chance.uniform(0, MOMENT_SECONDS_MAX))
                await server.kill()
                await asked
                await server.start()
            await until(user.state, equals="done", seconds=60)
            await user.receipt()
            await server.terminate()
            assert traces_in(folder / "data") == []
            assert [
                path for path in (folder / "data/attachments").rglob("*") if path.is_file()
            ] == []
            await restored(folder, server, user)
    say(f"a user deleted with {kills} kills; met {sorted(user.phases)}")


async def restored(folder: Path, server: ServerProcess, user: DeletedUser) -> None:
    """Put the backup back: the ledger deletes the person again, before anybody is served."""
    (folder / "data" / "tidings.db").unlink()
    shutil.copy(folder / "backup" / "tidings.db", folder / "data")
    await server.start()
    answer = await user.request("POST", "/v1/tenants/town/tokens", {"user_id": "zoe"})
    assert (answer.status_code, answer.json()["code"]) == (409, "user.deleted")
    await until(user.state, equals="done", seconds=60)
    # The start destroyed the key before the job looked for one, and the job counts it all the same.
    assert (await user.ask())["counts"] == user.has.counts
    await server.terminate()
    assert traces_in(folder / "data") == []


@pytest.mark.slow
async def test_a_killed_server_goes_on_deleting_a_user(tmp_path: Path, say: Say) -> None:
    await deletion_run(tmp_path, say, kills=5)


@pytest.mark.soak
async def test_a_server_that_is_killed_20_times_deletes_a_user(tmp_path: Path, say: Say) -> None:
    await deletion_run(tmp_path, say, kills=20)
