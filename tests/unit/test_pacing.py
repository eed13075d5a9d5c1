# SPDX-License-Identifier: Apache-2.0
"""Receipts at a pace: the first at once, the last of a second after it, nothing in between."""

from collections.abc import AsyncIterator

import pytest

from tests.support.users import ANN, BOB
from tests.support.waiting import after_timers, until
from tidings.delivery.fan_out import ReceiptPace
from tidings.model import limits
from tidings.model.chats import Receipt
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import ReceiptMoved

CHAT = ChatId("a")
OTHER = ChatId("b")


def moved(
    read: int, *, user: UserKey = ANN, chat: ChatId = CHAT, by_reading: bool = True
) -> ReceiptMoved:
    return ReceiptMoved(chat, Receipt(user, read, read, read), by_reading=by_reading)


class Paced:
    """A pace and what it has passed on."""

    def __init__(self) -> None:
        self.passed: list[ReceiptMoved] = []
        self.pace = ReceiptPace(self._take)

    def _take(self, event: ReceiptMoved) -> None:
        self.passed.append(event)

    async def until(self, count: int) -> list[ReceiptMoved]:
        await until(lambda: len(self.passed) >= count)
        return self.passed


@pytest.fixture
async def paced(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Paced]:
    monkeypatch.setattr(limits, "RECEIPT_FRAME_MS", 30)
    made = Paced()
    yield made
    made.pace.close()


async def test_the_first_goes_at_once_and_then_the_last(paced: Paced) -> None:
    for read in range(1, 6):
        paced.pace.offer(moved(read))
    assert paced.passed == [moved(1)]
    assert await paced.until(2) == [moved(1), moved(5)]

    paced.pace.offer(moved(6))
    assert await paced.until(3) == [moved(1), moved(5), moved(6)]


async def test_a_pause_long_enough_makes_the_next_a_first(paced: Paced) -> None:
    paced.pace.offer(moved(1))
    await after_timers(limits.RECEIPT_FRAME_MS / limits.SECOND_MS)
    paced.pace.offer(moved(2))
    assert paced.passed == [moved(1), moved(2)]


async def test_members_and_chats_do_not_hold_each_other_back(paced: Paced) -> None:
    events = [moved(1), moved(1, user=BOB), moved(1, chat=OTHER)]
    for event in events:
        paced.pace.offer(event)
    assert paced.passed == events


async def test_that_something_was_read_is_not_forgotten(paced: Paced) -> None:
    paced.pace.offer(moved(1, by_reading=False))
    paced.pace.offer(moved(2))
    paced.pace.offer(moved(3, by_reading=False))
    assert await paced.until(2) == [moved(1, by_reading=False), moved(3)]


async def test_after_the_end_nothing_is_passed_on(paced: Paced) -> None:
    paced.pace.offer(moved(1))
    paced.pace.offer(moved(2))
    paced.pace.close()
    await after_timers(limits.RECEIPT_FRAME_MS / limits.SECOND_MS)
    assert paced.passed == [moved(1)]
