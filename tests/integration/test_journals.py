# SPDX-License-Identifier: Apache-2.0
"""What one gateway knows of a delivery, another finds out through Redis."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.gateways import Gateways, some_gateways
from tests.support.services import RedisServer
from tests.support.users import ANN, BOB
from tidings.gateway.tracing import ClusterTraces
from tidings.ports.traces import FoundTraces, TraceQuestion


@pytest.fixture
async def gateways(tmp_path: Path, redis_url: str) -> AsyncIterator[Gateways]:
    async with some_gateways(tmp_path / "data", redis_url) as made:
        yield made


def known(found: FoundTraces) -> dict[str, tuple[list[str | None], list[str]]]:
    """How far the message has come on each gateway, and the steps that it knows."""
    return {
        one.gateway: (
            [connection.progress for connection in one.connections],
            [step.step for step in one.steps],
        )
        for one in found.gateways
    }


async def test_the_gateway_with_the_connection_is_asked_and_later_all(gateways: Gateways) -> None:
    one, two = [await gateways.open(name) for name in ("g1", "g2")]
    chat = await gateways.bench.group(ANN, BOB)
    line = await two.line().live(BOB)
    await gateways.bench.post(ANN, chat)
    await gateways.post.hand(two)
    await line.until_entries(chat, 2)
    question = TraceQuestion(BOB, chat, 2)
    outside = ClusterTraces(one.registry, one.handover, None)
    steps = ["handed_to_gateway"]
    for traces, beside in ((one.traces, {"g1": ([], [])}), (two.traces, {}), (outside, {})):
        found = await traces.find(question)
        assert (found.is_certain, known(found)) == (True, {**beside, "g2": (["written"], steps)})
    await line.hang_up()
    await two.registry.close()
    found = await outside.find(question)
    gone = ([], [*steps, "unconfirmed", "disconnected"])
    assert (found.is_certain, known(found)) == (True, {"g1": ([], []), "g2": gone})


async def test_nothing_is_certain_if_a_gateway_or_redis_does_not_answer(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    async with some_gateways(tmp_path / "data", own_redis.address) as gateways:
        one, two = [await gateways.open(name) for name in ("g1", "g2")]
        await two.line().live(BOB)
        await two.mailbox.close()
        question = TraceQuestion(BOB)
        found = await one.traces.find(question)
        assert (found.is_certain, known(found)) == (False, {"g1": ([], [])})
        await asyncio.to_thread(own_redis.stop)
        found = await one.traces.find(question)
        assert (found.is_certain, known(found)) == (False, {"g1": ([], [])})
