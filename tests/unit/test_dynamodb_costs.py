# SPDX-License-Identifier: Apache-2.0
"""What things cost, in the units DynamoDB bills: the figures the documentation gives."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import pytest

from tests.contract.builders import (
    a_chat,
    added,
    append,
    edited,
    key,
    message,
    new_chat_id,
    reacted,
    redacted,
    removed,
    renamed,
)
from tests.support.clock import NOW
from tests.support.dynamo_tables import open_tables
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB, CAT, DAN
from tidings.model.chats import ChatState, Move
from tidings.model.entries import Entry
from tidings.model.ids import user_key
from tidings.ports.log import Kept
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.chat.head_patterns import ADVANCE_HEAD
from tidings.stores.dynamodb.chat.items import entry_item
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.store import DynamoStore

T = TypeVar("T")


class Meter:
    """Adds up what requests use. Head copies are apart: they are written after the answer."""

    def __init__(self) -> None:
        self.used: list[Usage] = []

    def __call__(self, usage: Usage) -> None:
        self.used.append(usage)

    async def units(self, work: Awaitable[T]) -> tuple[float, float]:
        """Write units and read units to the answer."""
        self.used.clear()
        await work
        return (
            sum(usage.write_units for usage in self.asked),
            sum(usage.read_units for usage in self.asked),
        )

    @property
    def asked(self) -> list[Usage]:
        """All but the head copies."""
        return [usage for usage in self.used if usage.pattern is not ADVANCE_HEAD]


@pytest.fixture
def meter() -> Meter:
    return Meter()


@pytest.fixture
async def store(dynamodb_endpoint: str, meter: Meter) -> AsyncIterator[DynamoStore]:
    async with (
        spare_tables(dynamodb_endpoint) as prefix,
        open_tables(dynamodb_endpoint, prefix, record=meter) as opened,
    ):
        yield opened


async def send(store: DynamoStore, state: ChatState, sent: Entry) -> None:
    assert await append(store, state, sent, keys=[key(sent)]) == Kept()


async def test_a_send_is_two_units_and_no_read(store: DynamoStore, meter: Meter) -> None:
    state = await a_chat(store, ANN, BOB)
    assert await meter.units(send(store, state, message(ANN))) == (2, 0)

    later = message(ANN, expires_at=NOW + 9)
    assert await meter.units(send(store, state, later)) == (3, 0)


def test_a_text_of_750_bytes_is_one_unit() -> None:
    """The size is computed as DynamoDB does: names and values, a number two digits a byte."""
    sent = Entry(
        chat_id=new_chat_id(),
        kind="message",
        sender=user_key("some-tenant", "01HZX3Q7Y8B9C0D1E2F3G4H5J6"),
        sequence=1_234_567,
        created_at=NOW + 1,
        number=1_234_000,
        mark="0123456789abcdef" + "fffff",
        client_message_id="123e4567-e89b-12d3-a456-426614174000",
        content_type="text/plain",
        box=bytes(12 + 750 + 16),
        box_key=1,
    )
    size = 0
    for name, value in entry_item(sent).items():
        is_number = isinstance(value, int)
        size += len(name) + (2 + len(str(value)) // 2 if is_number else len(value))
    assert size <= 1_024


async def test_changes_of_a_message(store: DynamoStore, meter: Meter) -> None:
    state = await a_chat(store, ANN, BOB)
    await send(store, state, message(ANN))
    assert await meter.units(append(store, state, edited(2, "new"))) == (5, 1)
    assert await meter.units(append(store, state, reacted(2, "x"))) == (6, 1)
    assert await meter.units(append(store, state, redacted(2))) == (5, 1)


async def test_changes_of_a_chat(store: DynamoStore, meter: Meter) -> None:
    state = await a_chat(store, ANN, BOB)
    assert await meter.units(append(store, state, added(CAT))) == (10, 1)
    assert await meter.units(append(store, state, removed(CAT))) == (10, 1)
    assert await meter.units(append(store, state, renamed("Other"))) == (4, 0)


async def test_receipts(store: DynamoStore, meter: Meter) -> None:
    state = await a_chat(store, ANN, BOB)
    for _ in range(3):
        await send(store, state, message(ANN))
    read = [Move(BOB, state.chat_id, read=3)]
    assert await meter.units(store.receipts.move(read)) == (1, 1)
    to_the_end = [Move(BOB, state.chat_id, read=4)]
    assert await meter.units(store.receipts.move(to_the_end)) == (1, 0)
    received = [Move(ANN, state.chat_id, delivered=3)]
    assert await meter.units(store.receipts.move(received)) == (1, 0)
    assert await meter.units(store.receipts.advance(Move(ANN, state.chat_id, read=4))) == (1, 1)


async def test_a_page_of_history(store: DynamoStore, meter: Meter) -> None:
    state = await a_chat(store, ANN, BOB, CAT)
    for _ in range(60):
        await append(store, state, message(ANN, "x" * 200))
    latest = store.log.page(state.chat_id, BOB, before=10**9, limit=50, only_messages=True)

    assert (await meter.units(latest))[0] == 0
    entries, *others = sorted(meter.asked, key=lambda usage: -usage.read_units)
    assert entries.pattern is patterns.READ_LOG
    assert {usage.pattern.name: usage.read_units for usage in others} == {
        "check_member": 1,
        "show_chat": 0.5,
        "show_receipts": 1.5,
    }


async def test_the_chat_list_and_hello(store: DynamoStore, meter: Meter) -> None:
    for _ in range(50):
        state = await a_chat(store, DAN, BOB)
        await send(store, state, message(DAN))
        await store.receipts.move([Move(DAN, state.chat_id, read=2)])
    for state_of in [held.chat_id for held in await store.chats.list_heads(DAN)]:
        await store.heads.settled(state_of)

    listing = store.chats.listing(DAN, below=None, limit=50, now=NOW)
    assert (await meter.units(listing))[1] <= 28
    writes, reads = await meter.units(store.chats.list_heads(DAN))
    assert (writes, reads <= 52) == (0, True)


async def test_the_head_copy_of_a_busy_chat_costs_a_unit_a_second(
    store: DynamoStore, meter: Meter
) -> None:
    state = await a_chat(store, ANN, BOB)
    await store.heads.settled(state.chat_id)
    meter.used.clear()
    began = asyncio.get_running_loop().time()
    for _ in range(20):
        await send(store, state, message(ANN))
    seconds = asyncio.get_running_loop().time() - began
    copies = [usage for usage in meter.used if usage.pattern is ADVANCE_HEAD]
    assert sum(usage.write_units for usage in copies) <= 1 + seconds
