# SPDX-License-Identifier: Apache-2.0
"""Tables that were restored one by one: a repair makes them agree with the logs."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.contract.builders import a_chat, added, append, message, removed, role
from tests.contract.engines import Store
from tests.contract.moving_ground import Place, TablesPlace, fill
from tests.contract.moving_places import Places
from tests.contract.test_verify import verify
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.chats import Move
from tidings.ports.log import Kept
from tidings.ports.secrets import WrappedKey
from tidings.stores.dynamodb.chat.items import member_key, receipt_key
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.export.repairing import Repaired, repair_tables
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.listings import chat_listing
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.tables import TABLES

pytestmark = pytest.mark.usefixtures("dynamodb_endpoint")
only_tables = pytest.mark.parametrize("place", ["dynamodb"], indirect=True)


def client_of(place: Place) -> AbstractAsyncContextManager[Dynamo]:
    assert isinstance(place, TablesPlace)
    return place.client()


async def repair(place: Place) -> Repaired:
    async with client_of(place) as dynamo:
        return await repair_tables(dynamo, lambda _: None)


async def give_keys(store: Store) -> None:
    """The data keys that the content of these tests names."""
    for author in (ANN, BOB):
        key = WrappedKey(author=author, generation=0, wrapped=b"key", master_key_id="master1")
        await store.data_keys.add(key)


def on(operation: Any, table: str) -> Pattern:
    return Pattern("restore", operation, (table,), "as a restore leaves it")


@only_tables
async def test_what_agrees_stays_as_it_is(place: Place) -> None:
    async with place.open() as store:
        chats = await fill(store)
        epoch = store.deployment.epoch

    done = await repair(place)

    assert (done.chats, done.members, done.removed) == (len(chats), 0, 0)
    async with place.open() as store:
        assert store.deployment.epoch == done.epoch != epoch
    assert await verify(place) == []


@only_tables
async def test_the_log_decides(place: Place) -> None:
    """The log is a few entries behind: a member joined, one left, one read, one got a role."""
    async with place.open() as store:
        await give_keys(store)
        state = await a_chat(store, ANN, BOB, CAT)
        for number in range(3):
            assert await append(store, state, message(ANN, f"text {number}")) == Kept()
        head = state.head
        for change in (message(ANN), added(DAN), removed(CAT), role(BOB, "admin")):
            assert await append(store, state, change) == Kept()
        await store.receipts.advance(Move(BOB, state.chat_id, read=state.head))
        other = await a_chat(store, ANN, BOB)
    chat = state.chat_id
    async with client_of(place) as dynamo:
        for sequence in range(head + 1, state.head + 1):
            await dynamo.delete(
                on("DeleteItem", "messages"), {"chat_id": chat, "sequence": sequence}
            )
        key = {"chat_id": other.chat_id}
        await dynamo.delete(on("DeleteItem", "listings"), chat_listing("acme", other.chat_id))
        await dynamo.delete(on("DeleteItem", "chat_memberships"), member_key(other.chat_id, BOB))
        await dynamo.delete(on("DeleteItem", "delivery_state"), receipt_key(ANN, other.chat_id))
        await dynamo.put(
            on("PutItem", "delivery_state"),
            {**receipt_key(CAT, other.chat_id), "delivered": 1, "read": 1, "read_number": 0},
        )
        await dynamo.update(
            on("UpdateItem", "chats"), key, "SET #as_of = :far", values={":far": 999}
        )
    assert len(await verify(place)) > 5

    await repair(place)

    assert await verify(place) == []
    async with place.open() as store:
        for one, members in ((chat, {ANN, BOB, CAT}), (other.chat_id, {ANN, BOB})):
            found = await store.log.state(one)
            assert found is not None
            assert found.members.keys() == members
            assert await append(store, found, message(ANN, "it goes on")) == Kept()
            assert await append(store, found, added(DAN)) == Kept()
    assert await verify(place) == []
    assert (await repair(place)).members == 0


@only_tables
async def test_a_drill_with_tables_copied_one_by_one_beside_writers(
    place: Place, places: Places
) -> None:
    """Each table is copied at another moment, as recovery to a moment does within a second."""
    async with place.open() as store, places.new("dynamodb") as copy:
        await give_keys(store)
        states = [await a_chat(store, ANN, BOB) for _ in range(4)]

        async def write() -> None:
            for number in range(12):
                state = states[number % 4]
                change = message(ANN) if number % 3 else added(DAN) if number % 2 else removed(DAN)
                await append(store, state, change)
                await store.receipts.advance(Move(BOB, state.chat_id, read=state.head))

        writing = asyncio.create_task(write())
        async with client_of(place) as source, client_of(copy) as target:
            # The log is copied first, so that every other table is ahead of it.
            for table in sorted(TABLES, key=lambda table: table.name != "messages"):
                async for page in whole_table(source, on("Scan", table.name)):
                    for item in page:
                        await target.put(on("PutItem", table.name), item)
        await writing

        await repair(copy)

        assert await verify(copy) == []
        async with copy.open() as restored:
            for state in states:
                found = await restored.log.state(state.chat_id)
                assert found is not None
                assert await append(restored, found, message(BOB, "after the restore")) == Kept()
