# SPDX-License-Identifier: Apache-2.0
"""Erasing where several processes hold keys: each has a vault and a watch, and time by hand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.builders import a_chat, key, message
from tests.contract.engines import DynamoEngine, Store
from tests.support.clock import NOW, ManualClock
from tests.support.intercepted import Gate, Intercepted
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB
from tests.support.waiting import retried
from tests.unit.small_deployment import CHAT, read, write
from tidings.actions.content.data_keys import KeyLeases
from tidings.actions.content.vault import Vault
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.assembly.system import SystemChance
from tidings.keyrings import FileKeyring
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.refusals import StoreUnavailable
from tidings.ports.log import Failed, Kept, Outcome, Run, SlotTaken

Around = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
LEASES = KeyLeases(erasing_seconds=0.01)


class HandTime:
    """The clock of all watches."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(frozen=True)
class Process:
    """One of several on a store."""

    vault: Vault
    watch: RevocationWatch


class Processes:
    """Opens as many as a test wants; each is closed at its end."""

    def __init__(self, store: Store, folder: Path, stack: AsyncExitStack) -> None:
        self.time = HandTime()
        self._store = store
        self._folder = folder
        self._stack = stack

    async def start(self, around: Around | None = None) -> Process:
        keys = self._store.data_keys
        watched: Any = keys if around is None else Intercepted(keys, around)
        master = FileKeyring(self._folder, SystemChance())
        vault = Vault(
            watched, self._store.deployment, master, SystemChance(), ManualClock(), LEASES
        )
        await vault.start()
        self._stack.push_async_callback(vault.close)
        watch = RevocationWatch(self._store.revocations, now=self.time, look_seconds=3_600)
        vault.follow(watch)
        await watch.start()
        self._stack.push_async_callback(watch.close)
        return Process(vault, watch)


@asynccontextmanager
async def open_processes(store: Store, folder: Path) -> AsyncIterator[Processes]:
    folder.mkdir()
    async with AsyncExitStack() as stack:
        yield Processes(store, folder, stack)


@pytest.fixture
async def processes(store: Store, tmp_path: Path) -> AsyncIterator[Processes]:
    async with open_processes(store, tmp_path / "keys") as opened:
        yield opened


@pytest.mark.attack("S06", "D23")
async def test_no_process_shows_what_another_one_erased(processes: Processes) -> None:
    one, other = await processes.start(), await processes.start()
    entry = await write(one.vault, "secret", ANN)
    bobs = await write(one.vault, "stays", BOB)
    assert await read(other.vault, entry) == "secret"

    assert await one.vault.erase(ANN) == 1
    assert await read(one.vault, entry) == "<erased>"
    assert await other.watch.look()

    assert await read(other.vault, entry) == "<erased>"
    assert await read(other.vault, bobs) == "stays"


@pytest.mark.attack("S06")
async def test_a_blind_process_shows_nothing_by_a_key_it_remembers(processes: Processes) -> None:
    one, other = await processes.start(), await processes.start()
    entry = await write(one.vault, "secret", ANN)
    bobs = await write(one.vault, "stays", BOB)
    assert await read(other.vault, entry) == "secret"

    await one.vault.erase(ANN)
    processes.time.seconds += limits.REVOKED_SECONDS_MAX + 0.1

    assert not other.watch.sees
    assert await read(other.vault, entry) == "<erased>", "the store was asked"
    assert await read(other.vault, bobs) == "stays"


@pytest.mark.attack("S06")
async def test_a_blind_process_that_cannot_ask_refuses(processes: Processes) -> None:
    class Away:
        is_away = False

        async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
            if self.is_away:
                raise StoreUnavailable
            return await call()

    store = Away()
    process = await processes.start(store)
    entry = await write(process.vault, "secret", ANN)
    store.is_away = True
    assert await read(process.vault, entry) == "secret"

    processes.time.seconds += limits.REVOKED_SECONDS_MAX + 0.1
    with pytest.raises(StoreUnavailable):
        await read(process.vault, entry)
    with pytest.raises(StoreUnavailable):
        await process.vault.seal(ANN, CHAT, "m2", "more")


