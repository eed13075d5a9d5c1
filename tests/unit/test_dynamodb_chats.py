# SPDX-License-Identifier: Apache-2.0
"""What only this engine has to get right: steps, halves of transactions, head copies, hints."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from tests.contract.builders import (
    a_chat,
    added,
    append,
    append_many,
    draft,
    key,
    message,
    page,
    removed,
    request,
    row_of,
)
from tests.support.clock import NOW
from tests.support.dynamo_proxy import DynamoProxy, Fate, dynamo_proxy
from tests.support.dynamo_tables import REGION, open_tables
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB, CAT, DAN, some_users
from tests.support.waiting import until
from tidings.assembly.system import SystemChance, SystemClock
from tidings.model.entries import Head
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.chats import Created
from tidings.ports.log import Failed, Kept
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.chat import heads
from tidings.stores.dynamodb.chat.head_copies import HeadCopy
from tidings.stores.dynamodb.chat.head_patterns import READ_HEADS
from tidings.stores.dynamodb.chat.items import claim_key, entry_item, member_key
from tidings.stores.dynamodb.client import retrying
from tidings.stores.dynamodb.client.dynamo import Dynamo, open_client
from tidings.stores.dynamodb.client.writes import Delete
from tidings.stores.dynamodb.store import DynamoStore

GIVES_UP: list[Fate] = ["cut"] * retrying.ATTEMPTS_MAX


@pytest.fixture
async def prefix(dynamodb_endpoint: str) -> AsyncIterator[str]:
    async with spare_tables(dynamodb_endpoint) as made:
        yield made


@pytest.fixture
async def proxy(
    dynamodb_endpoint: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DynamoProxy]:
    """A proxy that ends before the tables are emptied: what it still forwards is done by then."""
    monkeypatch.setattr(retrying, "PAUSE_SECONDS_FIRST", 0.001)
    async with dynamo_proxy(dynamodb_endpoint) as opened:
        yield opened


@pytest.fixture
async def store(proxy: DynamoProxy, prefix: str) -> AsyncIterator[DynamoStore]:
    async with open_tables(proxy.address, prefix) as opened:
        yield opened


@pytest.fixture
async def tables(dynamodb_endpoint: str, prefix: str) -> AsyncIterator[Dynamo]:
    """The tables themselves, to put there what a store would never."""
    async with open_client(
        endpoint=dynamodb_endpoint,
        region=REGION,
        prefix=prefix,
        clock=SystemClock(),
        chance=SystemChance(),
    ) as opened:
        yield opened


# Making a large chat.


async def test_a_large_chat_is_made_in_steps(store: DynamoStore) -> None:
    users = some_users(100)
    chat, entries = draft(*users)
    assert len(entries) == 4

    assert await store.chats.create(chat, entries, None, NOW) == Created(chat.chat_id, is_new=True)

    state = await store.log.state(chat.chat_id)
    assert state is not None
    assert (set(state.members), state.head) == (set(users), 4)
    row = await row_of(store, users[99], chat.chat_id)
    assert (row.member_count, row.others) == (100, tuple(sorted(users[:30])[:10]))


@pytest.mark.parametrize("step", [0, 1, 2, 3])
async def test_a_request_that_stopped_half_way_is_finished_by_its_repeat(
    store: DynamoStore, proxy: DynamoProxy, step: int
) -> None:
    users = some_users(100)
    chat, entries = draft(*users)
    steps: list[Fate] = ["pass"] * step
    proxy.plan("TransactWriteItems", *steps, *GIVES_UP)
    with pytest.raises(StoreUnavailable):
        await store.chats.create(chat, entries, request("k"), NOW)

    again, other_entries = draft(users[0], *reversed(users[1:]))
    made = await store.chats.create(again, other_entries, request("k"), NOW)

    assert made == Created(chat.chat_id if step else again.chat_id, is_new=step == 0)
    members = await store.chats.members(made.chat_id, users[0])
    assert members is not None
    assert set(members) == set(users)
    assert (await row_of(store, users[50], made.chat_id)).member_count == 100
    asked = proxy.count("TransactWriteItems")
    assert await store.chats.create(again, other_entries, request("k"), NOW) == Created(
        made.chat_id, is_new=False
    )
    assert proxy.count("TransactWriteItems") == asked, "all is done: nothing is looked for again"


async def test_who_left_a_chat_that_is_still_being_made_stays_away(
    store: DynamoStore, proxy: DynamoProxy
) -> None:
    users = some_users(40)
    chat, entries = draft(*users)
    proxy.plan("TransactWriteItems", "pass", *GIVES_UP)
    with pytest.raises(StoreUnavailable):
        await store.chats.create(chat, entries, request("k"), NOW)
    state = await store.log.state(chat.chat_id)
    assert state is not None
    await append(store, state, removed(users[5], by=users[5]))

    await store.chats.create(*draft(*users), request("k"), NOW)

    members = await store.chats.members(chat.chat_id, users[0])
    assert members is not None
    assert set(members) == set(users) - {users[5]}
    assert (await page(store, state, users[39])).member_count == 39


async def test_a_step_that_loses_its_slot_is_taken_after_it(
    store: DynamoStore, proxy: DynamoProxy
) -> None:
    users = some_users(70)
    chat, entries = draft(*users)
    reasons = [{"Code": "TransactionConflict"}, *[{"Code": "None"}] * 61]
    conflict = {"__type": "x#TransactionCanceledException", "CancellationReasons": reasons}
    proxy.plan("TransactWriteItems", "pass", conflict, conflict)

    made = await store.chats.create(chat, entries, None, NOW)

    assert made == Created(chat.chat_id, is_new=False), "its entries are not those that were given"
    state = await store.log.state(chat.chat_id)
    assert state is not None
    assert (set(state.members), state.head) == (set(users), 3)
    assert (await page(store, state, users[69])).member_count == 70


# The first members.


async def test_the_first_members_are_right_after_some_of_them_left(store: DynamoStore) -> None:
    users = sorted(some_users(25))
    state = await a_chat(store, *users)
    gone = [users[index] for index in (0, 3, 7, 8)]
    await append(store, state, *[removed(user) for user in gone])
    await append(store, state, added(gone[0]))

    left = [user for user in users if user not in gone]
    row = await row_of(store, users[1], state.chat_id)
    assert row.others == tuple(left[1:11])
    assert row.member_count == 22


# One half of a transaction.


async def test_an_entry_counts_before_its_rows_are_seen(store: DynamoStore, tables: Dynamo) -> None:
    state = await a_chat(store, ANN, BOB, CAT)
    for entry in (removed(CAT), added(DAN)):
        entry.chat_id = state.chat_id
        state.stamp(entry, NOW, "test")
        state.fold(entry)
        await tables.put(patterns.CLAIM_SLOT, entry_item(entry))

    assert await store.log.state(state.chat_id) == state
    assert await store.log.page(state.chat_id, DAN, after=0, limit=9) is None, "no row, no reader"


async def test_rows_of_a_later_entry_do_not_matter(store: DynamoStore, tables: Dynamo) -> None:
    state = await a_chat(store, ANN, BOB)
    row = Delete("chat_memberships", member_key(state.chat_id, BOB))
    await tables.transact(patterns.CHANGE_CHAT, [row])
    assert await store.log.state(state.chat_id) == state


# The hint of a key.


async def test_a_long_search_is_not_made_twice(
    store: DynamoStore, proxy: DynamoProxy, tables: Dynamo
) -> None:
    state = await a_chat(store, ANN)
    sent = message(ANN, "late", cmid="m-1")
    proxy.plan("PutItem", "pass", *GIVES_UP)
    assert await append(store, state, sent, keys=[key(sent)]) == Failed()
    await append_many(store, state, [message(ANN) for _ in range(150)])

    for asked_before in (proxy.count("Query"), None):
        found = await store.log.find_sent(state.chat_id, key(sent), NOW)
        assert found is not None
        assert (found.digest, found.entry) == (b"digest", None)
        if asked_before is None:
            continue
        claim = await tables.get(patterns.FIND_KEY, claim_key(state.chat_id, key(sent)))
        assert claim is not None
        assert claim["hint"] == state.head + 1

    assert await append(store, state, sent, keys=[None]) == Kept()
    found = await store.log.find_sent(state.chat_id, key(sent), NOW)
    assert found is not None
    assert found.entry == sent


# Head copies.


async def stored_head(tables: Dynamo, chat: ChatId) -> int:
    (item,) = await tables.batch_get(READ_HEADS, [{"chat_id": chat}])
    return int(item["sequence"])


def copies_asked_for(proxy: DynamoProxy) -> list[int]:
    """The heads that were to be written, each once: an answer that is late is asked for again."""
    updates = (request for operation, request in proxy.asked if operation == "UpdateItem")
    values = (update["ExpressionAttributeValues"] for update in updates)
    return list(dict.fromkeys(int(one[":sequence"]["N"]) for one in values if ":sequence" in one))


async def test_a_head_copy_is_written_at_once_and_then_once_a_second(
    dynamodb_endpoint: str,
    prefix: str,
    proxy: DynamoProxy,
    tables: Dynamo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heads, "WRITE_SECONDS_MIN", 600.0)  # a second that does not pass meanwhile
    async with open_tables(proxy.address, prefix) as store:
        state = await a_chat(store, ANN, BOB)
        await until(lambda: proxy.count("UpdateItem"))
        for _ in range(10):
            await append(store, state, message(ANN))
            assert (await store.chats.list_heads(BOB))[0].head.sequence == state.head
        assert copies_asked_for(proxy) == [1]
        assert await stored_head(tables, state.chat_id) == 1

    assert copies_asked_for(proxy) == [1, 11]
    assert await stored_head(tables, state.chat_id) == 11


async def test_a_head_copy_never_moves_backwards(
    dynamodb_endpoint: str, prefix: str, tables: Dynamo
) -> None:
    async with open_tables(dynamodb_endpoint, prefix, writes_heads=False) as store:
        chat = (await a_chat(store, ANN, BOB)).chat_id
    for sequence in (5, 9, 7, 8):
        async with open_tables(dynamodb_endpoint, prefix) as store:
            store.heads.advance(chat, HeadCopy(Head(sequence, 0, 0, 0)))
    assert await stored_head(tables, chat) == 9


async def test_head_copies_that_died_with_their_process_are_made_up_for(
    dynamodb_endpoint: str, prefix: str, tables: Dynamo
) -> None:
    async with open_tables(dynamodb_endpoint, prefix) as store:
        state = await a_chat(store, ANN, BOB)
    async with open_tables(dynamodb_endpoint, prefix, writes_heads=False) as dies:
        await append(dies, state, message(ANN, "lost?"))
        await append(dies, state, added(CAT))
    assert await stored_head(tables, state.chat_id) == 1

    async with open_tables(dynamodb_endpoint, prefix) as store:
        (held,) = await store.chats.list_heads(BOB)
        assert (held.head.sequence, held.member_count) == (3, 3)
        (row,) = await store.chats.listing(BOB, below=None, limit=9, now=NOW)
        assert row.last is not None
        assert (row.last.box, row.unread.count) == (b"lost?", 1)
    assert await stored_head(tables, state.chat_id) == 3


async def test_where_others_deliver_a_head_copy_says_how_far(
    dynamodb_endpoint: str, prefix: str
) -> None:
    def gateway() -> AbstractAsyncContextManager[DynamoStore]:
        return open_tables(dynamodb_endpoint, prefix, writes_heads=False)

    async with gateway() as one, gateway() as other:
        state = await a_chat(one, ANN, BOB)
        one.heads.advance(state.chat_id, HeadCopy(Head(1, 0, 0, NOW)))
        await one.heads.settled(state.chat_id)
        await append(one, state, message(ANN))

        assert [held.head.sequence for held in await one.chats.list_heads(BOB)] == [2]
        assert [held.head.sequence for held in await other.chats.list_heads(BOB)] == [1]
