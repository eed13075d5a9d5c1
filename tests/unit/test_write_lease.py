# SPDX-License-Identifier: Apache-2.0
"""How long a process may write without having looked around."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.users import ANN
from tests.unit.fake_wire import Client, Part
from tests.unit.gateway_bench import a_gateway
from tidings.actions.identity.caller import UserCaller
from tidings.gateway.connection import Connection
from tidings.gateway.context import WriteLease
from tidings.model import limits
from tidings.wire.codes import Close

PING = b'{"op":"ping"}'


@dataclass
class Hands:
    """A monotonic clock by hand."""

    time: float = 1_000.0

    def now(self) -> float:
        return self.time


def test_a_vigil_without_limits_is_never_over() -> None:
    hands = Hands()
    write_lease = WriteLease(now=hands.now)
    hands.time += 1e9
    assert not write_lease.is_expired


def test_a_process_that_was_away_for_longer_than_a_registration_lasts_writes_no_more() -> None:
    hands = Hands()
    write_lease = WriteLease(pause_seconds_max=10, now=hands.now)
    is_over = []
    for seconds in (10, 0.001):
        hands.time += seconds
        is_over.append(write_lease.is_expired)
    assert write_lease.close_code() is Close.RESTARTING
    write_lease.renew_awake()
    assert [*is_over, write_lease.is_expired] == [False, True, False]


def test_a_process_that_has_not_read_revocations_for_long_writes_no_more() -> None:
    hands = Hands()
    write_lease = WriteLease(pause_seconds_max=10, blind_seconds_max=5, now=hands.now)
    began = hands.time
    hands.time += 3
    write_lease.renew_feed(began)
    write_lease.renew_awake()
    hands.time += 2.001
    assert write_lease.is_expired, "five seconds since the look began, not since it ended"
    assert write_lease.close_code() is Close.OVERLOADED


@pytest.mark.parametrize("backlog", [0, 1])
async def test_nothing_that_waited_is_written_after_a_pause(tmp_path: Path, backlog: int) -> None:
    hands = Hands()
    write_lease = WriteLease(pause_seconds_max=10, now=hands.now)
    async with a_gateway(tmp_path / "data") as bench:
        client = Client(Connection(replace(bench.context, write_lease=write_lease)))
        client.connection.conversation.admit(UserCaller(ANN, None, 2**60), "phone")
        client.says(Part(PING))
        assert client.wire.told == [{"op": "pong"}]
        client.says(Part(PING))
        hands.time += 11  # stopped in the middle of a turn
        client.wire.underlying_transport.backlog = backlog
        client.connection.flush()

        if backlog:  # what the socket has not taken would follow: it is cut off
            assert client.wire.told == [{"op": "pong"}]
            assert client.wire.disconnects == [False]
        else:
            assert [told["op"] for told in client.wire.told] == ["pong", "bye"]
            assert client.wire.closes == [Close.RESTARTING]
        client.goes()


@pytest.mark.parametrize(
    ("away", "code"), [(11, Close.RESTARTING), (1, Close.OVERLOADED)], ids=["pause", "no pause"]
)
async def test_after_a_pause_nobody_is_told_to_have_been_too_slow(
    tmp_path: Path, away: int, code: Close
) -> None:
    hands = Hands()
    write_lease = WriteLease(pause_seconds_max=10, now=hands.now)
    async with a_gateway(tmp_path / "data") as bench:
        client = Client(Connection(replace(bench.context, write_lease=write_lease)))
        client.connection.conversation.admit(UserCaller(ANN, None, 2**60), "phone")
        hands.time += away
        client.connection.close(Close.OVERLOADED)

        assert client.wire.closes == [code]
        client.goes()


@pytest.mark.attack("S03", "F10")
async def test_who_was_only_late_to_look_holds_what_waits_and_closes_nobody(
    tmp_path: Path,
) -> None:
    hands = Hands()
    write_lease = WriteLease(pause_seconds_max=10, blind_seconds_max=5, now=hands.now)
    async with a_gateway(tmp_path / "data") as bench:
        client = Client(Connection(replace(bench.context, write_lease=write_lease)))
        client.connection.conversation.admit(UserCaller(ANN, None, 2**60), "phone")
        hands.time += 6  # its own loop was late
        write_lease.renew_awake()
        for _ in range(2):
            client.says(Part(PING))
        assert (client.wire.told, client.wire.closes) == ([], [])
        write_lease.renew_feed(hands.time)
        assert client.wire.told == [{"op": "pong"}] * 2
        client.goes()


@pytest.mark.attack("A13")
async def test_what_was_held_is_never_written_to_who_is_cut_off(tmp_path: Path) -> None:
    hands = Hands()
    write_lease = WriteLease(blind_seconds_max=5, now=hands.now)
    async with a_gateway(tmp_path / "data") as bench:
        client = Client(Connection(replace(bench.context, write_lease=write_lease)))
        client.connection.conversation.admit(UserCaller(ANN, None, 2**60), "phone")
        hands.time += 6
        client.says(Part(PING))
        client.connection.close(Close.NOT_AUTHENTICATED)
        write_lease.renew_feed(hands.time)
        assert [told["op"] for told in client.wire.told] == ["bye"]
        client.goes()


@pytest.mark.parametrize("backlog", [0, 1])
async def test_what_cannot_be_held_is_cut_off(tmp_path: Path, backlog: int) -> None:
    hands = Hands()
    write_lease = WriteLease(blind_seconds_max=5, now=hands.now)
    async with a_gateway(tmp_path / "data") as bench:
        client = Client(Connection(replace(bench.context, write_lease=write_lease)))
        client.connection.conversation.admit(UserCaller(ANN, None, 2**60), "phone")
        hands.time += 6
        client.wire.underlying_transport.backlog = backlog
        size = 20 if backlog else limits.OUTBOX_BYTES_MAX + 1
        client.connection.send(b"x" * size)
        client.connection.flush()
        assert not client.wire.told or client.wire.told[-1]["op"] == "bye"
        assert client.wire.disconnects or client.wire.closes == [Close.OVERLOADED]
        client.goes()
