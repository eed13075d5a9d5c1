# SPDX-License-Identifier: Apache-2.0
"""Idle sockets with much to deliver: what waits for them stays on disk, not in memory."""

import asyncio
from typing import Final

import pytest

from tests.attacks.test_socket import MIB, memory_of
from tests.integration.engines import no_limits as no_limits
from tests.integration.raw_socket import RawSocket
from tests.integration.socket_town import friends, until_entries
from tests.support.canary import canary
from tests.support.people import Town
from tests.support.server import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOCKETS: Final = 60
MESSAGES: Final = 600
LARGE: Final = canary("x" * 4_000)
WAITING: Final = SOCKETS * MESSAGES * len(LARGE)
"""What memory would have to hold if it held it all, a hundred and forty million bytes."""


@pytest.mark.attack("F09")
async def test_what_waits_for_sockets_that_do_not_read_is_not_held_in_memory(
    town: Town, server: ServerProcess
) -> None:
    names = [f"idle-{number}" for number in range(SOCKETS)]
    chat, (writer, witness, *idle) = await friends(town, "writer", "witness", *names)
    begun = len(await writer.log(chat))
    stuck = [
        await RawSocket.greeted(server.port, one.token, "stuck", receive_bytes=4_096)
        for one in idle
    ]
    for one in stuck:
        one.stop_reading()
    async with writer.device() as writing, witness.device() as watching:
        await until_entries(watching, chat, begun)
        before = memory_of(server)
        for _ in range(MESSAGES // 50):
            async with asyncio.TaskGroup() as group:
                for _ in range(50):
                    group.create_task(writing.send(chat, LARGE))
        await until_entries(watching, chat, begun + MESSAGES)
        grown = memory_of(server) - before
    assert WAITING > 140 * 10**6
    assert grown < 50 * MIB, f"{grown / MIB:.0f} MiB"
    for one in stuck:
        one.abort()
    assert len(await idle[0].log(chat)) == begun + MESSAGES, "it is all there for who comes back"
