# SPDX-License-Identifier: Apache-2.0
"""Times of receipts: few are kept, none is too early, and how much too late they may be."""

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tidings.model import limits
from tidings.model.ids import SEQUENCE_MAX
from tidings.model.receipt_times import (
    DELIVERED_TIMES_MAX,
    READ_TIMES_MAX,
    in_order,
    noted,
    packed,
    thinned,
    time_of,
    unpacked,
)

FLOOR = (5, 1_000)
SECOND = limits.SECOND_MS


class Moved(NamedTuple):
    """The mark moves by so many sequences, so many seconds after the move before."""

    sequences: int
    seconds: int


gaps = st.one_of(st.integers(0, 20), st.sampled_from([60, 3_600, 86_400, 30 * 86_400]))
histories = st.lists(st.builds(Moved, st.integers(1, 9), gaps), max_size=60)
mosts = st.sampled_from([1, 2, 4, 8])


def played(history: list[Moved]) -> list[tuple[int, int]]:
    """All that happened, beginning with the floor."""
    told = [FLOOR]
    for step in history:
        sequence, second = told[-1]
        told.append((sequence + step.sequences, second + step.seconds))
    return told


def kept_of(truth: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    times = [truth[0]]
    for sequence, second in truth[1:]:
        times = noted(times, sequence, second * SECOND + 999, most)
    return times


@given(histories, mosts)
def test_few_are_kept_and_the_last_is_among_them(history: list[Moved], most: int) -> None:
    truth = played(history)
    times = kept_of(truth, most)
    assert len(times) <= most + 1
    assert times[-1] == truth[-1]
    assert set(times) <= set(truth)
    assert times == sorted(times)
    if len(truth) <= most + 1:
        assert times == truth


@given(histories, mosts)
def test_no_time_is_too_early_or_later_than_twice_its_age(history: list[Moved], most: int) -> None:
    truth = played(history)
    times = kept_of(truth, most)
    now = truth[-1][1]
    for sequence in range(1, truth[-1][0] + 1):
        found, exact = time_of(times, sequence), time_of(truth, sequence)
        if sequence <= times[0][0]:
            assert found is None
            continue
        assert found is not None
        assert exact is not None
        late = (found - exact) // SECOND
        assert 0 <= late <= now - found // SECOND + 1


@given(histories)
def test_a_burst_after_a_long_time_forgets_no_day(history: list[Moved]) -> None:
    """However many moves a minute has, what was read the day before keeps a time."""
    day = [Moved(1, 1), Moved(1, 3_600), *[Moved(1, 1)] * 30]
    times = kept_of(played([*history, *day]), READ_TIMES_MAX)
    assert time_of(times, times[-1][0] - 30) is not None


def test_what_lies_beyond_the_last_mark_has_no_time() -> None:
    assert time_of([FLOOR, (9, 2_000)], 10) is None
    assert time_of([], 1) is None


@given(st.lists(st.tuples(st.integers(0, SEQUENCE_MAX), st.integers(0, 2**33)), max_size=12))
def test_packing_loses_nothing(pairs: list[tuple[int, int]]) -> None:
    times = in_order(pairs)
    assert unpacked(packed(times)) == times
    assert thinned(times, len(times)) == times


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_clocks_that_differ_leave_times_in_order(pairs: list[tuple[int, int]]) -> None:
    times = in_order(pairs)
    assert [sequence for sequence, _ in times] == sorted({sequence for sequence, _ in pairs})
    assert all(one[1] <= other[1] for one, other in pairwise(times))


@given(st.binary(max_size=40))
def test_whatever_is_stored_can_be_read(data: bytes) -> None:
    assert all(second >= 0 for _, second in unpacked(data))


def test_eight_and_four_times_fit_into_little_space() -> None:
    """A receipt is read with every chat list, so it must stay small."""
    start = 1_800_000_000
    reads = [(1_000_000 + 40 * n, start + 90_000 * n) for n in range(READ_TIMES_MAX + 1)]
    arrivals = reads[: DELIVERED_TIMES_MAX + 1]
    assert len(packed(reads)) + len(packed(arrivals)) <= 80
