# SPDX-License-Identifier: Apache-2.0
"""A connection that falls behind: the window, the socket that does not drain, and catching up."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.users import ANN, BOB
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.gateway.progress import KEPT_MAX
from tidings.model import limits
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.log import Page
from tidings.wire.codes import Close


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


async def test_a_full_window_holds_entries_back_and_nothing_else(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line(window=5).live(BOB, have={chat: 1})
    await bench.post(ANN, chat, 12)
    line.say("send", id="1", chat=chat, client_message_id="x", content="hi")
    await line.until(lambda: line.of("sent"))
    assert line.sequences(chat) == [2, 3, 4, 5, 6]

    line.say("received", chat=chat, sequence=4)
    await line.until_entries(chat, 8)
    assert line.sequences(chat) == list(range(2, 10))
    line.say("received", chat=chat, sequence=9)
    await line.until_entries(chat, 13)
    assert line.sequences(chat) == list(range(2, 15))


async def test_a_window_left_full_for_too_long_is_a_stall(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line(window=2).live(BOB, have={chat: 1})
    longest = limits.WINDOW_STALLED_MS_MAX
    await bench.post(ANN, chat, 2)
    line.time = 10 * longest
    assert not line.stream.is_stalled(line.time), "nothing waits yet"

    await bench.post(ANN, chat, 4)
    witness = await bench.line().live(ANN)
    await witness.until_entries(chat, 7)
    assert not line.stream.is_stalled(line.time + longest)
    assert line.stream.is_stalled(line.time + longest + 1)

    line.time += longest
    line.say("received", chat=chat, sequence=2)
    await line.until_entries(chat, 3)
    assert line.progress.is_window_full
    assert not line.stream.is_stalled(line.time + longest), "one more was taken"


async def test_who_has_more_than_it_was_sent_makes_room(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line(window=5).live(BOB, have={chat: 1})
    await bench.post(ANN, chat, 12)
    assert line.progress.is_window_full
    line.say("received", chat=chat, sequence=13)

    await line.until_entries(chat, 10)
    assert line.sequences(chat)[:10] == list(range(2, 12))
    assert line.of("refused") == []


async def test_a_socket_that_does_not_drain_gets_the_rest_later(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    line = await bench.line().live(BOB, have={chat: 1})
    await bench.post(ANN, chat, 2)
    line.pause()
    await bench.post(ANN, chat, 150)
    assert line.sequences(chat) == [2, 3]
    line.resume()
    await bench.post(ANN, chat, 2)

    await line.until_entries(chat, 154)
    assert line.sequences(chat) == list(range(2, 156))


async def test_what_comes_while_a_page_is_read_needs_no_other_page(bench: GatewayBench) -> None:
    line, chat, reads = await behind_while_posting(bench, 3)
    assert line.sequences(chat) == list(range(2, 10))
    assert reads == 1


async def test_more_than_is_kept_while_a_page_is_read_is_read_as_well(bench: GatewayBench) -> None:
    line, chat, reads = await behind_while_posting(bench, KEPT_MAX + 1)
    assert line.sequences(chat) == list(range(2, 7 + KEPT_MAX + 1))
    assert reads == 2


async def test_entries_that_come_twice_and_in_any_order_while_a_page_is_read_need_no_other_page(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    async def post(chat: ChatId) -> None:
        nonlocal reads
        reads += 1
        offers: list[Callable[[], None]] = []
        deliver = line.deliver
        monkeypatch.setattr(
            line, "deliver", lambda *a, **k: offers.append(partial(deliver, *a, **k))
        )
        await bench.post(ANN, chat, KEPT_MAX)
        monkeypatch.undo()
        for offer in [*reversed(offers), *offers]:
            offer()

    line, chat = await behind(bench, post)
    await line.until_entries(chat, 5 + KEPT_MAX)
    assert line.sequences(chat) == list(range(2, 7 + KEPT_MAX))
    assert reads == 1


async def test_who_is_removed_while_a_page_is_read_gets_nothing_after_it(
    bench: GatewayBench,
) -> None:
    async def go(chat: ChatId) -> None:
        await bench.post(ANN, chat, 1)
        await bench.core.verbs.remove_member(ANN, chat, BOB)
        await bench.post(ANN, chat, 2)

    line, chat = await behind(bench, go)
    await line.until(lambda: line.of("gone"))
    assert line.sequences(chat) == list(range(2, 7))


async def behind_while_posting(
    bench: GatewayBench, count: int
) -> tuple[FakeConnection, ChatId, int]:
    """Fall behind by five, and have so many more come while they are read; how often it was."""
    reads = 0

    async def post(chat: ChatId) -> None:
        nonlocal reads
        reads += 1
        if reads == 1:
            await bench.post(ANN, chat, count)

    line, chat = await behind(bench, post)
    await line.until_entries(chat, 5 + count)
    return line, chat, reads


async def behind(
    bench: GatewayBench, after_a_read: Callable[[ChatId], Awaitable[None]]
) -> tuple[FakeConnection, ChatId]:
    """A line that fell behind by five entries; something happens before what was read is there."""

    async def around(read: Callable[[], Awaitable[Page]]) -> Page:
        page = await read()
        await after_a_read(chat)
        return page

    chat = await bench.group(ANN, BOB)
    line = await bench.line(context=bench.desk_with_reads(around)).live(BOB, have={chat: 1})
    line.pause()
    await bench.post(ANN, chat, 5)
    line.resume()
    return line, chat


async def test_what_is_missing_and_cannot_be_read_is_not_passed_over(bench: GatewayBench) -> None:
    async def fail(_chat: ChatId) -> None:
        raise StoreUnavailable

    line, chat = await behind(bench, fail)
    await line.until(lambda: line.closes)
    assert line.closes == [Close.OVERLOADED]
    assert line.sequences(chat) == []


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_a_client_gets_everything_in_order(
    bench: GatewayBench, seed: int
) -> None:
    chance = random.Random(seed)
    chats = [await bench.group(ANN, BOB) for _ in range(3)]
    await bench.post(ANN, chats[0], chance.randrange(30))
    line = bench.line(window=chance.randrange(1, 10))
    line.say("hello", token=BOB, device="phone")
    for _ in range(150):
        chat = chance.choice(chats)
        match chance.randrange(5):
            case 0 | 1:
                await bench.post(chance.choice([ANN, BOB]), chat, chance.randrange(1, 4))
            case 2:
                line.pause()
            case 3:
                line.resume()
            case _:
                acknowledge(line)
    line.resume()
    heads = {chat: await head_of(bench, chat) for chat in chats}
    while any(len(line.sequences(chat)) < head for chat, head in heads.items()):
        heard = len(line.frames)
        acknowledge(line)
        if any(len(line.sequences(chat)) < head for chat, head in heads.items()):
            await line.until(lambda: len(line.frames) > heard)  # noqa: B023 - awaited right here

    for chat, head in heads.items():
        assert line.sequences(chat) == list(range(1, head + 1))


def acknowledge(line: FakeConnection) -> None:
    """Say `received` for all that came."""
    last = {told["chat"]: told["sequence"] for told in line.of("entry")}
    for chat, sequence in last.items():
        line.say("received", chat=chat, sequence=sequence)


async def head_of(bench: GatewayBench, chat: str) -> int:
    return next(
        row.head.sequence for row in await bench.context.chats_of(BOB) if row.chat_id == chat
    )
