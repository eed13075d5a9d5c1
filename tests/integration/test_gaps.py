# SPDX-License-Identifier: Apache-2.0
"""Entries that come to a gateway out of order: waited for, and read from the log if need be."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.integration.gateways import GAP_SECONDS, Gateway, Gateways, some_gateways
from tests.support.users import ANN, BOB
from tidings.model.ids import ChatId
from tidings.ports.log import Page
from tidings.wire.codes import Close


@pytest.fixture
async def gateways(tmp_path: Path, redis_url: str) -> AsyncIterator[Gateways]:
    async with some_gateways(tmp_path / "data", redis_url) as opened:
        yield opened


class _Bob:
    """A user with a live line, to which a worker hands entries of one chat."""

    def __init__(self, gateways: Gateways, chat: ChatId) -> None:
        self.chat = chat
        self.reads = 0
        """How often the log was read."""
        self._parcels = gateways.post.encoded_entries
        self._verbs = gateways.bench.desk_with_reads(self._count).verbs

    async def _count(self, read: Callable[[], Awaitable[Page]]) -> Page:
        self.reads += 1
        return await read()

    async def live(self, gateway: Gateway) -> None:
        self.line = await gateway.line(replace(gateway.context, verbs=self._verbs)).live(BOB)
        self.reads = 0

    def handed(self, *sequences: int, chat: ChatId | None = None) -> None:
        places = {(encoded.chat_id, encoded.sequence): encoded for encoded, _ in self._parcels}
        for sequence in sequences:
            encoded = places[chat or self.chat, sequence]
            self.line.deliver(encoded, encoded.frame, is_small=True)

    def sequences(self) -> list[int]:
        return self.line.sequences(self.chat)


async def _bob_in_a_chat_of(entries: int, gateways: Gateways) -> _Bob:
    """Live before all of them but the first were written, and handed none of those yet."""
    chat = await gateways.bench.group(ANN, BOB)
    bob = _Bob(gateways, chat)
    await bob.live(await gateways.open("g1"))
    await gateways.bench.post(ANN, chat, entries - 1)
    return bob


async def _gap_is_over() -> None:
    """Timers fire in the order they are due: the one that would read the log comes first."""
    gap_is_over = asyncio.Event()
    asyncio.get_running_loop().call_later(GAP_SECONDS, gap_is_over.set)
    await gap_is_over.wait()


async def test_entries_out_of_order_are_sent_in_order_without_a_look_at_the_log(
    gateways: Gateways,
) -> None:
    bob = await _bob_in_a_chat_of(6, gateways)
    bob.handed(3)  # one's own gateway was faster than the worker
    assert bob.sequences() == [1]
    bob.handed(2, 3)
    assert bob.sequences() == [1, 2, 3]
    await _gap_is_over()
    assert bob.reads == 0


async def test_in_a_busy_chat_where_something_is_always_missing_the_log_is_not_read(
    gateways: Gateways,
) -> None:
    bob = await _bob_in_a_chat_of(6, gateways)
    bob.handed(3)
    bob.handed(2, 3, 5)  # what was missing has come; something else is missing
    await _gap_is_over()
    assert bob.reads == 0
    assert bob.sequences() == [1, 2, 3]
    bob.handed(4, 5, 6)
    await _gap_is_over()
    assert bob.reads == 0
    assert bob.sequences() == [1, 2, 3, 4, 5, 6]


async def test_what_stays_missing_in_a_busy_chat_is_read_from_the_log(gateways: Gateways) -> None:
    bob = await _bob_in_a_chat_of(6, gateways)
    bob.handed(3, 2, 3, 5)
    assert bob.sequences() == [1, 2, 3]
    await bob.line.until_entries(bob.chat, 6)
    assert bob.sequences() == [1, 2, 3, 4, 5, 6]


async def test_a_gap_in_another_chat_has_its_own_time(gateways: Gateways) -> None:
    bob = await _bob_in_a_chat_of(4, gateways)
    other = await gateways.bench.group(ANN, BOB)
    bob.handed(1, chat=other)
    await bob.line.until_entries(other, 1)
    await gateways.bench.post(ANN, other, 3)
    bob.handed(3)
    bob.reads = 0
    bob.handed(3, chat=other)  # misses something while the other chat does, too
    bob.handed(2, 3)
    await _gap_is_over()
    assert bob.reads == 0
    await bob.line.until_entries(other, 4)
    assert bob.line.sequences(other) == [1, 2, 3, 4]
    assert bob.sequences() == [1, 2, 3]


async def test_a_gap_of_a_connection_that_closes_is_forgotten(gateways: Gateways) -> None:
    bob = await _bob_in_a_chat_of(4, gateways)
    bob.handed(3)
    bob.line.close(Close.RESTARTING)
    await _gap_is_over()
    await _gap_is_over()
    assert bob.reads == 0
    assert bob.sequences() == [1]


async def test_an_entry_that_does_not_come_in_time_is_read_from_the_log(
    gateways: Gateways,
) -> None:
    bob = await _bob_in_a_chat_of(3, gateways)
    bob.handed(3)
    await bob.line.until_entries(bob.chat, 3)
    assert bob.sequences() == [1, 2, 3]
    assert bob.reads == 1
