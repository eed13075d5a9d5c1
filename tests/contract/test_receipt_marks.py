# SPDX-License-Identifier: Apache-2.0
"""What a receipt keeps besides its marks: times, the part marked as unread, and hiding."""

import pytest

from tests.contract.builders import (
    NOWHERE,
    a_chat,
    added,
    append,
    message,
    redacted,
    removed,
    row_of,
)
from tests.contract.engines import Engine, SqliteEngine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model import limits
from tidings.model.chats import ChatState, Move, OwnSends, OwnSpan, ReceiptWithTimes, Unread
from tidings.model.ids import UserKey
from tidings.model.receipt_times import DELIVERED_TIMES_MAX, READ_TIMES_MAX
from tidings.model.refusals import Invalid

START = NOW // 1_000


async def times_of(store: Store, state: ChatState, user: UserKey) -> ReceiptWithTimes:
    found = await store.receipts.with_times(state.chat_id, user)
    assert found is not None
    (own,) = [one for one in found if one.receipt.user == user]
    return own


async def unread(store: Store, state: ChatState, user: UserKey) -> Unread:
    found = await store.receipts.unread(user, state.chat_id, NOW)
    row = await row_of(store, user, state.chat_id)
    assert found is not None
    assert row.unread == found.unread
    heads = [one for one in await store.chats.list_heads(user) if one.chat_id == state.chat_id]
    (counted,) = await store.receipts.count(heads, NOW)
    if found.unread.count and found.unread.exact:
        assert counted == found
    return found.unread


@pytest.fixture
async def state(store: Store) -> ChatState:
    """Entries: 1 created, 2 to 6 messages of Ann."""
    chat = await a_chat(store, ANN, BOB)
    await append(store, chat, *(message(ANN) for _ in range(5)))
    return chat


# Times.


async def test_times_of_reading_and_receiving(store: Store, state: ChatState) -> None:
    chat = state.chat_id
    await store.receipts.move([Move(BOB, chat, delivered=4, at=NOW + 1_000)])
    await store.receipts.move([Move(BOB, chat, read=3, at=NOW + 2_500)])
    await store.receipts.advance(Move(BOB, chat, delivered=6, read=5, at=NOW + 4_000))

    found = await times_of(store, state, BOB)
    assert list(found.delivered_times) == [(1, START), (4, START + 1), (6, START + 4)]
    assert list(found.read_times) == [(1, START), (3, START + 2), (5, START + 4)]
    assert (found.delivered_at(2), found.read_at(2)) == (NOW + 1_000, NOW + 2_000)
    assert (found.delivered_at(6), found.read_at(6)) == (NOW + 4_000, None)
    assert (found.delivered_at(1), found.read_at(1)) == (None, None)


async def test_what_was_read_was_received_by_then(store: Store, state: ChatState) -> None:
    await store.receipts.move([Move(BOB, state.chat_id, read=5, at=NOW + 1_000)])
    await store.receipts.move([Move(BOB, state.chat_id, delivered=6, at=NOW + 9_000)])
    found = await times_of(store, state, BOB)
    assert found.delivered_at(5) == NOW + 1_000


async def test_a_repeated_mark_keeps_its_first_time(store: Store, state: ChatState) -> None:
    for late in (1_000, 2_000):
        await store.receipts.move([Move(BOB, state.chat_id, read=5, at=NOW + late)])
        await store.receipts.advance(Move(BOB, state.chat_id, delivered=4, read=2, at=NOW + late))
    assert (await times_of(store, state, BOB)).read_at(5) == NOW + 1_000


async def test_own_messages_take_no_place_among_the_times(store: Store, state: ChatState) -> None:
    await store.receipts.move([OwnSends(ANN, state.chat_id, (OwnSpan(0, 5, 6),))])
    found = await times_of(store, state, ANN)
    assert (found.receipt.read, list(found.read_times)) == (6, [(1, START)])


async def test_few_times_are_kept_and_the_newest_are_exact(engine: Engine) -> None:
    """In one process, and after each restart in a process that knows nothing."""
    async with engine.open() as store:
        state = await a_chat(store, ANN, BOB)
        await append(store, state, *(message(ANN) for _ in range(40)))
    moves = [
        Move(BOB, state.chat_id, delivered=2 * n + 3, read=2 * n + 2, at=NOW + 60_000 * n)
        for n in range(18)
    ]
    for portion in (moves[:9], moves[9:10], moves[10:11], moves[11:]):
        async with engine.open() as store:
            for move in portion:
                assert await store.receipts.move([move])
    async with engine.open() as store:
        found = await times_of(store, state, BOB)
    assert len(found.read_times) <= READ_TIMES_MAX + 1
    assert len(found.delivered_times) <= DELIVERED_TIMES_MAX + 1
    assert found.read_at(moves[-1].read) == moves[-1].at
    assert found.delivered_at(moves[-1].delivered) == moves[-1].at
    for move in moves:
        read_at = found.read_at(move.read)
        assert read_at is None or read_at >= move.at


