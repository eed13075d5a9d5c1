# SPDX-License-Identifier: Apache-2.0
"""Receipts: only forwards, never beyond the head, only of members."""

import pytest

from tests.contract.builders import NOWHERE, a_chat, added, append, message, removed, renamed
from tests.contract.engines import Engine, Store
from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tidings.model.chats import ChatState, Move, OwnSends, OwnSpan, Receipt
from tidings.model.entries import Head
from tidings.model.ids import UserKey
from tidings.model.refusals import ReceiptBeyondHead


async def receipt_of(store: Store, state: ChatState, user: UserKey) -> Receipt:
    receipts = await store.receipts.of_chat(state.chat_id, user)
    assert receipts is not None
    (own,) = [receipt for receipt in receipts if receipt.user == user]
    return own


@pytest.fixture
async def state(store: Store) -> ChatState:
    """Entries: 1 created, 2 and 3 messages, 4 renamed, 5 and 6 messages."""
    chat = await a_chat(store, ANN, BOB)
    await append(store, chat, message(ANN), message(ANN))
    await append(store, chat, renamed("Other"))
    await append(store, chat, message(ANN), message(ANN))
    return chat


async def test_reading_is_also_receiving(store: Store, state: ChatState) -> None:
    moved = await store.receipts.move([Move(BOB, state.chat_id, read=4)])

    assert moved == [(state.chat_id, Receipt(BOB, 4, 4, 2))]
    assert await receipt_of(store, state, BOB) == Receipt(BOB, 4, 4, 2)


async def test_receiving_is_not_reading(store: Store, state: ChatState) -> None:
    moved = await store.receipts.move([Move(BOB, state.chat_id, delivered=5)])
    assert moved == [(state.chat_id, Receipt(BOB, 5, 1, 0))]


async def test_both_marks_move_at_once(store: Store, state: ChatState) -> None:
    moved = await store.receipts.move([Move(BOB, state.chat_id, delivered=6, read=3)])
    assert moved == [(state.chat_id, Receipt(BOB, 6, 3, 2))]


@pytest.mark.parametrize("back", [(0, 0), (5, 0), (0, 3), (6, 5), (2, 2)])
async def test_nothing_moves_backwards(
    store: Store, state: ChatState, back: tuple[int, int]
) -> None:
    await store.receipts.move([Move(BOB, state.chat_id, delivered=6, read=5)])

    assert await store.receipts.move([Move(BOB, state.chat_id, *back)]) == []
    stored_credentials = await store.receipts.advance(Move(BOB, state.chat_id, *back))

    assert stored_credentials == (Receipt(BOB, 6, 5, 3), Head(6, 4, 6, state.active_at))
    assert await receipt_of(store, state, BOB) == Receipt(BOB, 6, 5, 3)


async def test_one_mark_forwards_and_the_other_backwards(store: Store, state: ChatState) -> None:
    await store.receipts.move([Move(BOB, state.chat_id, delivered=5, read=2)])
    moved = await store.receipts.move([Move(BOB, state.chat_id, delivered=3, read=3)])
    assert moved == [(state.chat_id, Receipt(BOB, 5, 3, 2))]
    moved = await store.receipts.move([Move(BOB, state.chat_id, delivered=6, read=2)])
    assert moved == [(state.chat_id, Receipt(BOB, 6, 3, 2))]


@pytest.mark.parametrize("far", [(7, 0), (0, 7), (7, 3), (2, 7), (10**15, 0)])
async def test_what_lies_beyond_the_head_is_passed_over(
    store: Store, state: ChatState, far: tuple[int, int]
) -> None:
    assert await store.receipts.move([Move(BOB, state.chat_id, *far)]) == []
    with pytest.raises(ReceiptBeyondHead):
        await store.receipts.advance(Move(BOB, state.chat_id, *far))

    assert await receipt_of(store, state, BOB) == Receipt(BOB, 1, 1, 0)


async def test_no_row_is_made_by_moving(store: Store, state: ChatState) -> None:
    await append(store, state, removed(BOB))
    for user, chat in ((BOB, state.chat_id), (DAN, state.chat_id), (ANN, NOWHERE)):
        assert await store.receipts.move([Move(user, chat, read=1)]) == []
        assert await store.receipts.advance(Move(user, chat, read=1)) is None
        assert await store.receipts.advance(Move(user, chat, read=10**6)) is None
        assert await store.receipts.unread(user, chat, 0) is None

    await append(store, state, added(BOB))
    assert await receipt_of(store, state, BOB) == Receipt(BOB, 8, 8, 4)


