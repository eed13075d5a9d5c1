# SPDX-License-Identifier: Apache-2.0
"""One attacks, another tenant goes on: its sockets stay, it is answered, and memory comes back.

How fast it is answered is for `python -m bench neighbours` to say, which runs the same attacks at
full size.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bench.neighbours.ground import Ground
from bench.neighbours.running import ATTACKS, GROWTH_BYTES_MAX, Attack, measure, neighbours
from bench.server import Target
from tests.integration.socket_town import troubles
from tests.support.server import ServerProcess

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.attack("S01", "S02", "S03", "S04", "S08", "S09", "S10", "S15", "S16", "D21"),
]

SECONDS = 0.0
"""Each attack is made once: how often it could be repeated in a time is the machine's to say."""
SIZE = 0.1
WHOLE = ("S01", "S02", "S16")
"""Attacks that are about memory: how much they take depends on their size, and on nothing else."""
NEIGHBOURS = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """One for all attacks: what one leaves behind, the next must not suffer from."""
    async with ServerProcess(tmp_path_factory.mktemp("server") / "data") as running:
        yield running
    assert troubles(running) == []


@pytest.mark.parametrize("attack", [make() for make in ATTACKS], ids=lambda one: one.title)
async def test_the_neighbours_are_left_alone(server: ServerProcess, attack: Attack) -> None:
    size = 1.0 if attack.id in WHOLE else SIZE
    target = Target(server.url, server.root_key, server.pid)
    async with neighbours(target, NEIGHBOURS) as quiet:
        verdict = await measure(attack, Ground(target, size), quiet, SECONDS)
    assert verdict.attacked.closed == 0, "a neighbour's socket was closed"
    assert verdict.attacked.unanswered == []
    assert verdict.attacked.messages_ms, "somebody was there to notice"
    assert verdict.growth_bytes < GROWTH_BYTES_MAX
    assert (verdict.not_prepared, verdict.back_seconds is None) == (None, False)
