# SPDX-License-Identifier: Apache-2.0
"""The shell around one socket: fragments, pings, goodbyes, and clients that do not read."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from picows import WSMsgType

from tests.support.users import ANN
from tests.unit.fake_wire import Client, Part
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.identity.caller import UserCaller
from tidings.gateway.closing import drain
from tidings.gateway.connection import WRITE_BYTES_MAX, Connection
from tidings.gateway.conversation import State
from tidings.metrics import declared
from tidings.model import limits
from tidings.wire.codes import Close

PING = b'{"op":"ping"}'


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def client(bench: GatewayBench) -> AsyncIterator[Client]:
    """A client whose connection is open."""
    made = Client(Connection(bench.context))
    made.connection.conversation.admit(UserCaller(ANN, None, 2**60), "phone")
    yield made
    made.goes()
    assert len(bench.hub) == 0


async def test_an_open_connection_keeps_no_headers_of_the_handshake(client: Client) -> None:
    assert (client.wire.request.headers, client.wire.response.headers) == ({}, {})


# Frames in parts.


def cont(payload: bytes, *, fin: bool = False) -> Part:
    return Part(payload, WSMsgType.CONTINUATION, fin)


async def test_a_message_in_fragments_is_put_together(client: Client) -> None:
    client.says(Part(PING[:3], fin=False), cont(b""), cont(PING[3:8]), cont(PING[8:], fin=True))
    assert client.wire.told == [{"op": "pong"}]
    client.says(Part(PING))
    assert client.wire.told == [{"op": "pong"}] * 2


async def test_control_frames_may_come_between_fragments(client: Client) -> None:
    ping = Part(b"are you there", WSMsgType.PING)
    client.says(
        Part(PING[:3], fin=False), ping, Part(b"", WSMsgType.PONG), cont(PING[3:], fin=True)
    )
    assert client.wire.frames[0] == (WSMsgType.PONG, b"are you there")
    assert client.wire.told == [{"op": "pong"}]


@pytest.mark.parametrize(
    "parts",
    [
        [cont(PING, fin=True)],
        [cont(PING)],
        [Part(PING[:3], fin=False), Part(PING)],
        [Part(PING[:3], fin=False), Part(PING, fin=False)],
        [Part(PING, rsv1=True)],
        [Part(PING, rsv2=True)],
        [Part(b"", WSMsgType.PING, rsv3=True)],
    ],
)
async def test_what_is_out_of_turn_ends_it(client: Client, parts: list[Part]) -> None:
    client.says(*parts)
    assert client.wire.closes == [Close.PROTOCOL_ERROR]
    assert [told["op"] for told in client.wire.told] == ["bye"]


async def test_frames_are_text(client: Client) -> None:
    client.says(Part(PING, WSMsgType.BINARY))
    assert client.wire.closes == [Close.BAD_FRAME]


async def test_fragments_may_be_as_long_together_as_one_frame(client: Client) -> None:
    whole = PING.ljust(limits.FRAME_BYTES_MAX)
    client.says(Part(whole[:100], fin=False), cont(whole[100:], fin=True))
    assert client.wire.told == [{"op": "pong"}]
    client.says(Part(whole, fin=False), cont(b" "))
    assert client.wire.closes == [Close.FRAME_TOO_LARGE]
    client.says(*[cont(whole)] * 3)
    assert client.wire.closes == [Close.FRAME_TOO_LARGE]


# Saying goodbye.


async def test_a_close_is_answered_once_and_nothing_after_it_is_heard(client: Client) -> None:
    client.says(Part(b"", WSMsgType.CLOSE), Part(PING), Part(b"", WSMsgType.CLOSE))
    assert client.wire.closes == [1000]
    assert client.wire.told == []
    assert client.wire.disconnects == [True, True]


async def test_bye_says_why_and_when_to_come_back(client: Client) -> None:
    client.connection.close(Close.RESTARTING, 250)
    client.connection.close(Close.BAD_FRAME)
    assert client.wire.told == [
        {"op": "bye", "code": 1012, "reconnect": True, "retry_after_ms": 250}
    ]
    assert client.wire.closes == [Close.RESTARTING]


@pytest.mark.parametrize("code", list(Close))
async def test_a_client_comes_back_by_itself_or_not(client: Client, code: Close) -> None:
    client.connection.close(code)
    [bye] = client.wire.told
    assert bye["reconnect"] == (code in {1012, 1013, 4408, 4409, 4429})
    pause_ms = 60_000 if code == Close.TOO_MANY_CONNECTIONS else 5_000
    assert bye["retry_after_ms"] == (pause_ms if bye["reconnect"] else 0)


@pytest.mark.attack("C17")
async def test_whoever_does_not_answer_a_goodbye_is_dropped(client: Client) -> None:
    client.connection.close(Close.RESTARTING, 0)
    client.connection.tick()
    assert client.wire.disconnects == []
    client.connection.tick()
    assert client.wire.disconnects == [False]


async def test_draining_says_goodbye_to_all_within_the_window(bench: GatewayBench) -> None:
    clients = [Client(Connection(bench.context)) for _ in range(4)]
    waits: list[int] = []

    def jitter(most: int) -> int:
        waits.append(most)
        return most // 2

    for one in clients:
        one.wire.when_closed = one.goes
    await drain(bench.hub, 0.04, jitter)
    assert waits == [1_000] * 4
    assert [one.wire.told[0]["code"] for one in clients] == [1012] * 4
    assert len(bench.hub) == 0


# Clients that do not read.


@pytest.mark.attack("C09")
async def test_a_client_that_lets_frames_pile_up_is_cut_off(client: Client) -> None:
    client.connection.pause_writing()
    client.wire.underlying_transport.backlog = limits.OUTBOX_BYTES_MAX
    client.connection.send(b'{"op":"pong"}')
    client.connection.flush()
    assert client.wire.disconnects == []
    client.wire.underlying_transport.backlog += 1
    client.connection.send(b'{"op":"pong"}')
    client.connection.flush()
    client.connection.send(b'{"op":"pong"}')

    assert client.wire.disconnects == [False]
    assert client.wire.closes == [], "a goodbye would only wait at the end of what is not read"
    assert len(client.wire.frames) == 2
    assert client.connection.conversation.state is State.CLOSED


async def test_a_client_that_is_cut_off_counts_as_overloaded(bench: GatewayBench) -> None:
    counts = declared.sockets_closed.counts
    before = counts["1013"]
    client = Client(Connection(bench.context))
    client.wire.underlying_transport.backlog = limits.OUTBOX_BYTES_MAX + 1
    client.connection.close(Close.OVERLOADED)
    client.goes()
    assert client.wire.closes == []
    assert counts["1013"] == before + 1


async def test_answers_to_pings_pile_up_no_higher(client: Client) -> None:
    client.connection.pause_writing()
    client.wire.underlying_transport.backlog = limits.OUTBOX_BYTES_MAX + 1
    for _ in range(3):
        client.says(Part(b"x" * 125, WSMsgType.PING))
        client.connection.flush()
    assert len(client.wire.frames) == 1
    assert client.wire.disconnects == [False]


async def test_the_frames_of_a_turn_leave_in_one_write(
    bench: GatewayBench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    monkeypatch.setattr(client.wire.underlying_transport, "write", writes.append)
    for _ in range(3):
        client.connection.send(PING)
    assert writes == []
    await asyncio.sleep(0)
    assert writes == [(b"\x81" + bytes([len(PING)]) + PING) * 3]


async def test_much_does_not_wait_for_the_end_of_the_turn(client: Client) -> None:
    client.connection.send(b" " * WRITE_BYTES_MAX + PING)
    assert len(client.wire.underlying_transport.frames) == 1
    client.connection.send(PING)
    assert len(client.wire.underlying_transport.frames) == 1
    assert client.wire.told == [{"op": "ping"}] * 2


@pytest.mark.parametrize("size", [13, 125, 126, 65_535, 65_536])
async def test_frames_of_every_length_are_framed(client: Client, size: int) -> None:
    client.connection.send(b" " * size)
    assert client.wire.frames == [(WSMsgType.TEXT, b" " * size)]


async def test_the_socket_pauses_where_entries_are_to_wait(client: Client) -> None:
    assert client.wire.underlying_transport.pause_bytes == limits.OUTBOX_PAUSE_BYTES
    client.connection.pause_writing()
    assert client.connection.progress.room == 0
    client.connection.resume_writing()
    assert client.connection.progress.room == limits.WINDOW_ENTRIES


@pytest.mark.attack("C10")
async def test_a_stalled_client_is_told_to_come_back(
    bench: GatewayBench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.connection.stream, "is_stalled", lambda now: True)
    client.connection.tick()
    assert client.wire.closes == [Close.OVERLOADED]


@pytest.mark.attack("C17")
async def test_an_overdue_client_is_sent_away_at_the_next_tick(
    bench: GatewayBench, client: Client
) -> None:
    client.connection.tick()
    assert client.wire.closes == []
    client.connection.conversation.renew(UserCaller(ANN, None, bench.clock.time))
    client.connection.tick()
    assert client.wire.closes == [Close.NOT_AUTHENTICATED]
