# SPDX-License-Identifier: Apache-2.0
"""Keys that are about to be destroyed, as an engine of several processes has them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.clock import NOW
from tests.unit.small_deployment import (
    ALICE,
    CHAT,
    SmallDeployment,
    open_small_deployment,
    read,
    write,
)
from tidings.actions.content import data_keys
from tidings.actions.content.data_keys import KeyLeases
from tidings.actions.content.erasing import Erasing
from tidings.actions.content.vault import Vault
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import WrappedKey

AT_ONCE = KeyLeases(erasing_seconds=0)
NEVER = KeyLeases(erasing_seconds=3_600)


class EndingKeys:
    """The store's keys; a key ends when a test says so, and is there until it is destroyed."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys
        self.is_ending = False
        self.is_down = False
        self.began = asyncio.Event()
        self.destroyed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keys, name)

    async def current(self, author: UserKey) -> WrappedKey | None:
        key: WrappedKey | None = await self._keys.current(author)
        return key and msgspec.structs.replace(key, is_ending=self.is_ending)

    async def end(self, author: UserKey, now: int) -> int | None:
        self.is_ending = True
        self.began.set()
        return 1

    async def destroy(self, author: UserKey, generation: int, now: int) -> None:
        if not self.is_down:
            self.is_ending = False
            await self._keys.end(author, NOW)
        self.destroyed.set()
        if self.is_down:
            raise StoreUnavailable


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SmallDeployment]:
    async with open_small_deployment(tmp_path / "data", data_keys=EndingKeys) as opened:
        yield opened


def keys_of(world: SmallDeployment) -> EndingKeys:
    keys: EndingKeys = world.vault._data_keys  # type: ignore[assignment]
    return keys


async def another_vault(world: SmallDeployment, leases: KeyLeases) -> Vault:
    """The vault of another process on the same store."""
    keys: Any = keys_of(world)
    chance, clock = world.vault._chance, world.clock
    vault = Vault(keys, world.store.deployment, world.master, chance, clock, leases)
    await vault.start()
    return vault


async def test_who_meets_an_ending_key_finishes_what_another_process_began(
    world: SmallDeployment,
) -> None:
    before = await write(world.vault, "old")
    keys_of(world).is_ending = True
    other = await another_vault(world, AT_ONCE)
    with pytest.raises(StoreUnavailable, match="being erased"):
        await other.seal(ALICE, CHAT, "m2", "new")
    await keys_of(world).destroyed.wait()
    await other.close()
    fresh = await another_vault(world, AT_ONCE)
    assert await read(fresh, before) == "<erased>"
    assert (await fresh.seal(ALICE, CHAT, "m2", "new")).box_key == 2


async def test_an_ending_key_is_destroyed_once_however_many_meet_it(world: SmallDeployment) -> None:
    await write(world.vault, "old")
    keys = keys_of(world)
    keys.is_ending = keys.is_down = True
    other = await another_vault(world, AT_ONCE)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await other.seal(ALICE, CHAT, "m2", "new")
    await keys.destroyed.wait()
    await other.close()
    assert keys.is_ending, "the store was down: the key is left to who meets it next"


async def test_closing_ends_an_erasure_that_waits(world: SmallDeployment) -> None:
    await write(world.vault, "old")
    other = await another_vault(world, NEVER)
    erasure = asyncio.ensure_future(other.erase(ALICE))
    await keys_of(world).began.wait()
    await other.close()
    with pytest.raises(asyncio.CancelledError):
        await erasure
    assert not keys_of(world).destroyed.is_set()


async def test_a_second_who_meets_the_key_waits_for_the_first(world: SmallDeployment) -> None:
    await write(world.vault, "old")
    keys: Any = keys_of(world)
    key = await keys.current(ALICE)
    erasing = Erasing(keys, world.vault._keys, world.clock, 0)
    erasing.complete(key)
    erasing.complete(key)
    await keys.destroyed.wait()
    await erasing.close()
    assert await keys.current(ALICE) is None


# Keys that are read more slowly than they may be used.


class FastClock:
    """A clock on which each look is later than any lease."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 3_600
        return self.time


@pytest.mark.parametrize(
    "use",
    [
        lambda vault, _: vault.seal(ALICE, CHAT, "m2", "x"),
        lambda vault, entry: vault.open([entry], NOW),
        lambda vault, entry: vault.open_text(ALICE, "x", entry),
    ],
    ids=["seal", "open", "open text"],
)
async def test_a_key_that_is_old_when_it_arrives_is_not_used(
    world: SmallDeployment, monkeypatch: pytest.MonkeyPatch, use: Callable[[Vault, Any], Any]
) -> None:
    entry = await write(world.vault, "x")
    monkeypatch.setattr(data_keys, "monotonic", FastClock())
    other = await another_vault(world, AT_ONCE)
    with pytest.raises(StoreUnavailable, match="more slowly"):
        await use(other, msgspec.structs.replace(entry, content=None))


async def test_readers_at_once_load_a_key_once(world: SmallDeployment) -> None:
    entry = await write(world.vault, "x")
    other = await another_vault(world, AT_ONCE)
    loads = 0
    get = keys_of(world)._keys.get

    async def counted(author: UserKey, generation: int) -> WrappedKey | None:
        nonlocal loads
        loads += 1
        found: WrappedKey | None = await get(author, generation)
        return found

    keys_of(world).get = counted  # type: ignore[attr-defined]
    seen = await asyncio.gather(*(read(other, entry) for _ in range(5)))
    assert seen == ["x"] * 5
    assert loads == 1