@pytest.mark.attack("S06")
@pytest.mark.parametrize("hears_of_it", [True, False])
async def test_what_is_written_after_an_erasure_is_read_everywhere(
    processes: Processes, hears_of_it: bool
) -> None:
    one, other = await processes.start(), await processes.start()
    sealed = await other.vault.seal(ANN, CHAT, "m1", "before")

    await one.vault.erase(ANN)
    if hears_of_it:
        assert await other.watch.look()
    else:
        processes.time.seconds += limits.SEAL_SECONDS_MAX + 0.1

    assert other.vault.seal_nowait(ANN, CHAT, "m2", "after") is None
    assert not other.vault.may_write(ANN, sealed)
    entry = await write(other.vault, "after", ANN, "m2")
    for process in (one, other, await processes.start()):
        assert await read(process.vault, entry) == "after"


async def test_a_key_that_was_read_counts_for_a_while_also_unwatched(processes: Processes) -> None:
    process = await processes.start()
    await process.watch.close()
    processes.time.seconds += limits.REVOKED_SECONDS_MAX + 0.1

    sealed = await process.vault.seal(ANN, CHAT, "m1", "hi")
    assert process.vault.may_write(ANN, sealed)
    processes.time.seconds += limits.SEAL_SECONDS_MAX + 0.1
    assert not process.vault.may_write(ANN, sealed)


async def test_news_during_a_load_make_it_read_again(processes: Processes, store: Store) -> None:
    one = await processes.start()
    entry = await write(one.vault, "secret", ANN)
    gate = Gate("get", after=True)
    other = await processes.start(gate)

    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read(other.vault, entry))
        await gate.reached.wait()
        await one.vault.erase(ANN)
        assert await other.watch.look()
        gate.opened.set()

    assert reading.result() == "<erased>", "what had been read was as of before the news"


async def test_an_erasure_that_broke_off_is_completed_by_whoever_meets_it(
    processes: Processes, store: Store
) -> None:
    one, other = await processes.start(), await processes.start()
    entry = await write(one.vault, "secret", ANN)
    generation = await store.data_keys.end(ANN, NOW)
    assert await other.watch.look() and await one.watch.look()

    assert await read(other.vault, entry) == "<erased>"
    after = await retried(lambda: write(other.vault, "after", ANN, "m2"), StoreUnavailable)
    assert after.box_key == (generation or 0) + 1
    assert await read(one.vault, after) == "after"


# --- Writing what was sealed


async def append_sealed(
    store: Store, may_write: Callable[[], bool]
) -> tuple[Outcome, Entry | None]:
    """Append a message to a new chat; what came of it, and what is there."""
    state = await a_chat(store)
    entry = message(ANN, "sealed", cmid="m1")
    entry.chat_id = state.chat_id
    state.copy().stamp(entry, NOW, "mark")
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    store.log.append(
        Run(
            chat_id=state.chat_id,
            entries=[entry],
            keys=[key(entry)],
            settle=done.set_result,
            may_write=may_write,
        )
    )
    outcome = await done
    tail = await store.log.tail(state.chat_id, state.head)
    return outcome, tail[0] if tail else None


@pytest.mark.attack("S06")
async def test_what_is_sealed_with_a_key_that_ended_is_not_put(shared_store: Store) -> None:
    outcome, there = await append_sealed(shared_store, lambda: False)
    assert (outcome, there) == (SlotTaken(keys_are_claimed=True), None)


@pytest.mark.attack("S06")
async def test_what_took_too_long_counts_only_if_its_key_still_does(
    shared_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEALED_WRITE_SECONDS_MAX", -1)  # everything takes longer
    asked = iter([True, False])
    outcome, _ = await append_sealed(shared_store, lambda: next(asked))
    assert outcome == Failed()
    outcome, there = await append_sealed(shared_store, lambda: True)
    assert outcome == Kept()
    assert there is not None


@pytest.fixture
async def shared_store(dynamodb_endpoint: str) -> AsyncIterator[Store]:
    """The engine that several processes use."""
    async with (
        spare_tables(dynamodb_endpoint) as prefix,
        DynamoEngine(dynamodb_endpoint, prefix).open() as opened,
    ):
        yield opened
