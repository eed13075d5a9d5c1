# SPDX-License-Identifier: Apache-2.0
"""WebSocket frames as they may and may not be: size, fragments, control frames, masks."""

import pytest

from tests.integration.raw_socket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    RawSocket,
    ws_frame,
)
from tests.integration.socket_town import people
from tests.support.people import Town
from tests.support.server import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

KIB = 1_024
FRAME_BYTES_MAX = 64 * KIB
HELLO_BYTES_MAX = 128 * KIB
ALIVE = b'{"op":"ping"}'


async def live(town: Town, server: ServerProcess) -> RawSocket:
    [ann] = await people(town, "ann")
    return await RawSocket.greeted(server.port, ann.token)


@pytest.mark.attack("C05")
async def test_the_longest_frame_is_taken_whole_or_in_parts(
    town: Town, server: ServerProcess
) -> None:
    longest = ALIVE.ljust(FRAME_BYTES_MAX)
    async with await live(town, server) as raw:
        raw.write(ws_frame(longest))
        await raw.frame("pong")
        raw.write(ws_frame(longest[:1], fin=False))
        for at in range(1, len(longest), 1_000):
            raw.write(ws_frame(longest[at : at + 1_000], CONTINUATION, fin=False))
        raw.write(ws_frame(b"", CONTINUATION))
        await raw.frame("pong")


@pytest.mark.attack("C05", "C06", "C07")
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ([ws_frame(ALIVE.ljust(FRAME_BYTES_MAX + 1))], 4413),
        ([ws_frame(b"x" * (256 * KIB))], 4413),
        ([ws_frame(b"x" * 10, claimed_length=256 * KIB + 1)], 1009),
        ([ws_frame(b"", claimed_length=2**62)], 1009),
        ([ws_frame(b"", claimed_length=2**63)], 1002),
        (
            [
                ws_frame(b"x" * FRAME_BYTES_MAX, fin=False),
                ws_frame(b"x", CONTINUATION),
            ],
            4413,
        ),
        ([ws_frame(ALIVE, BINARY)], 4400),
        ([ws_frame(ALIVE, CONTINUATION)], 1002),
        ([ws_frame(ALIVE, fin=False), ws_frame(ALIVE)], 1002),
        ([ws_frame(ALIVE, reserved=0b100)], 1002),
        ([ws_frame(ALIVE, reserved=0b010)], 1002),
        ([ws_frame(b"", PING, reserved=0b001)], 1002),
        ([ws_frame(ALIVE, is_masked=False)], 1002),
        *[([ws_frame(b"x", opcode)], 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)],
        ([ws_frame(b"x" * 126, PING)], 1002),
        ([ws_frame(b"", PING, fin=False)], 1002),
        ([ws_frame(b"x", CLOSE)], 1002),
        ([ws_frame((999).to_bytes(2), CLOSE)], 1002),
        ([ws_frame((1005).to_bytes(2), CLOSE)], 1002),
        ([ws_frame((1000).to_bytes(2) + b"\xff", CLOSE)], 1007),
    ],
)
async def test_what_is_no_frame_ends_the_connection(
    town: Town, server: ServerProcess, bad: list[bytes], code: int
) -> None:
    async with await live(town, server) as raw:
        raw.write(bad)
        assert await raw.close_code() == code


@pytest.mark.attack("C05")
async def test_what_is_said_before_hello_is_bounded_too(server: ServerProcess) -> None:
    for bad, code in ((b"x" * (HELLO_BYTES_MAX + 1), 4413), (b"x", 4400)):
        async with await RawSocket.upgraded(server.port) as raw:
            raw.write(ws_frame(bad))
            assert await raw.close_code() == code


async def test_a_ping_of_the_protocol_below_is_answered(town: Town, server: ServerProcess) -> None:
    async with await live(town, server) as raw:
        raw.write([ws_frame(ALIVE[:3], fin=False), ws_frame(b"anybody?", PING)])
        while True:
            opcode, payload = await raw.read()
            if opcode != TEXT:
                break
        assert (opcode, payload) == (PONG, b"anybody?")
        raw.write([ws_frame(b"unasked", PONG), ws_frame(ALIVE[3:], CONTINUATION)])
        await raw.frame("pong")


@pytest.mark.parametrize("said", [b"", (1000).to_bytes(2), (4999).to_bytes(2) + b"bored"])
async def test_a_goodbye_is_answered(town: Town, server: ServerProcess, said: bytes) -> None:
    async with await live(town, server) as raw:
        raw.write([ws_frame(said, CLOSE), ws_frame(ALIVE)])
        assert await raw.close_code() == 1000
        assert await raw.close_code() == 1006, "and then it is over"
