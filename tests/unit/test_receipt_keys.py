# SPDX-License-Identifier: Apache-2.0
"""Keys that sign receipts: none is lost when several requests change them at the same moment."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.intercepted import Intercepted
from tests.unit.small_deployment import SmallDeployment, open_small_deployment
from tidings.actions.content.vault import DEPLOYMENT_SECRETS
from tidings.actions.jobs.receipts import ErasureReceipts
from tidings.assembly.system import SystemChance
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import Deployment


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data") as opened:
        yield opened


def receipts_of(world: SmallDeployment, deployment: Deployment) -> ErasureReceipts:
    return ErasureReceipts(deployment, world.vault.wrapping, world.clock, SystemChance())


def interrupted(world: SmallDeployment, acts: list[Callable[[], Awaitable[object]]]) -> Any:
    """The deployment, as a caller sees it before whose writes others do these acts, one each."""

    async def first_the_others(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name == "replace_sealed" and acts:
            await acts.pop()()
        return await call()

    return Intercepted(world.store.deployment, first_the_others)


async def published(world: SmallDeployment) -> set[str]:
    keys = await receipts_of(world, world.store.deployment).published()
    return {str(key.kid) for key in keys}


async def test_two_rotations_at_once_lose_no_key(world: SmallDeployment) -> None:
    other = receipts_of(world, world.store.deployment)
    before = {str(key.kid) for key in await other.published()}
    made: list[str] = []

    async def rotate() -> None:
        made.append(await other.rotate())

    mine = await receipts_of(world, interrupted(world, [rotate])).rotate()
    assert await published(world) == {*before, *made, mine}
    busy = receipts_of(world, interrupted(world, [rotate] * 100))
    with pytest.raises(StoreUnavailable):
        await busy.rotate()
    assert await published(world) == {*before, *made, mine}


async def test_a_rotation_of_the_master_key_keeps_a_new_receipt_key(world: SmallDeployment) -> None:
    receipts = receipts_of(world, world.store.deployment)
    before = {str(key.kid) for key in await receipts.published()}
    made: list[str] = []

    async def add_a_key() -> None:
        made.append(await receipts.rotate())

    async def do_nothing() -> None:
        pass

    # The receipt keys come after the other secrets.
    deployment = interrupted(world, [add_a_key, *[do_nothing] * len(DEPLOYMENT_SECRETS)])
    await msgspec.structs.replace(world.rotate, deployment=deployment)()
    assert await published(world) == {*before, *made}
    assert len(made) == 1
