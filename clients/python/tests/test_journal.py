# SPDX-License-Identifier: Apache-2.0
"""Changes reach the storage together, in order, or somebody hears that they do not."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.waiting import WAIT_SECONDS, until
from tidings_client import Client, StorageTrouble
from tidings_client.journal import Journal
from tidings_client.saved import Changes, Held, Outgoing
from tidings_client.storage import MemoryStorage


class SlowStorage(MemoryStorage):
    """Counts its saves, and can be held up or broken."""

    def __init__(self) -> None:
        super().__init__()
        self.saves: list[Changes] = []
        self.is_saving = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.is_broken = False

    def save(self, changes: Changes) -> None:
        self.is_saving.set()
        self.may_go_on.wait(10)
        if self.is_broken:
            raise StorageTrouble("the disk is full")
        self.saves.append(changes)
        super().save(changes)


@asynccontextmanager
async def running(journal: Journal) -> AsyncIterator["asyncio.Task[None]"]:
    await journal.open()
    task = asyncio.create_task(journal.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def take(journal: Journal, sequence: int) -> None:
    journal.changes.held["c"] = Held("e", sequence)
    journal.wake()


async def test_many_positions_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings_client.journal.POSITIONS_SECONDS", WAIT_SECONDS)
    storage = SlowStorage()
    async with running(journal := Journal(storage)):
        for sequence in range(1_000):
            take(journal, sequence)
            if sequence % 100 == 0:
                await asyncio.sleep(0)
        await journal.flush()
    assert [save.held for save in storage.saves] == [{"c": Held("e", 999)}]
    await journal.close()


async def test_positions_are_written_without_being_asked_for() -> None:
    storage = SlowStorage()
    async with running(journal := Journal(storage)):
        take(journal, 1)
        await until(lambda: storage.saves)
    await journal.close()


async def test_messages_that_come_up_during_a_write_share_the_next() -> None:
    storage = SlowStorage()
    async with running(journal := Journal(storage)):
        storage.may_go_on.clear()
        kept = [journal.post(Outgoing("c", "first", "hi", 0))]
        await until(storage.is_saving.is_set)
        kept += [journal.post(Outgoing("c", f"{number}", "hi", 0)) for number in range(9)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in kept)
        storage.may_go_on.set()
        async with asyncio.timeout(60):
            await asyncio.wait(kept)
    assert [len(save.posted) for save in storage.saves] == [1, 9]
    await journal.close()


async def test_a_write_under_way_is_finished_when_the_journal_is_stopped() -> None:
    storage = SlowStorage()
    async with running(journal := Journal(storage)):
        storage.may_go_on.clear()
        kept = journal.post(Outgoing("c", "first", "hi", 0))
        await until(storage.is_saving.is_set)
        take(journal, 1)
        asyncio.get_running_loop().call_later(0.02, storage.may_go_on.set)
    assert kept.done()
    await journal.close()
    assert [bool(save.posted) for save in storage.saves] == [True, False]


async def test_trouble_is_told_to_whoever_waits() -> None:
    storage = SlowStorage()
    storage.is_broken = True
    async with running(journal := Journal(storage)) as task:
        with pytest.raises(StorageTrouble):
            await journal.post(Outgoing("c", "first", "hi", 0))
        with pytest.raises(StorageTrouble):
            await task
    await journal.close()


async def test_a_client_that_cannot_keep_anything_says_so() -> None:
    storage = SlowStorage()
    storage.is_broken = True
    async with Client("http://127.0.0.1:9", token=lambda: "t", storage=storage) as client:
        with pytest.raises(StorageTrouble, match="disk is full"):
            await client.send("c", "hi")
        with pytest.raises(StorageTrouble):
            async for _ in client.events():
                pass
        with pytest.raises(StorageTrouble):
            await client.confirm()
