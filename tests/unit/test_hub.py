# SPDX-License-Identifier: Apache-2.0
"""The hub: who is connected, who is told of it, and the tick for all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.users import ANN, BOB
from tests.unit.fake_connection import FakeConnection
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.gateway import hub as hub_module
from tidings.gateway.hub import Hub


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


class Ticking(FakeConnection):
    """A connection that counts ticks, and may be broken."""

    ticks = 0
    is_broken = False

    def tick(self) -> None:
        self.ticks += 1
        self._notify()
        if self.is_broken:
            raise RuntimeError("broken")


def a_line(bench: GatewayBench) -> Ticking:
    return Ticking(bench.context, 10)


async def test_the_hub_knows_what_waits_to_be_sent(bench: GatewayBench) -> None:
    hub = Hub()
    lines = [a_line(bench) for _ in range(3)]
    for line, pending in zip(lines, (0, 30, 12), strict=True):
        line.pending_bytes = pending
        hub.opened(line)
    hub.enter(ANN, lines[0])
    lines[0].conversation.is_by_heads = True
    for line in lines[:2]:
        line.conversation.is_away = True
    assert hub.depths() == {
        "connections": 3,
        "users": 1,
        "away": 2,
        "by_heads": 1,
        "behind": 2,
        "pending_bytes": 42,
        "pending_bytes_most": 30,
    }
    hub.close()


async def test_a_user_comes_with_the_first_connection_and_goes_with_the_last(
    bench: GatewayBench,
) -> None:
    hub, told = Hub(), list[tuple[str, bool]]()
    hub.watch(lambda user, is_online: told.append((user, is_online)))
    first, second, other = a_line(bench), a_line(bench), a_line(bench)
    for line, user in ((first, ANN), (second, ANN), (other, BOB)):
        hub.opened(line)
        assert hub.enter(user, line)
    assert hub.of(ANN) == (first, second)
    assert hub.online([ANN, BOB]) == {ANN, BOB}

    hub.closed(first, ANN)
    hub.closed(first, ANN)
    hub.closed(other, BOB)
    assert (hub.of(ANN), hub.of(BOB), hub.online([ANN, BOB])) == ((second,), (), {ANN})
    hub.closed(second, ANN)
    hub.closed(second, ANN)
    assert told == [(ANN, True), (BOB, True), (BOB, False), (ANN, False)]
    assert len(hub) == 0
    hub.close()


async def test_one_broken_connection_does_not_stop_the_clock(
    bench: GatewayBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "TICK_SECONDS", 0.01)
    trouble: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: trouble.append(found))
    hub, broken = Hub(), a_line(bench)
    broken.is_broken = True
    hub.opened(broken)
    await broken.until(lambda: broken.ticks >= 3)
    hub.closed(broken, None)
    hub.close()
    assert len(trouble) >= 2


async def test_waiting_for_the_last_one_to_go(bench: GatewayBench) -> None:
    hub, line = Hub(), a_line(bench)
    await hub.emptied(10)
    hub.opened(line)
    waiting = asyncio.create_task(hub.emptied(10))
    await asyncio.sleep(0)
    assert not waiting.done()
    hub.closed(line, None)
    await waiting
    hub.close()
