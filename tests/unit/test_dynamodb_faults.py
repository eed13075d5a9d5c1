# SPDX-License-Identifier: Apache-2.0
"""Lost answers, conflicts and two processes at once, on a real DynamoDB Local behind a proxy."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contract.builders import (
    a_chat,
    added,
    append,
    draft,
    edited,
    key,
    message,
    page,
    reacted,
    redacted,
    removed,
    renamed,
    request,
)
from tests.support.clock import NOW
from tests.support.dynamo_proxy import DynamoProxy, Fate, dynamo_proxy
from tests.support.dynamo_tables import open_tables
from tests.support.users import ANN, BOB, CAT
from tidings.model.chats import ChatState, Move, Receipt
from tidings.model.entries import Entry
from tidings.model.ids import user_id, user_key
from tidings.model.refusals import StoreUnavailable
from tidings.ports.chats import Created
from tidings.ports.log import Failed, Kept, KeyTaken, Outcome, Run, SlotTaken
from tidings.stores.dynamodb.client import retrying
from tidings.stores.dynamodb.store import DynamoStore


@pytest.fixture
async def proxy(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DynamoProxy]:
    monkeypatch.setattr(retrying, "PAUSE_SECONDS_FIRST", 0.001)
    async with dynamo_proxy(dynamodb_endpoint) as opened:
        yield opened


@pytest.fixture
async def store(proxy: DynamoProxy, module_tables: str) -> AsyncIterator[DynamoStore]:
    async with open_tables(proxy.address, module_tables) as opened:
        yield opened


@pytest.fixture
async def state(store: DynamoStore) -> ChatState:
    return await a_chat(store, ANN, BOB)


async def log_of(store: DynamoStore, state: ChatState) -> list[tuple[str, bytes | None]]:
    return [(entry.kind, entry.box) for entry in (await page(store, state)).entries[1:]]


# Answers that are lost.


async def test_a_send_whose_answers_are_lost_is_kept_once(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState
) -> None:
    sent = message(ANN, "once")
    proxy.plan("PutItem", "lose", "pass", "lose")  # the key twice, then the entry
    assert await append(store, state, sent, keys=[key(sent)]) == Kept()

    assert await log_of(store, state) == [("message", b"once")]
    found = await store.log.find_sent(state.chat_id, key(sent), NOW)
    assert found is not None
    assert found.entry == sent


async def test_an_expiring_send_whose_answers_are_lost_is_kept_once(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState
) -> None:
    sent = message(ANN, "once", expires_at=NOW + 9)
    proxy.plan("PutItem", "lose", "pass", "lose", "pass", "lose")
    assert await append(store, state, sent, keys=[key(sent)]) == Kept()
    assert await log_of(store, state) == [("message", b"once")]


async def test_a_slot_that_somebody_else_took_is_lost_whatever_answer_was_lost(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState
) -> None:
    late = message(ANN, "second")
    late.chat_id = state.chat_id
    state.copy().stamp(late, NOW, "another writer's mark")
    await append(store, state, message(BOB, "first"))

    proxy.plan("PutItem", "cut")
    outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    store.log.append(
        Run(chat_id=state.chat_id, entries=[late], keys=[None], settle=outcome.set_result)
    )
    assert await outcome == SlotTaken()
    assert await log_of(store, state) == [("message", b"first")]


CHANGES = [renamed("New"), added(CAT), removed(BOB), edited(2, "new"), redacted(2), reacted(2, "x")]


@pytest.mark.parametrize("change", CHANGES, ids=lambda entry: entry.kind)
async def test_a_change_whose_answer_is_lost_happens_once(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState, change: Entry
) -> None:
    await append(store, state, message(ANN))
    proxy.plan("TransactWriteItems", "lose", "throttle", "lose")
    assert await append(store, state, change) == Kept()

    assert proxy.count("TransactWriteItems") == 5, "the chat, the change and three repeats"
    assert await store.log.state(state.chat_id) == state
    read = await page(store, state)
    assert [entry.kind for entry in read.entries] == ["created", "message", change.kind]
    assert read.member_count == len(state.members)
    assert (read.entries[1].reactions or {"x": 1}) == {"x": 1}


async def test_a_receipt_whose_answer_is_lost_has_moved(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState
) -> None:
    await append(store, state, message(ANN))
    proxy.plan("UpdateItem", "lose")
    moved = await store.receipts.move([Move(BOB, state.chat_id, read=2)])
    assert moved == [(state.chat_id, Receipt(BOB, 2, 2, 1))]


async def test_a_chat_whose_answer_is_lost_is_made_once(
    store: DynamoStore, proxy: DynamoProxy
) -> None:
    proxy.plan("TransactWriteItems", "lose")
    newcomer = user_key("acme", "newcomer")
    chat, entries = draft(newcomer, BOB, kind="direct")
    made = await store.chats.create(chat, entries, request("k"), NOW)
    assert made == Created(chat.chat_id, is_new=True)
    assert len(await store.chats.list_heads(newcomer)) == 1


# A store that does not answer.

ALWAYS: list[Fate] = ["lose"] * retrying.ATTEMPTS_MAX
NEVER: list[Fate] = ["cut"] * retrying.ATTEMPTS_MAX
BROKEN: list[Fate] = ["fail"] * retrying.ATTEMPTS_MAX


@pytest.mark.parametrize("fates", [ALWAYS, NEVER], ids=["carried out", "not carried out"])
async def test_an_unknown_outcome_is_told_as_such_and_a_repeat_tells(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState, fates: list[Fate]
) -> None:
    sent = message(ANN, "once")
    proxy.plan("PutItem", "pass", *fates)
    assert await append(store, state, sent, keys=[key(sent)]) == Failed()

    assert await append(store, state, sent, keys=[key(sent)]) == KeyTaken((0,))
    found = await store.log.find_sent(state.chat_id, key(sent), NOW)
    assert found is not None
    assert (found.entry is not None) == (fates is ALWAYS)


async def test_reads_say_that_the_store_is_unavailable(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState
) -> None:
    proxy.plan("Query", *BROKEN)
    with pytest.raises(StoreUnavailable):
        await store.chats.list_heads(ANN)


# Conflicts and competition.


async def test_a_conflict_is_a_lost_slot(
    store: DynamoStore, proxy: DynamoProxy, state: ChatState
) -> None:
    proxy.plan("PutItem", "conflict")
    assert await append(store, state, message(ANN)) == SlotTaken()

    canceled = {
        "__type": "x#TransactionCanceledException",
        "CancellationReasons": [{"Code": "None"}, {"Code": "TransactionConflict"}],
    }
    proxy.plan("TransactWriteItems", canceled)
    assert await append(store, state, renamed("Other")) == SlotTaken()
    assert await append(store, state, renamed("Other")) == Kept()


async def append_stubbornly(store: DynamoStore, chat: ChatState, entries: list[Entry]) -> None:
    state = chat.copy()
    for entry in entries:
        while await append(store, state, entry) != Kept():
            for missed in await store.log.tail(state.chat_id, state.head):
                state.fold(missed)


async def test_two_processes_write_to_one_chat_without_a_hole(
    dynamodb_endpoint: str, module_tables: str
) -> None:
    async with (
        open_tables(dynamodb_endpoint, module_tables) as one,
        open_tables(dynamodb_endpoint, module_tables) as other,
    ):
        state = await a_chat(one, ANN, BOB, CAT)
        async with asyncio.TaskGroup() as group:
            for store, user in ((one, ANN), (other, BOB)):
                mine = [message(user, f"{user} {n}") for n in range(15)]
                newcomer = user_key("acme", f"friend-of-{user_id(user)}")
                changes = [renamed(f"by {user}"), added(newcomer), mine.pop()]
                group.create_task(append_stubbornly(store, state, [*mine, *changes]))

        read = await page(other, state, ANN)
        assert [entry.sequence for entry in read.entries] == list(range(1, 36))
        assert read.member_count == 5
        boxes = [entry.box for entry in read.entries if entry.box]
        assert len(boxes) == len(set(boxes)) == 30
        assert [entry.number for entry in read.entries][-1] == 30
        loaded = await one.log.state(state.chat_id)
        assert loaded is not None
        assert len(loaded.members) == 5


async def test_of_two_processes_that_send_under_one_key_one_is_first(
    dynamodb_endpoint: str, module_tables: str
) -> None:
    async with (
        open_tables(dynamodb_endpoint, module_tables) as one,
        open_tables(dynamodb_endpoint, module_tables) as other,
    ):
        state = await a_chat(one, ANN)
        sends = [message(ANN, "same", cmid="m-1") for _ in range(2)]
        outcomes = []
        async with asyncio.TaskGroup() as group:
            for store, sent in zip((one, other), sends, strict=True):
                group.create_task(
                    append(store, state.copy(), sent, keys=[key(sent)])
                ).add_done_callback(lambda task: outcomes.append(task.result()))
        assert sorted(map(repr, outcomes)) == [repr(Kept()), repr(KeyTaken((0,)))]
        assert len((await page(one, state)).entries) == 2
