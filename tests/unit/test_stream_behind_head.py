# SPDX-License-Identifier: Apache-2.0
"""Hello while the head that is read is behind the log: what was handed out is still held."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.users import ANN, BOB
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.model.chats import ChatHead
from tidings.model.ids import ChatId, UserKey


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


async def greeted(bench: GatewayBench, chat: ChatId, *, head: int, have: int) -> FakeConnection:
    """A line that is live, where the head was read as if nothing after it was delivered yet."""

    async def held(user: UserKey) -> list[ChatHead]:
        rows = await bench.context.chats_of(user)
        copy = msgspec.structs.replace
        return [copy(row, head=copy(row.head, sequence=head)) for row in rows]

    line = bench.line(context=replace(bench.context, chats_of=held))
    line.say("hello", token=ANN, device="phone", have={chat: have})
    await line.until(lambda: line.of("live"))
    return line


async def test_a_device_that_has_more_than_the_head_tells_goes_on(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(BOB, chat, 3)
    line = await greeted(bench, chat, head=2, have=4)
    assert (line.of("resync"), line.of("entry")) == ([], [])
    await bench.post(BOB, chat)
    await line.until(lambda: line.of("entry"))
    assert [entry["sequence"] for entry in line.of("entry")] == [5]


async def test_a_device_that_has_more_than_the_log_starts_over(bench: GatewayBench) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.post(BOB, chat, 3)
    line = await greeted(bench, chat, head=2, have=5)
    assert [told["head"] for told in line.of("resync")] == [2]
