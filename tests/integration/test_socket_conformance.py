# SPDX-License-Identifier: Apache-2.0
"""RFC 6455 by the groups of the Autobahn test suite, on a protocol that answers instead of echoing.

Autobahn's own client needs a server that echoes, and Python 2. The groups here are its: payloads,
pings, reserved bits, opcodes, fragments, UTF-8, closing, limits. What test_socket_framing.py has
is not repeated. A text that the server took whole is one that it answers: unknown ops are refused
with the `id` of the frame.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec
import pytest
import pytest_asyncio

from tests.integration.raw_socket import CLOSE, CONTINUATION, PING, PONG, TEXT, RawSocket, ws_frame
from tests.integration.socket_town import people
from tests.support.people import Person, Town
from tests.support.server import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALIVE: Final = b'{"op":"ping"}'


@pytest.fixture(scope="module")
def limits() -> str:
    """More connections in a row than anyone honest opens."""
    return "off"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(town: Town) -> Person:
    [made] = await people(town, "ann")
    return made


@pytest_asyncio.fixture(loop_scope="module")
async def raw(server: ServerProcess, ann: Person) -> AsyncIterator[RawSocket]:
    async with await RawSocket.greeted(server.port, ann.token) as socket:
        yield socket


def echo(text: str, more: str = "") -> bytes:
    """A frame that is refused with this text as its id; with more, a longer one."""
    return msgspec.json.encode({"op": "echo", "id": text, "more": more})


async def echoed(raw: RawSocket) -> str:
    refused = await raw.frame("refused")
    return str(refused["id"])


async def next_frame(raw: RawSocket, opcode: int) -> bytes:
    """The payload of the next frame with this opcode."""
    while True:
        found, payload = await raw.read()
        if found == opcode:
            return payload


# 1: payloads.


@pytest.mark.attack("C07")
@pytest.mark.parametrize("size", [0, 1, 100, 101, 102, 103, 200, 60_000])
async def test_texts_of_all_header_lengths(raw: RawSocket, size: int) -> None:
    raw.write(ws_frame(echo("long", "*" * size)))
    assert await echoed(raw) == "long"


@pytest.mark.parametrize("size", [125, 126, 127, 128, 65_535, 65_536])
async def test_frames_at_the_borders_of_header_lengths(raw: RawSocket, size: int) -> None:
    raw.write(ws_frame(ALIVE.ljust(size)))
    await raw.frame("pong")


@pytest.mark.parametrize("length", [len(ALIVE), 5])
async def test_a_length_may_be_written_longer_than_needed(raw: RawSocket, length: int) -> None:
    """Not minimal, which RFC 6455 forbids to send: taken as what it says, or refused, not more."""
    payload = ALIVE.ljust(length)
    frame = bytes([0x80 | TEXT, 0x80 | 126]) + len(payload).to_bytes(2) + bytes(4) + payload
    raw.write(frame)
    opcode, _ = await raw.read()
    assert opcode in (TEXT, CLOSE)


# 2: pings.


@pytest.mark.attack("C07")
@pytest.mark.parametrize("payload", [b"", b"Hello", bytes([0, 255, 254, 253]), b"\xfe" * 125])
async def test_a_ping_comes_back_as_it_was(raw: RawSocket, payload: bytes) -> None:
    raw.write(ws_frame(payload, PING))
    assert await next_frame(raw, PONG) == payload


async def test_ten_pings_have_ten_answers_in_their_order(raw: RawSocket) -> None:
    payloads = [b"payload-%d" % number for number in range(10)]
    raw.write(ws_frame(payload, PING) for payload in payloads)
    assert [await next_frame(raw, PONG) for _ in payloads] == payloads


async def test_a_ping_byte_by_byte(raw: RawSocket) -> None:
    for byte in ws_frame(b"\xfe" * 125, PING):
        raw.write(bytes([byte]))
        await raw.flush()
    assert await next_frame(raw, PONG) == b"\xfe" * 125


@pytest.mark.parametrize("payload", [b"", b"unasked for"])
async def test_a_pong_nobody_asked_for_is_nothing(raw: RawSocket, payload: bytes) -> None:
    raw.write(ws_frame(payload, PONG) + ws_frame(b"after", PING))
    assert await next_frame(raw, PONG) == b"after"


# 3 and 4: reserved bits and opcodes, among frames that are in order.


@pytest.mark.attack("C07")
@pytest.mark.parametrize("reserved", range(1, 8))
@pytest.mark.parametrize("opcode", [TEXT, PING, CLOSE])
async def test_no_reserved_bit_means_anything(raw: RawSocket, reserved: int, opcode: int) -> None:
    good = ws_frame(echo("before"))
    raw.write([good, ws_frame(b"" if opcode == CLOSE else ALIVE, opcode, reserved=reserved), good])
    assert await echoed(raw) == "before", "what came before is answered"
    assert await raw.close_code() == 1002


@pytest.mark.attack("C07")
@pytest.mark.parametrize("opcode", [3, 7, 11, 15])
async def test_an_unknown_opcode_ends_it_also_among_others(raw: RawSocket, opcode: int) -> None:
    raw.write([ws_frame(echo("before")), ws_frame(b"", opcode), ws_frame(b"", PING)])
    assert await raw.close_code() == 1002


# 5: fragments.


def fragments(payload: bytes, *sizes: int) -> list[bytes]:
    """The text in pieces of these sizes, and the rest."""
    parts, at = [], 0
    for size in sizes:
        parts.append(ws_frame(payload[at : at + size], CONTINUATION if at else TEXT, fin=False))
        at += size
    return [*parts, ws_frame(payload[at:], CONTINUATION)]


@pytest.mark.attack("C07")
@pytest.mark.parametrize("between", [b"", ws_frame(b"", PING), ws_frame(b"x", PONG)])
async def test_fragments_are_one_text_whatever_control_frame_is_between(
    raw: RawSocket, between: bytes
) -> None:
    raw.write(between.join(fragments(echo("fragment-1fragment-2"), 5, 7, 9)))
    assert await echoed(raw) == "fragment-1fragment-2"


async def test_a_ping_between_fragments_is_answered_before_the_text(raw: RawSocket) -> None:
    first, *rest = fragments(echo("x"), 4)
    raw.write([first, ws_frame(b"now", PING)])
    assert await next_frame(raw, PONG) == b"now"
    raw.write(rest)
    assert await echoed(raw) == "x"


async def test_fragments_may_be_empty(raw: RawSocket) -> None:
    payload = echo("x")
    empty = ws_frame(b"", CONTINUATION, fin=False)
    raw.write([ws_frame(b"", TEXT, fin=False), empty, empty, ws_frame(payload, CONTINUATION)])
    assert await echoed(raw) == "x"


@pytest.mark.attack("C07")
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param([ws_frame(b"", PING, fin=False)], id="a ping in fragments"),
        pytest.param([ws_frame(b"", PONG, fin=False)], id="a pong in fragments"),
        pytest.param([ws_frame(b"", CLOSE, fin=False)], id="a close in fragments"),
        pytest.param([ws_frame(b"x", CONTINUATION, fin=False)], id="no beginning"),
        pytest.param([ws_frame(b"x", CONTINUATION)], id="nothing to continue"),
        pytest.param([ws_frame(b"x", fin=False), ws_frame(b"y", fin=False)], id="two beginnings"),
        pytest.param([*fragments(echo("x"), 3), ws_frame(b"", CONTINUATION)], id="after the end"),
    ],
)
async def test_fragments_out_of_order_end_it(raw: RawSocket, wrong: list[bytes]) -> None:
    raw.write(wrong)
    assert await raw.close_code() == 1002


# 6: UTF-8.

GOOD_TEXTS: Final = [
    "Hello-µ@ßöäüàá-UTF-8!!",
    "\u0000\u0080\u07ff\u0800\uffff\U00010000\U0010ffff",
    "\ud7ff\ue000\ufffd\ufdd0\ufdef\ufffe",
    "\U0001fffe\U000fffff",
    "κόσμε",
    "𐍈" * 16,
]
BAD_TEXTS: Final = [
    b"\x80", b"\xbf", b"\x80\xbf\x80\xbf", b"\xc0 ", b"\xfe", b"\xff", b"\xfe\xfe\xff\xff",
    b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf8\x88\x80\x80\x80",
    b"\xfc\x84\x80\x80\x80\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\x80\xed\xb0\x80",
    b"\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf", b"\xce", b"\xce\xba\xe1",
    b"\xe1\xbd", b"\xf0\x90\x8d",
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
]  # fmt: skip


@pytest.mark.attack("C07")
@pytest.mark.parametrize("text", GOOD_TEXTS, ids=ascii)
async def test_every_character_gets_through_however_it_is_split(raw: RawSocket, text: str) -> None:
    payload = echo(text)
    raw.write(ws_frame(payload))
    assert await echoed(raw) == text
    if len(payload) < 200:
        raw.write(fragments(payload, *[1] * (len(payload) - 1)))
        assert await echoed(raw) == text


def spoilt(bad: bytes) -> Iterable[bytes]:
    """The bytes alone, in a value, and in a name."""
    yield bad
    yield b'{"op":"echo","id":"' + bad + b'"}'
    yield b'{"op":"send","id":"1","chat":"x","client_message_id":"m","content":"' + bad + b'"}'


@pytest.mark.attack("C07")
@pytest.mark.parametrize("bad", BAD_TEXTS, ids=bytes.hex)
async def test_a_text_that_is_not_utf8_ends_it(
    server: ServerProcess, ann: Person, bad: bytes
) -> None:
    for payload in spoilt(bad):
        async with await RawSocket.greeted(server.port, ann.token) as raw:
            raw.write(ws_frame(payload))
            assert await raw.close_code() == 1007
    async with await RawSocket.greeted(server.port, ann.token) as raw:
        raw.write(fragments(echo("x").replace(b"x", bad), 20))
        assert await raw.close_code() == 1007, "in fragments"


async def test_a_first_text_that_is_not_utf8_ends_it(server: ServerProcess) -> None:
    async with await RawSocket.upgraded(server.port) as raw:
        raw.write(ws_frame(b"\xff"))
        assert await raw.close_code() == 1007


# 7: closing.


@pytest.mark.attack("C07")
@pytest.mark.parametrize(
    "code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
)
async def test_every_code_that_may_be_sent_is_answered(raw: RawSocket, code: int) -> None:
    raw.write(ws_frame(code.to_bytes(2) + "grüße".encode(), CLOSE))
    assert await raw.close_code() == 1000
    assert await raw.is_at_end()


@pytest.mark.attack("C07")
@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 65_535])
async def test_no_other_code_is(raw: RawSocket, code: int) -> None:
    raw.write(ws_frame(code.to_bytes(2), CLOSE))
    assert await raw.close_code() == 1002
    assert await raw.is_at_end()


@pytest.mark.parametrize("size", [0, 2, 123])
async def test_a_reason_may_fill_the_frame(raw: RawSocket, size: int) -> None:
    raw.write(ws_frame((1000).to_bytes(2) + b"*" * size, CLOSE))
    assert await raw.close_code() == 1000


async def test_a_reason_that_is_too_long_is_no_reason(raw: RawSocket) -> None:
    raw.write(ws_frame((1000).to_bytes(2) + b"*" * 124, CLOSE))
    assert await raw.close_code() == 1002


async def test_nothing_is_done_after_a_close(raw: RawSocket) -> None:
    raw.write([ws_frame((1000).to_bytes(2), CLOSE), ws_frame(echo("late")), ws_frame(b"", PING)])
    opcode, _ = await raw.read()
    assert opcode == CLOSE
    assert await raw.is_at_end()


async def test_a_close_inside_of_a_fragmented_text_is_a_close(raw: RawSocket) -> None:
    first, *_ = fragments(echo("x"), 4)
    raw.write([first, ws_frame((1000).to_bytes(2), CLOSE)])
    assert await raw.close_code() == 1000


# 9: limits.


@pytest.mark.parametrize("chop", [64, 1_024, 32_768])
async def test_the_longest_text_in_pieces_of_a_write(raw: RawSocket, chop: int) -> None:
    frame = ws_frame(echo("long", "*" * 64_000))
    for at in range(0, len(frame), chop):
        raw.write(frame[at : at + chop])
        await raw.flush()
    assert await echoed(raw) == "long"
