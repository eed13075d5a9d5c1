# SPDX-License-Identifier: Apache-2.0
"""Large frames among small ones: each arrives whole, whatever is written right after it."""

import pytest

from tests.integration.raw_socket import RawSocket
from tests.integration.socket_town import friends, settled
from tests.support.people import Town
from tests.support.server import ServerProcess
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGEST = "\u0001" * limits.CONTENT_BYTES_MAX
"""Six characters of JSON for each: about 24 KiB in a frame."""
MESSAGES = 30


async def test_large_entries_and_small_ones_to_a_client_that_reads_late(
    town: Town, server: ServerProcess
) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    contents = [LARGEST if number % 3 == 0 else f"small {number}" for number in range(MESSAGES)]
    for number, content in enumerate(contents):
        await ann.send(chat, content, client_message_id=f"m{number}")
    async with (
        ann.device() as witness,
        await RawSocket.upgraded(server.port, receive_bytes=4_096) as slow,
    ):
        slow.stop_reading()
        slow.tell({"op": "hello", "token": bob.token, "device": "slow"})
        for _ in range(200):
            await settled(witness)
        slow.read_on()
        got = [(await slow.frame("entry")).get("content") for _ in range(MESSAGES + 1)]
    assert got == [None, *contents]
