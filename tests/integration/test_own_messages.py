# SPDX-License-Identifier: Apache-2.0
"""Own messages move the read mark of who has read all before them, and cost others nothing."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.integration.cores import Deployment
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tidings.actions.chat import coalesced_receipts
from tidings.actions.chat.coalesced_receipts import OWN_SPANS_MAX, CoalescedReceipts
from tidings.model import limits
from tidings.model.chats import Move, OwnSends, Receipt
from tidings.model.ids import ChatId
from tidings.model.limits import DAY_MS
from tidings.model.refusals import StoreUnavailable
from tidings.ports.chats import Receipts


class Watched:
    """The store's receipts, with a note of what they were asked to move and of what moved."""

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts
        self.asked: list[Move | OwnSends] = []
        self.moved: list[Receipt] = []
        self.calls = 0
        self.failures = 0
        """How many of the next calls fail."""
        self.advance = receipts.advance
        self.of_chat = receipts.of_chat
        self.find = receipts.find
        self.unread = receipts.unread
        self.with_times = receipts.with_times
        self.count = receipts.count
        self.mark_unread = receipts.mark_unread
        self.hide = receipts.hide

    async def move(self, moves: Sequence[Move | OwnSends]) -> list[tuple[ChatId, Receipt]]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable
        moved = await self._receipts.move(moves)
        self.asked += moves
        self.moved += [receipt for _, receipt in moved]
        self.calls += 1
        return moved

    async def called(self, times: int) -> None:
        await until(lambda: self.calls >= times)
        # One more turn: whoever asked has the answer then.
        await asyncio.sleep(0)


async def test_who_writes_without_reading_is_tried_once(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB)
    send = deployment.writing.send
    await send(BOB, chat)
    watched = Watched(deployment.core.store.receipts)
    coalesced = CoalescedReceipts(watched, deployment.core.bus)
    first = (await send(ANN, chat)).sequence
    await watched.called(1)
    assert ([type(one) for one in watched.asked], watched.moved) == ([OwnSends], [])

    await send(ANN, chat)  # what Bob wrote is still unread: nothing to try

    last = (await send(BOB, chat)).sequence
    coalesced.note(Move(ANN, chat, read=last), DAY_MS)  # it waits for the end
    own = (await send(ANN, chat)).sequence
    await coalesced.close()
    assert [type(one) for one in watched.asked if one.user == ANN] == [OwnSends, Move, OwnSends]
    tried = [one.spans for one in watched.asked if isinstance(one, OwnSends) and one.user == ANN]
    assert [[span.to_sequence for span in spans] for spans in tried] == [[first], [own]]
    assert [receipt.read for receipt in watched.moved if receipt.user == ANN][-1] == own


async def test_marks_of_another_process_are_seen_with_the_next_own_message(
    deployment: Deployment,
) -> None:
    chat = await deployment.group(ANN, BOB)
    send, store = deployment.writing.send, deployment.core.store.receipts
    await send(BOB, chat)
    watched = Watched(store)
    coalesced = CoalescedReceipts(watched, deployment.core.bus, is_alone=False)
    await send(ANN, chat)  # what Bob wrote stays unread
    await watched.called(1)

    # Through another process, of which this one hears nothing.
    await store.mark_unread(ANN, chat, 2)
    await send(ANN, chat)
    await coalesced.settle(ANN, chat)
    (receipt,) = [one for one in await store.of_chat(chat, ANN) or () if one.user == ANN]
    assert (receipt.is_marked_unread, receipt.read) == (False, 1)

    await store.move([Move(ANN, chat, read=4)])
    own = (await send(ANN, chat)).sequence
    await coalesced.settle(ANN, chat)
    assert [one.read for one in watched.moved] == [own]
    await coalesced.close()


async def test_of_many_spans_the_first_and_the_last_are_kept(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECEIPT_FRAME_MS", DAY_MS)
    chat = await deployment.group(ANN, BOB)
    send = deployment.writing.send
    await send(ANN, chat)
    watched = Watched(deployment.core.store.receipts)
    coalesced = CoalescedReceipts(watched, deployment.core.bus)
    await send(ANN, chat)
    await watched.called(1)  # what follows waits for the day to pass
    for _ in range(OWN_SPANS_MAX + 5):
        await send(BOB, chat)
        await send(ANN, chat)
    await coalesced.close()
    spans = next(one.spans for one in reversed(watched.asked) if isinstance(one, OwnSends))
    assert len(spans) == OWN_SPANS_MAX
    numbers = [span.to_number for span in spans]
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[1] - 2, "what is left out stood behind the first"


async def test_moves_that_fail_are_written_again(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB)
    watched = Watched(deployment.core.store.receipts)
    coalesced = CoalescedReceipts(watched, deployment.core.bus)
    watched.failures = 1
    sent = (await deployment.writing.send(ANN, chat)).sequence
    await until(lambda: watched.failures == 0)
    await watched.called(1)
    (sends,) = watched.asked
    assert isinstance(sends, OwnSends)
    assert (sends.user, [span.to_sequence for span in sends.spans]) == (ANN, [sent])

    watched.failures = 1
    coalesced.note(Move(BOB, chat, read=sent))
    await until(lambda: watched.failures == 0)
    await watched.called(2)
    assert watched.asked[1:] == [Move(BOB, chat, read=sent)]
    await coalesced.close()


async def test_moves_that_fail_are_combined_with_later_ones(deployment: Deployment) -> None:
    chat = await deployment.group(ANN, BOB)
    send = deployment.writing.send
    watched = Watched(deployment.core.store.receipts)
    coalesced = CoalescedReceipts(watched, deployment.core.bus)
    watched.failures = 1_000
    first = (await send(ANN, chat)).sequence
    await coalesced.settle(ANN, chat)
    coalesced.note(Move(BOB, chat, delivered=first))
    await coalesced.settle(BOB, chat)
    last = (await send(ANN, chat)).sequence
    coalesced.note(Move(BOB, chat, read=first))
    watched.failures = 0
    await coalesced.close()
    (move,) = [one for one in watched.asked if isinstance(one, Move)]
    assert (move.user, move.delivered, move.read) == (BOB, first, first)
    (sends,) = [one for one in watched.asked if isinstance(one, OwnSends)]
    assert [(span.from_number, span.to_sequence) for span in sends.spans] == [(0, last)]


async def test_moves_that_fail_are_bounded(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalesced_receipts, "RETRIED_MAX", 1)
    chat = await deployment.group(ANN, BOB)
    sent = (await deployment.writing.send(ANN, chat)).sequence
    watched = Watched(deployment.core.store.receipts)
    coalesced = CoalescedReceipts(watched, deployment.core.bus)
    watched.failures = 1
    for user in (ANN, BOB):
        coalesced.note(Move(user, chat, read=sent))
    await until(lambda: watched.failures == 0)
    await coalesced.close()
    assert [one.user for one in watched.asked] == [ANN]