async def test_many_moves_at_once_answer_with_those_that_moved(store: Store) -> None:
    users = some_users(12)
    states = [await a_chat(store, *users) for _ in range(9)]  # more than are written at once
    for state in states:
        await append(store, state, message(ANN))
    moves = [Move(user, state.chat_id, read=2) for state in states for user in users]
    useless = [Move(user, states[0].chat_id, read=1) for user in users]

    moved = await store.receipts.move([*useless, *moves, *moves])

    assert len(moved) == len(moves)
    assert {(receipt.user, chat) for chat, receipt in moved} == {(m.user, m.chat) for m in moves}
    assert {(r.delivered, r.read, r.read_number) for _, r in moved} == {(2, 2, 1)}


async def test_moving_the_same_receipt_twice_tells_where_it_stands(
    store: Store, state: ChatState
) -> None:
    moved = await store.receipts.move(
        [Move(BOB, state.chat_id, read=2), Move(BOB, state.chat_id, delivered=6)]
    )
    assert moved == [(state.chat_id, Receipt(BOB, 6, 2, 1))]


async def test_no_moves_are_no_trouble(store: Store) -> None:
    assert await store.receipts.move([]) == []


async def test_a_receipt_is_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
        await append(store, state, message(ANN))
        await store.receipts.advance(Move(BOB, state.chat_id, read=2))

    async with engine.open() as store:
        assert await receipt_of(store, state, BOB) == Receipt(BOB, 2, 2, 1)


# One's own messages.


def own(state: ChatState, *spans: tuple[int, int, int]) -> OwnSends:
    return OwnSends(ANN, state.chat_id, tuple(OwnSpan(*span) for span in spans))


async def test_writing_reads_what_one_wrote(store: Store, state: ChatState) -> None:
    moved = await store.receipts.move([own(state, (0, 2, 3))])
    assert moved == [(state.chat_id, Receipt(ANN, 3, 3, 2))]

    # The mark stands within the messages: some of them were read on another device.
    moved = await store.receipts.move([own(state, (1, 4, 6))])
    assert moved == [(state.chat_id, Receipt(ANN, 6, 6, 4))]


async def test_writing_does_not_read_what_others_wrote_before(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, message(BOB), message(ANN))

    assert await store.receipts.move([own(state, (1, 2, 3))]) == []
    assert await receipt_of(store, state, ANN) == Receipt(ANN, 1, 1, 0)
    unread = await store.receipts.unread(ANN, state.chat_id, 0)
    assert unread is not None
    assert unread.unread.count == 1


@pytest.mark.parametrize("read", [1, 3, 5])
async def test_the_mark_moves_to_the_end_of_the_span_it_stands_in(store: Store, read: int) -> None:
    state = await a_chat(store, ANN, BOB)
    await append(store, state, *(message(who) for who in (ANN, BOB, ANN, BOB, ANN)))
    spans = own(state, (0, 1, 2), (2, 3, 4), (4, 5, 6))
    await store.receipts.move([Move(ANN, state.chat_id, read=read)])

    assert await store.receipts.move([spans]) == [
        (state.chat_id, Receipt(ANN, read + 1, read + 1, read))
    ]
    assert await store.receipts.move([spans]) == []


async def test_own_messages_never_move_a_mark_backwards(store: Store, state: ChatState) -> None:
    await store.receipts.move([Move(ANN, state.chat_id, read=6)])
    assert await store.receipts.move([own(state, (0, 2, 3)), own(state, (0, 4, 6))]) == []
    assert await receipt_of(store, state, ANN) == Receipt(ANN, 6, 6, 4)


async def test_own_messages_that_are_not_there_move_nothing(store: Store, state: ChatState) -> None:
    assert await store.receipts.move([own(state, (0, 5, 7)), own(state, (0, 3, 6))]) == []
    assert await receipt_of(store, state, ANN) == Receipt(ANN, 1, 1, 0)


# Who sees them.


async def test_the_receipts_of_a_chat_are_for_its_members(store: Store, state: ChatState) -> None:
    await append(store, state, added(CAT))
    await store.receipts.move([Move(BOB, state.chat_id, read=3)])

    assert await store.receipts.of_chat(state.chat_id, CAT) == [
        Receipt(ANN, 1, 1, 0),
        Receipt(BOB, 3, 3, 2),
        Receipt(CAT, 7, 7, 4),
    ]
    assert await store.receipts.of_chat(state.chat_id, DAN) is None
    assert await store.receipts.of_chat(NOWHERE, ANN) is None
