# SPDX-License-Identifier: Apache-2.0
"""Tables that were restored one by one: a repair makes them agree with the logs."""

import asyncio
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, NamedTuple

import pytest

from tests.contract.builders import (
    a_chat,
    added,
    append,
    append_many,
    mention,
    message,
    pinned,
    removed,
    reply,
    role,
)
from tests.contract.engines import Store
from tests.contract.inbox_builders import a_scheduled
from tests.contract.moving_ground import Place, TablesPlace, fill
from tests.contract.moving_places import Places
from tests.contract.test_due import due
from tests.contract.test_verify import verify
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.chats import ChatState, Move
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.scheduled import RESTORED
from tidings.ports.due import due_of
from tidings.ports.log import Kept
from tidings.ports.secrets import WrappedKey
from tidings.stores.dynamodb.chat.items import member_key, receipt_key
from tidings.stores.dynamodb.chat.links import mention_items, pin_key
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
        return await repair_tables(dynamo, lambda _: None, NOW)


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


async def links(store: Store, chat: ChatId) -> tuple[list[int], list[int], list[int]]:
    """The messages that answer the first message, that are pinned, and that mention Bob."""
    replies, pins = await store.log.replies(chat, BOB, 2, after=0, limit=9), []
    if (found := await store.log.pins(chat, BOB)) is not None:
        pins = [one.sequence for one in found[0].entries]
    mentions = await store.log.mentions(BOB, since=0, below=None, limit=9)
    assert replies is not None
    return [one.sequence for one in replies.entries], pins, [one.sequence for one in mentions.rows]


@only_tables
async def test_links_beyond_the_log_name_nothing_and_lost_ones_are_made_again(place: Place) -> None:
    async with place.open() as store:
        await give_keys(store)
        state = await a_chat(store)
        for entry in (message(ANN), reply(ANN, 2), mention(ANN, "bob"), pinned(2)):
            assert await append(store, state, entry) == Kept()
        head, chat = state.head, state.chat_id
        for entry in (reply(ANN, 2), mention(ANN, "bob"), pinned(3)):
            assert await append(store, state, entry) == Kept()
        made = await links(store, chat)
        assert made == ([3, 6], [2, 3], [7, 4])
    async with client_of(place) as dynamo:
        for sequence in range(head + 1, state.head + 1):
            await dynamo.delete(
                on("DeleteItem", "messages"), {"chat_id": chat, "sequence": sequence}
            )
        key, change = {"chat_id": chat, "sequence": 3}, "REMOVE #pinned"
        await dynamo.update(on("UpdateItem", "messages"), key, change)
        await dynamo.delete(on("DeleteItem", "reactions"), pin_key(chat, 5))
        (lost,) = mention_items(mention_at(state, 4))
        await dynamo.delete(
            on("DeleteItem", "idempotency_keys"),
            {name: lost[name] for name in ("chat_id", "claim")},
        )

    await repair(place)

    async with place.open() as store:
        assert await links(store, chat) == ([3], [2], [4])
        found = await store.log.state(chat)
        assert found is not None
        for _ in range(3):
            assert await append(store, found, message(BOB, "in their places")) == Kept()
        assert await links(store, chat) == ([3], [2], [4])
        assert await append(store, found, pinned(3)) == Kept()


def mention_at(state: ChatState, sequence: int) -> Entry:
    """A message that mentions Bob, as it was stamped."""
    entry = mention(ANN, "bob")
    entry.chat_id, entry.sequence, entry.created_at = state.chat_id, sequence, NOW
    return entry


class Drilled(NamedTuple):
    """How much a drill copied, and how long its steps took in seconds."""

    items: int
    copied: float
    repaired: float
    verified: float


async def drill(place: Place, places: Places, *, chats: int, before: int, writes: int) -> Drilled:
    """Copy each table at another moment, as recovery to a moment does within a second, beside
    somebody who writes; repair and verify the copy, and write on in it."""
    async with place.open() as store, places.new("dynamodb") as copy:
        await give_keys(store)
        states = [await a_chat(store, ANN, BOB) for _ in range(chats)]
        for state in states:
            await append_many(store, state, [message(ANN) for _ in range(before)])

        async def write() -> None:
            for number in range(writes):
                state = states[number % chats]
                change = some_change(number, state.head)
                await append(store, state, change)
                await store.receipts.advance(Move(BOB, state.chat_id, read=state.head))

        began = monotonic()
        writing, items = asyncio.create_task(write()), 0
        async with client_of(place) as source, client_of(copy) as target:
            # The log is copied first, so that every other table is ahead of it.
            for table in sorted(TABLES, key=lambda table: table.name != "messages"):
                async for page in whole_table(source, on("Scan", table.name)):
                    await target.batch_write(on("BatchWriteItem", table.name), puts=page)
                    items += len(page)
        copied = monotonic()
        await writing
        resumed = monotonic()
        await repair(copy)
        repaired = monotonic()
        assert await verify(copy) == []
        verified = monotonic()
        async with copy.open() as restored:
            for state in states:
                found = await restored.log.state(state.chat_id)
                assert found is not None
                assert await append(restored, found, message(BOB, "after the restore")) == Kept()
                await links(restored, state.chat_id)
    return Drilled(items, copied - began, repaired - resumed, verified - repaired)


def some_change(number: int, head: int) -> Entry:
    """Messages, replies, mentions, pins, and a member who comes and goes."""
    changes = (
        lambda: removed(DAN),
        lambda: message(ANN),
        lambda: reply(ANN, 2),
        lambda: added(DAN),
        lambda: mention(ANN, "bob"),
        lambda: pinned(head),
        lambda: message(ANN),
    )
    return changes[number % len(changes)]()


@only_tables
async def test_a_drill_with_tables_copied_one_by_one_beside_writers(
    place: Place, places: Places
) -> None:
    await drill(place, places, chats=4, before=0, writes=14)


@pytest.mark.soak
@only_tables
async def test_a_long_drill_on_tables(
    place: Place, places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    done = await drill(place, places, chats=40, before=500, writes=1_400)
    with capsys.disabled():
        print(f"a drill on DynamoDB: {done}")


@only_tables
async def test_what_was_due_before_a_restore_is_not_sent_after_it(place: Place) -> None:
    past, future = a_scheduled(1, send_at=NOW), a_scheduled(2, send_at=NOW + 1)
    async with place.open() as store:
        for message in (past, future):
            await store.due.put(due_of(message), NOW)
            await store.scheduled.add(message)

    assert (await repair(place)).restored == 1

    async with place.open() as store:
        assert await store.scheduled.get(ANN, past.scheduled_id) == past.failed(RESTORED, NOW)
        assert await store.scheduled.get(ANN, future.scheduled_id) == future
        assert [one.item_id for one in await due(store, NOW + 1)] == [future.scheduled_id]
    assert (await repair(place)).restored == 0
