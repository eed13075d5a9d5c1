# SPDX-License-Identifier: Apache-2.0
"""Receipts from several devices, out of order: never backwards, never beyond the head."""

import asyncio
import random

import pytest

from tests.integration.cores import Deployment, all_of
from tests.support.users import ANN, BOB, CAT
from tidings.model.chats import Move, Receipt
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ReceiptBeyondHead
from tidings.ports.bus import ReceiptMoved

MESSAGES = 60


async def receipt_of(deployment: Deployment, user: UserKey, chat: ChatId) -> Receipt:
    found = await deployment.core.verbs.receipts(ANN, chat)
    return next(receipt for receipt in found if receipt.user == user)


async def written(deployment: Deployment) -> ChatId:
    """A chat whose log ends at 1 + MESSAGES."""
    chat = await deployment.group(ANN, BOB, CAT)
    await all_of(deployment.writing.send(ANN, chat) for _ in range(MESSAGES))
    return chat


@pytest.mark.attack("C12")
async def test_marks_of_three_devices_never_move_a_receipt_backwards(
    deployment: Deployment,
) -> None:
    chat = await written(deployment)
    seen: list[tuple[int, int]] = []
    is_done = False

    async def device(seed: int) -> int:
        marks = list(range(2, MESSAGES))
        random.Random(seed).shuffle(marks)
        for mark in marks:
            receipt, unread = await deployment.core.verbs.mark(BOB, chat, mark + 1, mark)
            assert receipt.read >= mark
            assert receipt.delivered >= receipt.read
            assert unread.count <= MESSAGES - (mark - 1)
        return max(marks)

    async def watch() -> None:
        while not is_done:
            receipt = await receipt_of(deployment, BOB, chat)
            seen.append((receipt.delivered, receipt.read))

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        furthest = await all_of(device(seed) for seed in range(3))
        is_done = True
    assert watching.done()
    assert len(seen) > 3
    assert [delivered for delivered, _ in seen] == sorted(delivered for delivered, _ in seen)
    assert [read for _, read in seen] == sorted(read for _, read in seen)
    receipt = await receipt_of(deployment, BOB, chat)
    assert (receipt.delivered, receipt.read) == (max(furthest) + 1, max(furthest))
    assert receipt.read_number == receipt.read - 1, "one entry of the log is no message"


@pytest.mark.attack("C11", "D24")
async def test_a_mark_beyond_the_head_is_refused_and_moves_nothing(deployment: Deployment) -> None:
    chat = await written(deployment)
    before = await receipt_of(deployment, BOB, chat)
    for delivered, read in ((MESSAGES + 2, 0), (0, MESSAGES + 2), (2**53 - 1, 5)):
        with pytest.raises(ReceiptBeyondHead):
            await deployment.core.verbs.mark(BOB, chat, delivered, read)
    assert await receipt_of(deployment, BOB, chat) == before


async def test_coalesced_receipts_of_three_devices_come_out_at_the_furthest(
    deployment: Deployment,
) -> None:
    chat = await written(deployment)
    moved: list[Receipt] = []
    has_all = asyncio.Event()

    def watch(event: object) -> None:
        if isinstance(event, ReceiptMoved) and event.receipt.user == BOB:
            moved.append(event.receipt)
            if event.receipt.read == MESSAGES and event.receipt.delivered == MESSAGES + 1:
                has_all.set()

    deployment.core.bus.subscribe(watch)

    async def device(seed: int) -> None:
        marks = list(range(2, MESSAGES + 1))
        random.Random(seed).shuffle(marks)
        for mark in marks:
            deployment.core.receipts.note(Move(BOB, chat, delivered=mark + 1), 1)
            deployment.core.receipts.note(Move(BOB, chat, read=mark), 1)
            await asyncio.sleep(0)

    await all_of(device(seed) for seed in range(3))
    await asyncio.wait_for(has_all.wait(), 60)
    assert [receipt.read for receipt in moved] == sorted({receipt.read for receipt in moved})
    assert all(receipt.read <= receipt.delivered <= MESSAGES + 1 for receipt in moved)


async def test_of_receipts_noted_in_one_turn_the_furthest_counts(deployment: Deployment) -> None:
    chat = await written(deployment)
    for delivered, read in ((5, 4), (30, 20), (40, 3), (7, 6)):
        deployment.core.receipts.note(Move(BOB, chat, delivered, read))
    await deployment.core.receipts.close()
    receipt = await receipt_of(deployment, BOB, chat)
    assert (receipt.delivered, receipt.read) == (40, 20)


async def test_coalesced_receipts_beyond_the_head_move_nothing(deployment: Deployment) -> None:
    chat = await written(deployment)
    before = await receipt_of(deployment, CAT, chat)
    receipts = deployment.core.store.receipts
    assert await receipts.move([Move(CAT, chat, delivered=MESSAGES + 2)]) == []
    assert await receipts.move([Move(CAT, chat, read=MESSAGES + 2)]) == []
    assert await receipt_of(deployment, CAT, chat) == before


@pytest.mark.parametrize("turns", range(5))
async def test_what_was_noted_before_a_clean_stop_is_kept(
    deployment: Deployment, turns: int
) -> None:
    chat = await written(deployment)
    deployment.core.receipts.note(Move(BOB, chat, read=20))
    for _ in range(turns):  # however far the first one has got by then
        await asyncio.sleep(0)
    deployment.core.receipts.note(Move(CAT, chat, delivered=30))
    await deployment.core.receipts.close()
    assert (await receipt_of(deployment, BOB, chat)).read == 20
    assert (await receipt_of(deployment, CAT, chat)).delivered == 30


@pytest.mark.attack("D02", "D24")
async def test_receipts_of_one_who_left_are_gone_and_stay_gone(deployment: Deployment) -> None:
    chat = await written(deployment)
    await deployment.core.verbs.mark(BOB, chat, 50, 50)
    await deployment.core.verbs.remove_member(BOB, chat, BOB)
    assert await deployment.core.store.receipts.move([Move(BOB, chat, read=60)]) == []
    assert [r.user for r in await deployment.core.verbs.receipts(ANN, chat)] == [ANN, CAT]
    await deployment.core.verbs.put_member(ANN, chat, BOB, None)
    receipt = await receipt_of(deployment, BOB, chat)
    assert receipt == Receipt(BOB, MESSAGES + 3, MESSAGES + 3, MESSAGES)
