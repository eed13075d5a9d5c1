# SPDX-License-Identifier: Apache-2.0
"""The chat list on DynamoDB reads copies of heads; each answer is of one piece."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest

from tests.contract.builders import (
    a_chat,
    append,
    message,
    new_chat_id,
    removed,
    renamed,
)
from tests.contract.fleets import KINDS, Fleet, a_fleet, own, shown
from tests.support.clock import NOW, ManualClock
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.actions.chat.chats import ListChats
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.blocks import NoBlocks
from tidings.assembly.system import SystemChance
from tidings.buses.in_process import InProcessBus
from tidings.model.chats import ChatState, ChatType, Move, Receipt
from tidings.model.entries import Head, head_of
from tidings.model.formats import NEWEST
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import DAY_MS
from tidings.stores.dynamodb.chat.head_patterns import TOUCH_PREVIEW
from tidings.stores.dynamodb.chat.items import receipt_key
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.export.importing import fill_heads
from tidings.stores.dynamodb.formats import EPOCH
from tidings.stores.dynamodb.patterns import IMPORT_CHAT, KEEP_VALUE, MAKE_OWN


@pytest.fixture
async def fleet(dynamodb_endpoint: str) -> AsyncIterator[Fleet]:
    async with a_fleet(dynamodb_endpoint) as made:
        yield made


CHEAP = {
    "direct": {"list_chats", "list_roles"},
    "group": {"list_chats", "list_roles", "show_chats"},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_list_reads_neither_logs_nor_messages(fleet: Fleet, kind: ChatType) -> None:
    state = await fleet.chat(kind, message(BOB, "one"), message(BOB, "two"))
    row = await fleet.listed()
    assert (shown(row), row.head) == ((3, b"two"), Head(3, 2, 3, NOW))
    assert (row.type, row.others, row.member_count) == (kind, (ANN,), 2)
    assert (row.creator, row.created_at) == (ANN, NOW)
    async with fleet.another() as store:
        assert await store.chats.row(BOB, state.chat_id, NOW) is not None
        await store.receipts.move([Move(BOB, state.chat_id, read=3)])
    await fleet.listed()
    assert fleet.reads == CHEAP[kind]


async def test_hello_of_direct_chats_is_one_query(fleet: Fleet) -> None:
    await fleet.chat("direct", message(BOB))
    async with fleet.another() as store:
        fleet.used.clear()
        (held,) = await store.chats.list_heads(BOB)
        assert (held.head, held.member_count) == (Head(2, 1, 2, NOW), 2)
        assert fleet.reads == {"list_chats"}
        fleet.used.clear()
        assert list(await store.users.peers(BOB)) == [ANN]
        assert fleet.reads == {"list_shared_chats"}


# Who writes the rows of a direct chat.


async def test_the_senders_row_goes_with_the_own_mark(fleet: Fleet) -> None:
    state = await fleet.chat("direct")
    sent = message(ANN, "mine")
    await append(fleet.writer, state, sent)
    async with fleet.another() as gateway:
        fleet.used.clear()
        moved = await gateway.receipts.move([own(sent, ANN)])
        assert moved == [(state.chat_id, Receipt(ANN, 2, 2, 1))]
        assert sum(usage.write_units for usage in fleet.used) == 1
    assert shown(await fleet.listed(ANN)) == (2, b"mine")
    assert (await fleet.writer.deliveries.reached([state.chat_id])) == {state.chat_id: 1}

    async with fleet.another() as worker:
        fleet.used.clear()
        await worker.deliveries.advance(state.chat_id, head_of(sent), sent)
        written = [usage for usage in fleet.used if usage.write_units]
        assert len(written) == 1, "the other's row; of the sender's it only sees that it is there"
    assert (await fleet.writer.deliveries.reached([state.chat_id])) == {state.chat_id: 2}


async def test_delivery_writes_the_senders_row_if_the_own_mark_did_not(fleet: Fleet) -> None:
    unread, sent = message(BOB, "unread"), message(ANN, "mine")
    state = await fleet.chat("direct", unread)
    await append(fleet.writer, state, sent)
    assert await fleet.writer.receipts.move([own(sent, ANN)]) == []
    assert [item["sequence"] for item in await fleet.copies(state)] == [2, 2]
    await fleet.deliver(state, sent)
    assert [item["sequence"] for item in await fleet.copies(state)] == [3, 3]
    row = await fleet.listed(ANN)
    assert (shown(row), row.unread.count) == ((3, b"mine"), 1)


async def test_who_is_known_to_have_older_unread_messages_costs_a_read(fleet: Fleet) -> None:
    state = await fleet.chat("group", message(BOB, "unread"))
    for number in range(2):
        sent = message(ANN, "mine")
        await append(fleet.writer, state, sent)
        async with fleet.another() as gateway:
            fleet.used.clear()
            known = msgspec.structs.replace(own(sent, ANN), is_behind=True)
            assert await gateway.receipts.move([known]) == []
            assert sum(usage.read_units for usage in fleet.used) == 1
            assert sum(usage.write_units for usage in fleet.used) == 0, number


async def test_an_own_mark_that_is_late_moves_no_head_back(fleet: Fleet) -> None:
    sent, answer = message(ANN, "mine"), message(BOB, "yours")
    state = await fleet.chat("direct", sent, answer)
    assert await fleet.writer.receipts.move([own(sent, ANN)]) == [
        (state.chat_id, Receipt(ANN, 2, 2, 1))
    ]
    row = await fleet.listed(ANN)
    assert (shown(row), row.unread.count) == ((3, b"yours"), 1)


# Old tables.


async def make_old(fleet: Fleet, states: Iterable[ChatState]) -> None:
    """Take away all that was not there before copies were where they are."""
    added = "#peer, #is_creator, #created_at, #sequence, #number, #last_message, #active_at, #epoch"
    for state in states:
        for user in state.members:
            key = receipt_key(user, state.chat_id)
            await fleet.dynamo.update(MAKE_OWN, key, f"REMOVE {added}, #preview")
        chat = {"chat_id": state.chat_id}
        await fleet.dynamo.update(TOUCH_PREVIEW, chat, "REMOVE #sequence, #epoch, #preview")


@pytest.mark.parametrize("kind", KINDS)
async def test_chats_from_before_are_read_from_their_logs(fleet: Fleet, kind: ChatType) -> None:
    state = await fleet.chat(kind, message(BOB, "old"))
    await make_old(fleet, [state])
    row = await fleet.listed(ANN)
    assert (shown(row), row.head, row.others) == ((2, b"old"), Head(2, 1, 2, NOW), (BOB,))
    async with fleet.another() as store:
        (held,) = await store.chats.list_heads(ANN)
        assert (held.head.sequence, held.member_count) == (2, 2)
        assert await store.chats.heads([state.chat_id]) == {state.chat_id: 2}
        assert list(await store.users.peers(ANN)) == [BOB]

    later = message(ANN, "new")
    await append(fleet.writer, state, later)
    await fleet.writer.receipts.move([own(later, ANN)])
    await fleet.deliver(state, later)
    assert shown(await fleet.listed(BOB)) == (3, b"new")
    assert fleet.reads - {"count_unread"} == CHEAP[kind]


async def test_old_chats_get_their_copies_by_command(fleet: Fleet) -> None:
    states = [await fleet.chat(kind, message(BOB, "old")) for kind in KINDS]
    await make_old(fleet, states)
    assert await fill_heads(fleet.dynamo, NOW + DAY_MS) == 0, "a relay may still deliver them"
    assert await fill_heads(fleet.dynamo, NOW + DAY_MS + 1) == 2
    assert await fill_heads(fleet.dynamo, NOW + DAY_MS + 1) == 0
    lost = {**(await fleet.copies(states[1]))[0], "chat_id": new_chat_id(), "epoch": "old"}
    await fleet.dynamo.put(IMPORT_CHAT, lost)
    assert await fill_heads(fleet.dynamo, NOW + DAY_MS + 1) == 0, "its log was not restored"
    async with fleet.another() as store:
        fleet.used.clear()
        assert len(await store.chats.list_heads(ANN)) == 2
        assert fleet.reads == {"list_chats", "read_heads"}


async def test_copies_from_before_a_restore_do_not_count(fleet: Fleet) -> None:
    """Tables are restored one by one: a copy may be ahead of the log, which decides."""
    states = [await fleet.chat(kind, message(BOB, "kept")) for kind in KINDS]
    for state in states:
        await fleet.writer.deliveries.advance(state.chat_id, Head(9, 8, 9, NOW + 9), None)
    await fleet.dynamo.put(KEEP_VALUE, {**EPOCH, "value": "another epoch", "writes": NEWEST})
    async with fleet.another() as store:
        assert {held.head.sequence for held in await store.chats.list_heads(ANN)} == {2}
        rows = await store.chats.listing(ANN, below=None, limit=9, now=NOW)
        assert {shown(row) for row in rows} == {(2, b"kept")}
        assert set((await store.deliveries.reached([s.chat_id for s in states])).values()) == {0}
        for state in states:
            later = message(BOB, "later")
            await append(store, state, later)
            await store.deliveries.advance(state.chat_id, head_of(later), later)
        fleet.used.clear()
        rows = await store.chats.listing(ANN, below=None, limit=9, now=NOW)
        assert {shown(row) for row in rows} == {(3, b"later")}
        assert "show_last" not in fleet.reads


# One answer is of one piece.


@pytest.mark.parametrize("kind", KINDS)
async def test_a_row_shows_the_messages_that_it_counts(fleet: Fleet, kind: ChatType) -> None:
    """With no worker running, copies are old; the look that counts sees where the log ends."""
    state = await fleet.chat(kind, message(BOB, "one"))
    for text in ("two", "three"):
        await append(fleet.writer, state, message(BOB, text), now=NOW + 1)
    row = await fleet.listed(ANN)
    assert (row.unread.count, shown(row), row.head) == (3, (4, b"three"), Head(4, 3, 4, NOW + 1))
    async with fleet.another() as store:
        await store.receipts.move([Move(ANN, state.chat_id, read=4)])
    await append(fleet.writer, state, message(BOB, "four"))
    row = await fleet.listed(ANN)
    assert (row.unread.count, shown(row)) == (0, (2, b"one")), "old, but of one piece"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_another_process_answered_is_shown_on_request(
    fleet: Fleet, kind: ChatType
) -> None:
    state = await fleet.chat(kind)
    await append(fleet.writer, state, message(ANN, "mine"))
    async with fleet.another() as store:
        (row,) = await store.chats.listing(ANN, below=None, limit=9, now=NOW)
        assert row.last is None
        for _ in range(2):
            fleet.used.clear()
            await store.chats.look(state.chat_id, 2)
            (row,) = await store.chats.listing(ANN, below=None, limit=9, now=NOW)
            assert shown(row) == (2, b"mine")
        assert "read_log" not in fleet.reads, "once is enough"


async def test_a_receipt_knows_what_another_process_appended(fleet: Fleet) -> None:
    state = await fleet.chat("group", message(ANN, "one"))
    async with fleet.another() as store:
        await store.receipts.advance(Move(BOB, state.chat_id, read=1))
        await append(fleet.writer, state, message(ANN, "two"))
        moved = await store.receipts.advance(Move(BOB, state.chat_id, read=2))
        assert moved is not None
        receipt, head = moved
    assert (receipt.read, head.sequence, head.number) == (2, 3, 2)


async def test_heads_come_from_the_logs_if_nobody_delivers(fleet: Fleet) -> None:
    states = [await fleet.chat(kind, message(BOB)) for kind in KINDS]
    for state in states:
        await append(fleet.writer, state, message(BOB))
    async with fleet.another() as store:
        assert {held.head.sequence for held in await store.chats.list_heads(ANN)} == {2}
        found = await store.chats.list_heads(ANN, from_log=True)
        assert {held.head.sequence for held in found} == {3}


@pytest.mark.attack("D01")
async def test_who_is_removed_during_a_list_sees_nothing_later(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are read; then the user goes, and something is said that is not for them."""
    state = await fleet.chat("group", message(ANN, "for all"))
    async with fleet.another() as store:
        chats = store.chats._list

        async def removed_meanwhile(user: UserKey) -> dict[ChatId, dict[str, Any]]:
            rows = await rows_of(user)
            gone, secret = removed(BOB), message(ANN, "not for Bob")
            await append(fleet.writer, state, gone)
            await append(fleet.writer, state, secret)
            await fleet.deliver(state, gone, secret)
            return rows

        rows_of = chats._rows
        monkeypatch.setattr(chats, "_rows", removed_meanwhile)
        assert await store.chats.listing(BOB, below=None, limit=9, now=NOW) == []


