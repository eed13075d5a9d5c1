# SPDX-License-Identifier: Apache-2.0
"""The runner of deletions on the embedded store: by turns, at once, and undeterred."""

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.contract.builders import a_chat, append, deleted, message
from tests.contract.engines import SqliteEngine, Store
from tests.support.clock import NOW, ManualClock
from tests.support.delivery import at_once
from tests.support.users import ANN
from tests.support.waiting import until
from tidings.buses.in_process import InProcessBus
from tidings.delivery import rounds as rounds_module
from tidings.delivery.rounds import DeletionRunner
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Deletion
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Appended
from tidings.ports.delivery import DeliveryStore
from tidings.stores.sqlite.chat.deletions import SqliteDeletions


class Delivery:
    """Says up to which entry each chat is delivered."""

    def __init__(self) -> None:
        self.sequence = sys.maxsize

    async def reached(self, chats: Sequence[ChatId]) -> Mapping[ChatId, int]:
        return dict.fromkeys(chats, self.sequence)


@dataclass
class RunningDeletions:
    """A store, and a runner that has not begun."""

    store: Store
    runner: DeletionRunner
    bus: InProcessBus
    clock: ManualClock
    delivery: Delivery

    async def end(self, messages: int = 3) -> ChatState:
        """A chat that somebody deletes."""
        state = await a_chat(self.store)
        for _ in range(messages):
            await append(self.store, state, message(ANN))
        await append(self.store, state, deleted())
        return state

    async def job(self, state: ChatState) -> Deletion:
        job = await self.store.deletions.get(state.chat_id)
        assert job is not None
        return job


@asynccontextmanager
async def a_deletion_runner(folder: Path) -> AsyncIterator[RunningDeletions]:
    async with SqliteEngine(folder).open() as store:
        bus, clock, delivery = InProcessBus(), ManualClock(), Delivery()
        clock.time = NOW + limits.DELETION_DELIVERY_MS
        runner = DeletionRunner(
            deletions=store.deletions,
            bus=bus,
            clock=clock,
            holder="me",
            delivery=cast(DeliveryStore, delivery),
            back_off=at_once,
        )
        yield RunningDeletions(store, runner, bus, clock, delivery)
        await runner.close()


async def test_what_another_process_left_is_ended_after_the_start(tmp_path: Path) -> None:
    async with a_deletion_runner(tmp_path) as running:
        state = await running.end()
        running.runner.start()
        phases: set[str] = set()

        async def is_done() -> bool:
            phases.add((await running.job(state)).phase)
            return "done" in phases

        while not await is_done():
            pass
        assert (await running.job(state)).updated_at == running.clock.now()


async def test_members_stay_until_they_can_have_been_told(tmp_path: Path) -> None:
    async with a_deletion_runner(tmp_path) as running:
        state = await running.end()
        running.clock.time -= 1
        assert not await running.runner.round()
        assert (await running.job(state)).phase == "started"
        running.clock.time += 1
        assert await running.runner.round()
        assert (await running.job(state)).phase == "members_removed"


@pytest.mark.parametrize("is_delivered", [True, False])
async def test_members_stay_until_they_are_told_but_not_for_ever(
    tmp_path: Path, is_delivered: bool
) -> None:
    """A worker that does not know the chat yet, or stood still, finds whom to tell."""
    async with a_deletion_runner(tmp_path) as running:
        state = await running.end()
        last = (await running.job(state)).entries
        running.delivery.sequence = last - 1
        running.clock.time = NOW + limits.DELETION_DELIVERY_MS_MAX - 1
        assert not await running.runner.round()
        assert (await running.job(state)).phase == "started"
        if is_delivered:
            running.delivery.sequence = last
        else:
            running.clock.time += 1
        assert await running.runner.round()
        assert (await running.job(state)).phase == "members_removed"


async def test_what_begins_here_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds_module, "POLL_SECONDS", 3_600.0)
    async with a_deletion_runner(tmp_path) as running:
        rounds = 0
        unfinished = running.store.deletions.unfinished

        async def counted(self: object, *, before: int, limit: int) -> list[object]:
            nonlocal rounds
            rounds += 1
            return list(await unfinished(before=before, limit=limit))

        monkeypatch.setattr(SqliteDeletions, "unfinished", counted)
        running.runner.start()
        await until(lambda: rounds == 1)
        state = await running.end()
        (entry,) = await running.store.log.tail(state.chat_id, state.head - 1)
        running.bus.publish(Appended(entry, state))
        await until(lambda: rounds > 3)


@pytest.mark.parametrize("trouble", [StoreUnavailable(), ValueError("broken")])
async def test_one_that_cannot_be_deleted_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    async with a_deletion_runner(tmp_path) as running:
        first, second = await running.end(), await running.end()
        step = SqliteDeletions.step

        async def failing(
            self: SqliteDeletions, job: Deletion, holder: str, now: int
        ) -> Deletion | None:
            if job.chat_id == first.chat_id:
                raise trouble
            return await step(self, job, holder, now)

        with monkeypatch.context() as patch:
            patch.setattr(SqliteDeletions, "step", failing)
            while await running.runner.round():
                pass
            assert (await running.job(second)).phase == "done"
            assert (await running.job(first)).phase == "started"
            assert running.runner.failed_steps > 1
        while await running.runner.round():
            pass
        assert (await running.job(first)).phase == "done"


async def test_a_long_chat_holds_up_no_short_one(tmp_path: Path) -> None:
    async with a_deletion_runner(tmp_path) as running:
        long, short = await running.end(messages=350), await running.end()
        for _ in range(3):
            assert await running.runner.round()
        assert (await running.job(short)).phase == "done"
        assert (await running.job(long)).emptied == 100
