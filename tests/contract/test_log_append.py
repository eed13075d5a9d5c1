# SPDX-License-Identifier: Apache-2.0
"""Claiming slots: dense, all or none, once per key."""

import asyncio
from functools import partial

from tests.contract.builders import a_chat, append, edited, key, message, page, renamed, submit
from tests.contract.engines import Engine, Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.ports.log import Declined, Kept, KeyTaken, Outcome, Run, SlotTaken


def texts(entries: list[Entry]) -> list[str]:
    return [entry.box.decode() for entry in entries if entry.box is not None]


async def test_sequences_are_dense_and_numbers_count_messages(store: Store) -> None:
    state = await a_chat(store)
    assert await append(store, state, message(ANN), message(BOB), message(ANN)) == Kept()
    assert await append(store, state, renamed("Other")) == Kept()
    assert await append(store, state, message(BOB)) == Kept()

    entries = (await page(store, state)).entries

    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry.number for entry in entries] == [0, 1, 2, 3, 3, 4]
    assert [entry.last_message for entry in entries] == [0, 2, 3, 4, 4, 6]


async def test_an_entry_comes_back_as_it_went_in(store: Store) -> None:
    state = await a_chat(store)
    sent = message(BOB, "hello", cmid="m-1", expires_at=NOW + 5)
    await append(store, state, sent, now=NOW + 3)

    (read,) = (await page(store, state, after=1)).entries

    assert read == sent
    assert (read.chat_id, read.sequence, read.created_at) == (state.chat_id, 2, NOW + 3)


async def test_who_comes_second_gets_no_slot_and_writes_nothing(store: Store) -> None:
    state = await a_chat(store)
    stale = state.copy()
    await append(store, state, message(ANN, "first"))

    outcome = await append(store, stale, message(BOB, "second"), message(BOB, "third"))

    assert outcome == SlotTaken()
    assert texts((await page(store, state)).entries) == ["first"]


async def test_a_change_that_loses_its_slot_has_no_effect(store: Store) -> None:
    state = await a_chat(store, name="Before")
    stale = state.copy()
    await append(store, state, message(ANN))

    assert await append(store, stale, renamed("After")) == SlotTaken()

    now = await store.log.state(state.chat_id)
    assert now is not None
    assert now.name == "Before"


async def append_stubbornly(store: Store, chat: ChatState, entry: Entry) -> None:
    state = chat.copy()
    while await append(store, state, entry) != Kept():
        for missed in await store.log.tail(state.chat_id, state.head):
            state.fold(missed)


async def test_many_writers_on_one_chat_leave_no_hole_and_lose_nothing(store: Store) -> None:
    state = await a_chat(store)
    async with asyncio.TaskGroup() as writers:
        for index in range(20):
            writers.create_task(append_stubbornly(store, state, message(ANN, f"{index}")))

    entries = (await page(store, state)).entries

    assert [entry.sequence for entry in entries] == list(range(1, 22))
    assert sorted(texts(entries), key=int) == [f"{index}" for index in range(20)]


async def test_a_run_is_kept_whole_or_not_at_all(store: Store) -> None:
    state = await a_chat(store)
    outcome = await append(store, state, message(ANN), renamed("Other"), edited(1, "no message"))

    assert outcome == Declined(2, "target_gone")
    left = await page(store, state)
    assert [entry.kind for entry in left.entries] == ["created"]
    assert (await store.log.state(state.chat_id)) == state


async def test_runs_of_a_chat_settle_once_and_in_the_order_they_were_given(store: Store) -> None:
    state = await a_chat(store)
    entries = [message(ANN), message(BOB), renamed("Other"), message(ANN), message(BOB)]
    told: list[tuple[int, Outcome]] = []
    all_told = asyncio.Event()

    def settle(index: int, outcome: Outcome) -> None:
        told.append((index, outcome))
        if len(told) >= len(entries):
            all_told.set()

    for index, entry in enumerate(entries):
        entry.chat_id = state.chat_id
        state.stamp(entry, NOW, "test")
        state.fold(entry)
        store.log.append(
            Run(
                chat_id=state.chat_id,
                entries=[entry],
                keys=[None],
                settle=partial(settle, index),
            )
        )
    await all_told.wait()

    assert told == [(index, Kept()) for index in range(len(entries))]
    assert (await page(store, state, after=1)).entries == entries


async def test_losers_do_not_take_others_down(store: Store) -> None:
    winner, late, repeater, changed = [await a_chat(store) for _ in range(4)]
    stale = late.copy()
    await append(store, late, message(ANN))
    first = message(ANN, cmid="same")
    await append(store, repeater, first, keys=[key(first)])
    again = message(ANN, cmid="same")

    futures = [
        submit(store, winner, message(BOB)),
        submit(store, stale, message(BOB)),
        submit(store, repeater, again, keys=[key(again)]),
        submit(store, changed, renamed("Other")),
    ]

    assert [await f for f in futures] == [Kept(), SlotTaken(), KeyTaken((0,)), Kept()]
    assert [s.head for s in (winner, late, repeater, changed)] == [2, 2, 2, 2]
    for state in (winner, late, repeater, changed):
        assert (await page(store, state)).head.sequence == 2


async def test_what_was_kept_is_there_after_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
        sent = message(ANN, "still here", cmid="m-1")
        await append(store, state, sent, keys=[key(sent)])
        await append(store, state, renamed("Other"))
        before = await page(store, state)

    async with engine.open() as store:
        assert await page(store, state) == before
        assert await store.log.state(state.chat_id) == state
        found = await store.log.find_sent(state.chat_id, key(sent), NOW)
        assert found is not None
        assert found.entry == sent
