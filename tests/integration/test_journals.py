# SPDX-License-Identifier: Apache-2.0
"""What one gateway knows of a delivery, another finds out through Redis."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.gateways import Gateways, some_gateways
from tests.support.services import RedisServer
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tidings.gateway.connection_states import RemoteConnections
from tidings.gateway.journals import ClusterJournals
from tidings.ports.journals import FoundJournals, JournalQuestion, TraceQuestion


@pytest.fixture
async def gateways(tmp_path: Path, redis_url: str) -> AsyncIterator[Gateways]:
    async with some_gateways(tmp_path / "data", redis_url) as made:
        yield made


Known = dict[str, tuple[list[str | None], list[str]]]


def known(found: FoundJournals) -> Known:
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
    question = JournalQuestion(BOB, chat, 2)
    outside = ClusterJournals(one.registry, one.handover, None)
    steps, nothing = ["handed_to_gateway"], Known(g1=([], []))
    cases = ((one.journals, nothing), (two.journals, Known()), (outside, Known()))
    for journals, beside in cases:
        found = await journals.find(question)
        assert (found.is_certain, known(found)) == (True, {**beside, "g2": (["written"], steps)})
    await line.hang_up()
    await two.registry.close()
    gone = Known(g2=([], [*steps, "unconfirmed", "disconnected"]))

    async def is_gone() -> bool:
        """On a busy machine the registration may expire, and be made once more before the end."""
        found = await outside.find(question)
        return (found.is_certain, known(found)) == (True, nothing | gone)

    await until(is_gone)


async def test_all_gateways_are_asked_for_a_trace(gateways: Gateways) -> None:
    one, two = [await gateways.open(name) for name in ("g1", "g2")]
    chat = await gateways.bench.group(ANN, BOB)
    line = await two.line().live(BOB)
    await gateways.bench.post(ANN, chat)
    await gateways.post.hand(two)
    await line.until_entries(chat, 2)
    question = TraceQuestion(after=0, until=gateways.bench.clock.time, user=BOB)
    outside = ClusterJournals(one.registry, one.handover, None)
    steps = ["connected", "written_to_socket", "written_to_socket"]
    for journals in (one.journals, two.journals, outside):
        found = {
            trace.gateway: sorted(step.what for step in trace.steps)
            for trace in await journals.trace(question)
        }
        assert found == {"g1": [], "g2": steps}


async def test_an_answer_of_another_version_is_left_out(gateways: Gateways) -> None:
    one, two = [await gateways.open(name) for name in ("g1", "g2")]
    await two.line().live(BOB)

    class Newer:
        """Gateways whose answers only a newer version understands."""

        async def ask(self, *_: object) -> dict[str, bytes]:
            return {"g2": b"\x93\x01\x02\x03"}

    found = await ClusterJournals(one.registry, Newer(), None).find(JournalQuestion(BOB))
    assert found == FoundJournals((), is_certain=False)
    assert await RemoteConnections(one.registry, Newer(), "g1").of(BOB) == ([], False)


async def test_nothing_is_certain_if_a_gateway_or_redis_does_not_answer(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    async with some_gateways(tmp_path / "data", own_redis.address) as gateways:
        one, two = [await gateways.open(name) for name in ("g1", "g2")]
        await two.line().live(BOB)
        await two.mailbox.close()
        question = JournalQuestion(BOB)
        found = await one.journals.find(question)
        assert (found.is_certain, known(found)) == (False, {"g1": ([], [])})
        await asyncio.to_thread(own_redis.stop)
        found = await one.journals.find(question)
        assert (found.is_certain, known(found)) == (False, {"g1": ([], [])})