@pytest.mark.attack("D01")
@pytest.mark.parametrize("kind", KINDS)
async def test_who_is_removed_before_this_process_hears_more_sees_nothing(
    fleet: Fleet, kind: ChatType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the list reads is from before the removal, also the index of memberships; the head that
    the process knows is not."""
    state = await fleet.chat(kind, message(ANN, "for both"))
    async with fleet.another() as store:
        chats = store.chats._list

        async def removed_meanwhile(
            rows: dict[ChatId, dict[str, Any]], pattern: Pattern
        ) -> dict[ChatId, dict[str, Any]]:
            items = await items_of(rows, pattern)
            stale = await chats._memberships(BOB, [state.chat_id])

            async def from_index(*_: object) -> dict[ChatId, dict[str, Any]]:
                return stale

            monkeypatch.setattr(chats, "_memberships", from_index)
            await append(store, state, removed(BOB))
            await append(store, state, message(ANN, "not for Bob"))
            return items

        items_of = chats._items
        monkeypatch.setattr(chats, "_items", removed_meanwhile)
        assert await store.chats.listing(BOB, below=None, limit=9, now=NOW) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_list_is_sorted_by_what_it_shows(fleet: Fleet, kind: ChatType) -> None:
    """A look at a log finds a later head than the one in the copy."""
    first = await fleet.chat(kind, message(BOB, "one"))
    second = await a_chat(fleet.writer, ANN, CAT, kind=kind)
    last = message(CAT, "two")
    await append(fleet.writer, second, last, now=NOW + 1)
    await fleet.deliver(second, last)
    await append(fleet.writer, first, message(BOB, "three"), now=NOW + 2)
    async with fleet.another() as store:
        rows = await store.chats.listing(ANN, below=None, limit=9, now=NOW)
    assert [(row.chat_id, row.head.active_at) for row in rows] == [
        (first.chat_id, NOW + 2),
        (second.chat_id, NOW + 1),
    ]


class Readable:
    """A vault and profiles to which nothing is secret."""

    async def open(self, *_: object) -> None: ...
    async def show(self, *_: object) -> None: ...

    async def erased(self, *_: object) -> dict[Any, bool]:
        return {}


async def test_a_chat_that_becomes_active_does_not_start_the_list_anew(fleet: Fleet) -> None:
    states = []
    for at, user in enumerate((BOB, CAT, DAN)):
        states.append(await a_chat(fleet.writer, ANN, user))
        last = message(user)
        await append(fleet.writer, states[-1], last, now=NOW + at)
        await fleet.deliver(states[-1], last)
    last_chat, middle, first = (state.chat_id for state in states)
    readable, cursors = Readable(), Cursors(b"k" * 32, SystemChance())
    async with fleet.another() as store:
        shown: Any = readable
        waiting = CoalescedReceipts(store.receipts, InProcessBus())
        lists = ListChats(store.chats, shown, shown, cursors, ManualClock(), NoBlocks(), waiting)
        (row,), cursor = await lists(ANN, None, 1)
        assert row.chat_id == first
        await append(fleet.writer, states[1], message(CAT), now=NOW + 9)
        (row,), cursor = await lists(ANN, cursor, 1)
        assert (row.chat_id, row.head.active_at) == (middle, NOW + 9)
        (row,), cursor = await lists(ANN, cursor, 1)
        assert (row.chat_id, cursor) == (last_chat, None)


async def test_a_new_name_is_in_the_item_that_the_list_reads(fleet: Fleet) -> None:
    state = await fleet.chat("group", message(CAT, "hi"))
    await append(fleet.writer, state, renamed("Other"))
    assert (await fleet.listed(ANN)).name == "Other"


async def test_who_stays_alone_in_a_direct_chat_sees_it(fleet: Fleet) -> None:
    state = await fleet.chat("direct", message(BOB, "bye"))
    await append(fleet.writer, state, removed(BOB, by=BOB), now=NOW + 5)
    row = await fleet.listed(ANN)
    assert (row.others, row.member_count, row.updated_at) == ((), 1, NOW + 5)
    async with fleet.another() as store:
        assert await store.chats.listing(BOB, below=None, limit=9, now=NOW) == []
        assert await store.users.peers(ANN) == []
        one = await store.chats.row(ANN, state.chat_id, NOW)
        assert one is not None
        assert (one.others, one.member_count, one.updated_at) == ((), 1, NOW + 5)
