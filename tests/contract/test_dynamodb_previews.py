# SPDX-License-Identifier: Apache-2.0
"""The copies of last messages on DynamoDB: no copy outlives the rule that it stands for."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.builders import (
    a_chat,
    append,
    deleted,
    edited,
    message,
    reacted,
    redacted,
)
from tests.contract.fleets import KINDS, Fleet, a_fleet, shown
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.buses.in_process import InProcessBus
from tidings.model.chats import ChatType, Move
from tidings.model.entries import head_of
from tidings.model.formats import NEWEST
from tidings.model.ids import user_key
from tidings.ports.bus import Appended
from tidings.stores.dynamodb.chat.items import PREVIEW_BOX_BYTES_MAX
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.formats import EPOCH
from tidings.stores.dynamodb.patterns import KEEP_VALUE


@pytest.fixture
async def fleet(dynamodb_endpoint: str) -> AsyncIterator[Fleet]:
    async with a_fleet(dynamodb_endpoint) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_redacted_is_in_no_copy(fleet: Fleet, kind: ChatType) -> None:
    state = await fleet.chat(kind, message(BOB, "secret"))
    await append(fleet.writer, state, redacted(2, by=BOB))
    row = await fleet.listed(ANN)
    assert row.last is not None
    assert (shown(row), row.last.redacted) == ((2, None), True)
    assert all("preview" not in item for item in await fleet.copies(state))


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_edited_is_shown_as_it_is_now(fleet: Fleet, kind: ChatType) -> None:
    sent = message(BOB, "before")
    state = await fleet.chat(kind, sent)
    await append(fleet.writer, state, edited(2, "after", by=BOB))
    assert shown(await fleet.listed(ANN)) == (2, b"after")
    later = message(BOB, "later")
    await append(fleet.writer, state, later)
    await fleet.deliver(state, later)
    assert shown(await fleet.listed(ANN)) == (4, b"later")
    assert "show_last" not in fleet.reads


@pytest.mark.parametrize("kind", KINDS)
async def test_a_copy_that_is_late_shows_nothing_that_is_gone(fleet: Fleet, kind: ChatType) -> None:
    """Delivery still holds the message when it is redacted, and writes the copy then."""
    state = await fleet.chat(kind)
    sent = message(BOB, "secret")
    await append(fleet.writer, state, sent)
    await append(fleet.writer, state, redacted(2, by=BOB))
    await fleet.deliver(state, sent)
    row = await fleet.listed(ANN)
    assert shown(row) == (2, None)
    assert all("preview" not in item for item in await fleet.copies(state))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_in_an_old_copy_goes_too(fleet: Fleet, kind: ChatType) -> None:
    """The log has a later message, but no list shows it yet."""
    state = await fleet.chat(kind, message(BOB, "secret"))
    later = message(BOB, "later")
    await append(fleet.writer, state, later)
    await append(fleet.writer, state, redacted(2, by=BOB))
    assert all("preview" not in item for item in await fleet.copies(state))
    await fleet.deliver(state, later)
    assert shown(await fleet.listed(ANN)) == (3, b"later")
    assert "show_last" not in fleet.reads


@pytest.mark.parametrize("kind", KINDS)
async def test_a_reaction_leaves_the_copy_as_it_is(fleet: Fleet, kind: ChatType) -> None:
    state = await fleet.chat(kind, message(BOB, "funny"))
    smile = reacted(2, "x")
    await append(fleet.writer, state, smile)
    await fleet.deliver(state, smile)
    row = await fleet.listed(ANN)
    assert (row.head.sequence, shown(row)) == (3, (2, b"funny"))
    assert "show_last" not in fleet.reads


@pytest.mark.parametrize("kind", KINDS)
async def test_a_copy_of_another_message_does_not_stay(fleet: Fleet, kind: ChatType) -> None:
    """A message between the copied one and the head was never delivered."""
    state = await fleet.chat(kind, message(BOB, "copied"))
    await append(fleet.writer, state, message(BOB, "lost"))
    smile = reacted(3, "x")
    await append(fleet.writer, state, smile)
    await fleet.deliver(state, smile)
    assert all("preview" not in item for item in await fleet.copies(state))
    assert shown(await fleet.listed(ANN)) == (3, b"lost")


@pytest.mark.parametrize("kind", KINDS)
async def test_long_and_expiring_messages_are_not_copied(fleet: Fleet, kind: ChatType) -> None:
    state = await fleet.chat(kind, message(BOB, "short"))
    for sent in (
        message(BOB, "x" * (PREVIEW_BOX_BYTES_MAX + 1)),
        message(BOB, "for a while", expires_at=NOW + 1),
    ):
        await append(fleet.writer, state, sent)
        await fleet.deliver(state, sent)
        assert all("preview" not in item for item in await fleet.copies(state))
        assert shown(await fleet.listed(ANN)) == (sent.sequence, sent.box)
    longest = message(BOB, "x" * PREVIEW_BOX_BYTES_MAX)
    await append(fleet.writer, state, longest)
    await fleet.deliver(state, longest)
    assert all("preview" in item for item in await fleet.copies(state))


@pytest.mark.parametrize(
    ("kind", "others", "length"),
    [("direct", 1, 1), ("direct", 1, 64), ("group", 10, 1), ("group", 10, 36)],
)
async def test_no_copy_makes_a_write_cost_more(
    fleet: Fleet, kind: ChatType, others: int, length: int
) -> None:
    users = [user_key("acme", f"{number:x}" * length) for number in range(others + 1)]
    state = await a_chat(fleet.writer, *users, kind=kind)
    async with fleet.another() as store:
        for size in (100, PREVIEW_BOX_BYTES_MAX):
            sent = message(users[0], "x" * size, cmid=f"{size:064}")
            await append(store, state, sent)
            fleet.used.clear()
            await store.deliveries.advance(state.chat_id, head_of(sent), sent)
            assert {usage.write_units for usage in fleet.used} <= {0, 1}


async def test_no_copy_of_a_deleted_chat_is_left(fleet: Fleet) -> None:
    state = await fleet.chat("group", message(BOB, "secret"))
    await append(fleet.writer, state, deleted())
    job = await fleet.writer.deletions.lease(state.chat_id, "me", NOW)
    while job is not None and job.phase != "members_removed":
        job = await fleet.writer.deletions.step(job, "me", NOW)
    (item,) = await fleet.copies(state)
    assert "preview" not in item
    (reached,) = (await fleet.writer.deliveries.reached([state.chat_id])).values()
    assert reached > 10**9, "nobody has to deliver it"


async def test_a_late_copy_brings_nothing_back_into_a_deleted_chat(fleet: Fleet) -> None:
    state = await fleet.chat("group")
    sent, end = message(BOB, "secret"), deleted()
    await append(fleet.writer, state, sent)
    await append(fleet.writer, state, end)
    job = await fleet.writer.deletions.lease(state.chat_id, "me", NOW)
    while job is not None and job.phase != "done":
        job = await fleet.writer.deletions.step(job, "me", NOW)
    await fleet.deliver(state, sent)
    await fleet.deliver(state, sent, end)
    (item,) = await fleet.copies(state)
    assert (item["sequence"], "preview" in item) == (3, False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_copy_from_before_a_restore_is_not_taken_over(fleet: Fleet, kind: ChatType) -> None:
    """The item was restored to a moment before the redaction, the log to one after it."""
    state = await fleet.chat(kind, message(BOB, "secret"))
    before = await fleet.copies(state)
    gone = redacted(2, by=BOB)
    await append(fleet.writer, state, gone)
    table = "chats" if kind == "group" else "delivery_state"
    await fleet.dynamo.batch_write(
        Pattern("restore", "BatchWriteItem", (table,), "a test"), puts=before
    )
    await fleet.dynamo.put(KEEP_VALUE, {**EPOCH, "value": "another epoch", "writes": NEWEST})
    async with fleet.another() as store:
        await store.deliveries.advance(state.chat_id, head_of(gone), None)
    row = await fleet.listed(ANN)
    assert (row.head.sequence, shown(row)) == (3, (2, None))


# The last message is in a pack.


@pytest.mark.parametrize("kind", KINDS)
async def test_the_last_of_a_pack_is_copied_and_all_of_them_are_counted(
    fleet: Fleet, kind: ChatType
) -> None:
    pack = [message(BOB, text) for text in ("one", "two", "three")]
    state = await fleet.chat(kind, message(BOB, "before"))
    await append(fleet.writer, state, *pack)
    late = await fleet.listed(ANN)
    assert (shown(late), late.unread.count) == ((5, b"three"), 4), "the log goes on"
    await fleet.deliver(state, *pack)
    row = await fleet.listed(ANN)
    assert (shown(row), row.unread.count, row.head) == ((5, b"three"), 4, late.head)
    assert "show_last" not in fleet.reads
    assert all("preview" in item for item in await fleet.copies(state))
    await fleet.writer.receipts.advance(Move(ANN, state.chat_id, read=4))
    row = await fleet.listed(ANN)
    assert (shown(row), row.unread.count) == ((5, b"three"), 1), "the read mark is in the pack"
    counted = [usage for usage in fleet.used if usage.pattern.name == "count_unread"]
    assert len(counted) == 1, "the end was seen at once"
    found = await fleet.writer.log.message(state.chat_id, ANN, 4)
    assert found is not None and [entry.box for entry in found.entries] == [b"two"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_changed_in_a_pack_is_in_no_copy(fleet: Fleet, kind: ChatType) -> None:
    pack = [message(BOB, text) for text in ("one", "two", "secret")]
    state = await fleet.chat(kind)
    await append(fleet.writer, state, *pack)
    await fleet.deliver(state, *pack)
    await append(fleet.writer, state, edited(4, "changed", by=BOB))
    assert shown(await fleet.listed(ANN)) == (4, b"changed")
    await append(fleet.writer, state, redacted(4, by=BOB))
    row = await fleet.listed(ANN)
    assert (shown(row), row.unread.count) == ((4, None), 2)
    await fleet.deliver(state, *pack)
    assert shown(await fleet.listed(ANN)) == (4, None), "delivery is late"
    assert all("preview" not in item for item in await fleet.copies(state))


async def test_an_own_mark_within_a_pack_writes_no_head(fleet: Fleet) -> None:
    """The relay knows only where a pack begins: its end may not be delivered."""
    state = await fleet.chat("direct")
    pack = [message(ANN, "mine"), message(BOB, "yours"), message(BOB, "and mine")]
    await append(fleet.writer, state, *pack)
    bus = InProcessBus()
    receipts = CoalescedReceipts(fleet.writer.receipts, bus)
    for entry in pack:
        bus.publish(Appended(entry, state))
    await receipts.close()
    found = await fleet.writer.receipts.find(ANN, state.chat_id, 1)
    assert found is not None and found.receipt.read == 2
    assert [item["sequence"] for item in await fleet.copies(state)] == [1, 1]
    await fleet.deliver(state, *pack)
    assert [item["sequence"] for item in await fleet.copies(state)] == [4, 4]
