# SPDX-License-Identifier: Apache-2.0
"""Telling a machine that was slow from a server that was."""

import asyncio
import os

import pytest

from bench.steadiness import (
    AWAY_SECONDS,
    INTERVAL_SECONDS,
    Steadiness,
    slow_spans,
    told,
    witnessed,
)
from tidings.tools.load_runs import latency_of

EVERY = INTERVAL_SECONDS


def pieces(*factors: float) -> list[tuple[float, float]]:
    return [(number * EVERY, factor) for number, factor in enumerate(factors)]


@pytest.fixture
def steadiness() -> Steadiness:
    """Slow from 10 to 12, and from 20 to 21 by two cores."""
    found = Steadiness()
    found.saw(100, [(20.0, 21.0), (10.0, 12.0)])
    found.saw(100, [(20.5, 20.9)])
    return found


def test_a_steady_core_was_never_slow() -> None:
    assert slow_spans(pieces(1.0, 1.4, 1.1, 1.9, 1.0)) == []
    assert slow_spans([]) == []


def test_one_piece_that_took_long_is_an_interrupt() -> None:
    assert slow_spans(pieces(1.0, 1.0, 9.0, 1.0, 1.0)) == []


def test_several_in_a_row_are_a_slow_core() -> None:
    ((start, end),) = slow_spans(pieces(1.0, 1.0, 5.0, 4.0, 5.0, 1.0, 1.0))
    assert (start, end) == pytest.approx((1 * EVERY, 6 * EVERY))


def test_slow_times_apart_are_two() -> None:
    slow, steady = [5.0] * 3, [1.0] * 9
    assert len(slow_spans(pieces(*slow, *steady, *slow))) == 2


def test_a_witness_that_comes_late_means_that_the_core_was_away() -> None:
    usual = pieces(1.0, 1.0, 1.0)
    late = [(at + AWAY_SECONDS * 5, factor) for at, factor in pieces(1.0, 1.0, 1.0, 1.0)[3:]]
    assert slow_spans(usual + late) == [(usual[-1][0], late[0][0])]
    waited_for_the_server = [(usual[-1][0] + AWAY_SECONDS, 1.0)]
    assert slow_spans(usual + waited_for_the_server) == []


@pytest.mark.parametrize(
    ("span", "was_steady"),
    [
        ((8.0, 9.9), True),
        ((9.9, 10.3), False),
        ((11.0, 11.5), False),
        ((12.5, 13.0), False),  # what piled up in two seconds takes two seconds to go
        ((14.1, 19.0), True),
        ((0.0, 30.0), True),  # whatever takes so long is not let off
        ((21.5, 22.1), False),
        ((22.1, 30.0), True),
    ],
)
def test_what_was_under_way_while_a_core_was_slow(
    steadiness: Steadiness, span: tuple[float, float], was_steady: bool
) -> None:
    assert steadiness.was_steady(span) == was_steady


def test_how_much_of_the_time_a_core_was_slow(steadiness: Steadiness) -> None:
    assert steadiness.slow_share((0.0, 30.0)) == pytest.approx(0.1)
    assert steadiness.slow_share((11.0, 12.0)) == pytest.approx(1.0)
    assert steadiness.slow_share((13.0, 14.0)) == 0


async def test_every_core_has_a_witness_that_ends() -> None:
    async with asyncio.timeout(60), witnessed() as found:
        pass
    assert found.pieces >= (os.cpu_count() or 1)


def test_what_is_left_is_told_with_how_much_it_is() -> None:
    assert told(latency_of([1.0, 2.0, 3.0]), 10).endswith("max 3.0 ms of 3 among 10 answers")
    assert told(latency_of([]), 10) == "none of 10 answers was steady"
