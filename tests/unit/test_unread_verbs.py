# SPDX-License-Identifier: Apache-2.0
"""Counting and marking when others do something at the same moment."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cores import Deployment, open_deployment
from tests.support.users import ANN, BOB, CAT
from tests.support.waiting import until
from tidings.actions.chat import coalesced_receipts, unread
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.chat.message_receipts import ListMessageReceipts
from tidings.model.chats import Move, OwnSends, Receipt, Unread
from tidings.model.ids import ChatId
from tidings.model.refusals import ChatNotFound, StoreUnavailable


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Deployment]:
    async with open_deployment(tmp_path / "data") as deployment:
        await deployment.people(ANN, BOB, CAT)
        yield deployment


class SlowReceipts:
    """Moves nothing before the test says so."""

    def __init__(self) -> None:
        self.asked: list[Sequence[Move | OwnSends]] = []
        self.goes_on = asyncio.Event()

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        self.asked.append(moves)
        await self.goes_on.wait()
        return []


async def test_settling_waits_for_what_is_being_written(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    store: Any = SlowReceipts()
    receipts = CoalescedReceipts(store, opened.core.bus)
    first = receipts._start_write([Move(BOB, chat, read=1)])
    await asyncio.sleep(0)
    receipts.note(Move(BOB, chat, delivered=2))
    settled = [asyncio.ensure_future(receipts.settle(BOB, chat)) for _ in range(2)]
    other = receipts._start_write([Move(BOB, chat, read=2)])
    await asyncio.sleep(0)
    assert len(store.asked) == 2, "what waits is written after what is under way"
    store.goes_on.set()
    await asyncio.gather(first, other, *settled)
    assert [list(moves) for moves in store.asked] == [
        [Move(BOB, chat, read=1)],
        [Move(BOB, chat, read=2)],
        [Move(BOB, chat, delivered=2)],
    ]
    await receipts.settle(BOB, chat)
    assert len(store.asked) == 3
    await receipts.close()


async def test_moves_are_written_although_who_settles_them_gives_up(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    store: Any = SlowReceipts()
    receipts = CoalescedReceipts(store, opened.core.bus)
    receipts.note(Move(BOB, chat, read=1))
    settling = asyncio.ensure_future(receipts.settle(BOB))
    await until(lambda: store.asked)
    settling.cancel()
    receipts.note(Move(BOB, chat, delivered=2))
    settled = asyncio.ensure_future(receipts.settle(BOB))
    await asyncio.sleep(0)
    store.goes_on.set()
    assert await settled
    assert [list(moves) for moves in store.asked] == [
        [Move(BOB, chat, read=1)],
        [Move(BOB, chat, delivered=2)],
    ]
    await receipts.close()


async def test_a_read_does_not_wait_long_for_moves(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalesced_receipts, "READ_WAIT_SECONDS", 0.0)
    chat = await opened.group(ANN, BOB)
    store: Any = SlowReceipts()
    receipts = CoalescedReceipts(store, opened.core.bus)
    receipts.note(Move(BOB, chat, read=1))
    await receipts.settle_soon(BOB, chat)
    await receipts.settle_soon(CAT)
    store.goes_on.set()
    assert await receipts.settle(BOB, chat)
    assert [list(moves) for moves in store.asked] == [[Move(BOB, chat, read=1)]]
    await receipts.close()


async def test_a_chat_is_marked_as_unread_only_after_waiting_moves(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    core = opened.core

    class Failing:
        async def move(self, moves: Sequence[Move | OwnSends]) -> None:
            raise StoreUnavailable

    store: Any = Failing()
    receipts = CoalescedReceipts(store, core.bus)
    mark = unread.MarkUnread(core.store.receipts, receipts, core.verbs.count_unread, core.bus)
    receipts.note(Move(BOB, chat, read=1))
    with pytest.raises(StoreUnavailable):
        await mark(BOB, chat, 1)
    await receipts.close()


async def test_a_chat_is_counted_after_what_its_user_has_just_written(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An own message ends the mark as unread, but the receipt is written a moment later."""
    chat, core = await opened.group(ANN, BOB), opened.core
    await opened.writing.send(ANN, chat)
    await core.verbs.mark(BOB, chat, 0, 2)
    await core.verbs.mark_unread(BOB, chat, 2)
    count, move = core.verbs.count_total, core.store.receipts.move
    assert await count.of_chat(BOB, chat) == (Unread(1), 2)
    goes_on, asked = asyncio.Event(), []

    async def move_later(moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        asked.append(moves)
        await goes_on.wait()
        return await move(moves)

    monkeypatch.setattr(core.store.receipts, "move", move_later)
    await opened.writing.send(BOB, chat)
    await until(lambda: asked)
    assert await core.verbs.count_unread(BOB, chat) == Unread(1)
    counting = asyncio.ensure_future(count.of_chat(BOB, chat))
    await asyncio.sleep(0)
    goes_on.set()
    assert await counting == (Unread(0), 3)


async def test_a_chat_is_not_counted_without_what_its_user_has_just_read(
    opened: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, core = await opened.group(ANN, BOB), opened.core

    async def fail(_: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        raise StoreUnavailable

    with monkeypatch.context() as broken:
        broken.setattr(core.store.receipts, "move", fail)
        core.verbs.count_total.waiting.note(Move(BOB, chat, read=1))
        with pytest.raises(StoreUnavailable):
            await core.verbs.count_total.of_chat(BOB, chat)
    assert await core.verbs.count_total.of_chat(BOB, chat) == (Unread(0), 1)


async def test_who_is_removed_meanwhile_sees_no_receipts(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    sent = await opened.writing.send(ANN, chat)
    core = opened.core

    class Removed:
        async def with_times(self, _chat: ChatId, _reader: str) -> None:
            return None

    gone: Any = Removed()
    receipts = ListMessageReceipts(
        core.store.log, gone, core.vault.cursors, opened.clock, core.blocks
    )
    with pytest.raises(ChatNotFound):
        await receipts(BOB, chat, sent.sequence, None, 10)


async def test_nobody_else_marks_or_hides(opened: Deployment) -> None:
    chat = await opened.group(ANN, BOB)
    verbs = opened.core.verbs
    for call in (
        verbs.mark(CAT, chat, 0, 1),
        verbs.mark_unread(CAT, chat, 1),
        verbs.hide(CAT, chat, is_hidden=True),
    ):
        with pytest.raises(ChatNotFound):
            await call
    assert await verbs.count_unread(CAT, chat) is None


async def test_of_authors_whose_keys_are_not_looked_up_the_count_is_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_deployment(tmp_path / "data") as deployment:
        chat = await deployment.group(ANN, BOB, CAT)
        for author in (ANN, CAT):
            await deployment.writing.send(author, chat)
    async with open_deployment(tmp_path / "data") as deployment:
        verbs = deployment.core.verbs
        monkeypatch.setattr(unread, "KEY_LOADS_MAX", 1)
        assert await verbs.count_unread(BOB, chat) == Unread(2, exact=False)
        assert await verbs.count_unread(BOB, chat) == Unread(2), "by now both keys are known"
        assert await deployment.core.vault.erased([(ANN, 0), (ANN, 1)], 0) == {(ANN, 1): False}
