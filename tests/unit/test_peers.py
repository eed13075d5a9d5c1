# SPDX-License-Identifier: Apache-2.0
"""The client of the comparison with other servers counts, answers and compares rightly."""

import re

import pytest

from bench.peers.goals import verdicts
from bench.peers.load import Load, Sender
from bench.peers.member import NUMBER, Member
from bench.peers.outcome import PAIRS, Outcome
from bench.peers.report import rows
from bench.peers.wire import Connection, Counter, number_after
from bench.websocket import frame_head, text_frame
from tidings.tools.load_runs import Latency


class Heard(Connection):
    """A connection that remembers what it was told to write."""

    def __init__(self) -> None:
        super().__init__("ann", ())
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_text_is_counted_once_wherever_the_bytes_are_cut(size: int) -> None:
    data, found = b"xx<body>aa<body><body>bb<bod" * 3, [0]

    def on_marks(marks: int) -> None:
        found[0] += marks

    counter = Counter(b"<body>", on_marks)
    for start in range(0, len(data), size):
        counter.feed(data[start : start + size])
    assert found == [9]


def test_the_number_is_that_of_the_last_complete_message() -> None:
    pattern = re.compile(rb'"seq":(\d+),')
    assert number_after(b'{"data":"seq":7,}{"data":"seq":8,}', b'{"data"', pattern) == 8
    assert number_after(b'{"data":"seq":7,}{"data":"seq":8', b'{"data"', pattern) is None
    assert number_after(b'"seq":7,', b'{"data"', pattern) is None


def test_frames_of_a_client_are_masked_and_say_their_length() -> None:
    assert text_frame(b"a" * 125) == b"\x81\xfd\0\0\0\0" + b"a" * 125
    assert frame_head(126) == b"\x81\xfe\x00\x7e\0\0\0\0"


def test_a_sender_replaces_what_is_answered_and_a_receiver_confirms_every_second_message() -> None:
    one, other = Heard(), Heard()
    message = Member(connection=one, message=b"<" + NUMBER + b">", arrival=b"never")
    receiver = Member(connection=other, message=b"", arrival=b"m", receipt=lambda data: data[-2:])
    sender = Sender(message)
    Load([message, receiver], [sender], copies=1, receipts=2)
    sender.start(2)
    sender.on_answered(1)
    sender.stop()
    sender.on_answered(2)
    assert one.written == b"<000000000><000000001><000000002>"
    assert (sender.sent, sender.answered, len(sender.latencies_ms)) == (3, 3, 3)
    for data in (b"m1", b"m2", b"m3", b"m4"):
        other.data_received(data)
    assert other.written == b"m2m4"


def outcome(who: str, number: int, cpu: float) -> Outcome:
    none = Latency(0, 0.0, 0.0, 0.0, 0.0)
    return Outcome(
        who=who, seconds=1.0, sent=1_000_000, delivered=1_000_000, missing=0, latency=none,
        cpu_seconds={"server": cpu, "database": cpu}, load_cpu=0.1, shape="s", round=number,
    )  # fmt: skip


def test_a_ratio_is_of_the_same_round_and_counts_the_database() -> None:
    who = "ejabberd, no archive"
    runs = [outcome("Tidings", 0, 1.0), outcome("Tidings", 1, 4.0)]
    runs += [outcome(who, 0, 2.0), outcome(who, 1, 8.0)]
    ours, theirs = rows(runs, PAIRS, "s")
    assert (ours.ratio, ours.costs_us) == (None, [2.0, 8.0])
    assert (theirs.ratio, theirs.ratios) == (0.5, [0.5, 0.5])
    assert list(verdicts({(PAIRS, "s"): [ours, theirs]})) == [
        f"1:1, s, {who}: 0.500, at most 1.000: held"
    ]