async def test_two_processes_keep_each_others_times(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_chat(store, ANN, BOB)
        await append(store, state, *(message(ANN) for _ in range(40)))
        if not isinstance(engine, SqliteEngine):
            async with engine.open() as other:
                for n in range(16):
                    move = Move(BOB, state.chat_id, read=n + 2, at=NOW + 1_000 * n)
                    assert await (store, other)[n % 2].receipts.move([move])
                    last = (await times_of(store, state, BOB)).read_times[-1]
                    assert last == (n + 2, START + n)


async def test_the_times_are_for_members(store: Store, state: ChatState) -> None:
    await append(store, state, added(CAT), now=NOW + 5_000)
    found = await store.receipts.with_times(state.chat_id, CAT)
    assert found is not None
    assert [(one.receipt.user, one.joined) for one in found] == [(ANN, 1), (BOB, 1), (CAT, 7)]
    assert list(found[-1].read_times) == [(7, START + 5)]
    assert await store.receipts.with_times(state.chat_id, DAN) is None
    assert await store.receipts.with_times(NOWHERE, ANN) is None


# Marked as unread.


async def test_marked_as_unread_counts_from_there(store: Store, state: ChatState) -> None:
    chat = state.chat_id
    await store.receipts.move([Move(BOB, chat, read=6)])
    marked = await store.receipts.mark_unread(BOB, chat, 4)

    assert marked is not None
    assert (marked.delivered, marked.read, marked.read_number) == (6, 6, 5)
    assert (marked.unread_from, marked.unread_number) == (4, 2)
    assert await unread(store, state, BOB) == Unread(3)
    assert (await row_of(store, BOB, chat)).receipt.is_marked_unread
    assert not (await row_of(store, ANN, chat)).receipt.is_marked_unread
    await append(store, state, redacted(5))
    assert await unread(store, state, BOB) == Unread(2)

    cleared = await store.receipts.mark_unread(BOB, chat, None)
    assert cleared is not None
    assert (cleared.unread_from, cleared.unread_number) == (0, 0)
    assert await unread(store, state, BOB) == Unread(0)


async def test_a_mark_above_what_is_unread_adds_nothing(store: Store, state: ChatState) -> None:
    await store.receipts.move([Move(BOB, state.chat_id, read=3)])
    assert await store.receipts.mark_unread(BOB, state.chat_id, 6) is not None
    assert await unread(store, state, BOB) == Unread(3)


async def test_own_messages_marked_as_unread_count_nothing(store: Store, state: ChatState) -> None:
    await store.receipts.move([Move(ANN, state.chat_id, read=6)])
    assert await store.receipts.mark_unread(ANN, state.chat_id, 2) is not None
    assert await unread(store, state, ANN) == Unread(0)
    assert (await row_of(store, ANN, state.chat_id)).receipt.is_marked_unread


async def test_only_a_read_mark_that_moves_ends_it(store: Store, state: ChatState) -> None:
    chat = state.chat_id
    await store.receipts.move([Move(BOB, chat, read=5)])
    await store.receipts.mark_unread(BOB, chat, 4)
    for same in (
        Move(BOB, chat, read=5),
        Move(BOB, chat, delivered=6, read=5),
        Move(BOB, chat, delivered=6),
        Move(BOB, chat, read=2),
    ):
        await store.receipts.move([same])
        await store.receipts.advance(same)
        assert await unread(store, state, BOB) == Unread(3)
    assert await store.receipts.move([Move(BOB, chat, delivered=6, read=6)])
    assert await unread(store, state, BOB) == Unread(0)
    assert not (await row_of(store, BOB, chat)).receipt.is_marked_unread


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
async def test_an_own_message_ends_it(
    store: Store, state: ChatState, is_behind: bool, is_known: bool
) -> None:
    """What the process believes about older messages does not matter."""
    chat = state.chat_id
    await store.receipts.move([Move(BOB, chat, read=5 if is_behind else 6)])
    await store.receipts.mark_unread(BOB, chat, 3)
    await append(store, state, message(BOB))
    await store.receipts.move([OwnSends(BOB, chat, (OwnSpan(5, 6, 7),), is_behind=is_known)])
    assert await unread(store, state, BOB) == Unread(1 if is_behind else 0)
    row = await row_of(store, BOB, chat)
    assert (row.receipt.is_marked_unread, row.receipt.read) == (False, 5 if is_behind else 7)


async def test_an_own_message_among_several_ends_it(store: Store, state: ChatState) -> None:
    await store.receipts.mark_unread(BOB, state.chat_id, 3)
    await append(store, state, *(message(who) for who in (BOB, ANN, BOB)))
    spans = (OwnSpan(5, 6, 7), OwnSpan(7, 8, 9))
    assert await store.receipts.move([OwnSends(BOB, state.chat_id, spans)]) == []
    assert not (await row_of(store, BOB, state.chat_id)).receipt.is_marked_unread


async def test_from_where_a_chat_can_be_marked(
    store: Store, state: ChatState, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(store, state, added(CAT))
    await append(store, state, message(ANN), message(ANN))
    for user, first in ((BOB, 10), (BOB, 0), (CAT, 6), (CAT, 10**15)):
        with pytest.raises(Invalid, match=r"from must be between"):
            await store.receipts.mark_unread(user, state.chat_id, first)
    assert await store.receipts.mark_unread(CAT, state.chat_id, 7) is not None
    assert await unread(store, state, CAT) == Unread(2)
    monkeypatch.setattr(limits, "UNREAD_ENTRIES_MAX", 3)
    with pytest.raises(Invalid, match=r"between 6 and 9"):
        await store.receipts.mark_unread(BOB, state.chat_id, 5)


async def test_only_members_mark_and_hide(store: Store, state: ChatState) -> None:
    for user, chat in ((DAN, state.chat_id), (ANN, NOWHERE)):
        assert await store.receipts.mark_unread(user, chat, 2) is None
        assert await store.receipts.mark_unread(user, chat, None) is None
        assert await store.receipts.hide(user, chat, is_hidden=True) is None
        assert await store.receipts.hide(user, chat, is_hidden=False) is None


async def test_who_comes_back_has_marked_and_hidden_nothing(store: Store, state: ChatState) -> None:
    await store.receipts.mark_unread(BOB, state.chat_id, 2)
    await store.receipts.hide(BOB, state.chat_id, is_hidden=True)
    await append(store, state, removed(BOB))
    await append(store, state, added(BOB))
    row = await row_of(store, BOB, state.chat_id)
    assert (row.receipt.is_marked_unread, row.is_hidden) == (False, False)


# Hidden.


async def test_hidden_until_the_next_message(store: Store, state: ChatState) -> None:
    chat = state.chat_id
    hidden = await store.receipts.hide(BOB, chat, is_hidden=True)
    assert hidden is not None
    assert hidden.hidden_number == 5
    assert (await row_of(store, BOB, chat)).is_hidden
    assert not (await row_of(store, ANN, chat)).is_hidden
    await append(store, state, added(CAT))
    assert (await row_of(store, BOB, chat)).is_hidden, "only a message shows it again"
    (listed,) = await store.chats.listing(BOB, below=None, limit=5, now=NOW)
    assert listed.is_hidden
    await append(store, state, message(BOB))
    assert not (await row_of(store, BOB, chat)).is_hidden
    assert await store.receipts.hide(BOB, chat, is_hidden=True)
    shown = await store.receipts.hide(BOB, chat, is_hidden=False)
    assert shown is not None
    assert not (await row_of(store, BOB, chat)).is_hidden


async def test_a_chat_without_messages_can_be_hidden(store: Store) -> None:
    state = await a_chat(store, ANN, BOB)
    await store.receipts.hide(BOB, state.chat_id, is_hidden=True)
    assert (await row_of(store, BOB, state.chat_id)).is_hidden
    await append(store, state, message(ANN))
    assert not (await row_of(store, BOB, state.chat_id)).is_hidden


async def test_marks_are_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
        await append(store, state, message(ANN))
        await store.receipts.advance(Move(BOB, state.chat_id, read=2, at=NOW + 7_000))
        await store.receipts.mark_unread(BOB, state.chat_id, 2)
        await store.receipts.hide(BOB, state.chat_id, is_hidden=True)
    async with engine.open() as store:
        row = await row_of(store, BOB, state.chat_id)
        assert (row.receipt.unread_from, row.is_hidden) == (2, True)
        assert (await times_of(store, state, BOB)).read_at(2) == NOW + 7_000
