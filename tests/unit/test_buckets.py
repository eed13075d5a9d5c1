# SPDX-License-Identifier: Apache-2.0
"""Token buckets in memory: the arithmetic against a plain reference, and a bounded number."""

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.limiters import InProcessBuckets
from tidings.ports.sessions import Bucket

SECOND_US = 1_000_000


class MicrosecondClock:
    """Moved by hand, in microseconds; read in nanoseconds."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND_US

    def __call__(self) -> int:
        return self.now * 1_000


@dataclass
class PlainBucket:
    """What a token bucket is, said as plainly as possible."""

    per_second: int
    burst: int
    at: int
    tokens: Fraction = field(default=Fraction(0))

    def __post_init__(self) -> None:
        self.tokens = Fraction(self.burst)

    def flow_in(self, now: int) -> None:
        gained = Fraction(now - self.at, SECOND_US) * self.per_second
        self.tokens, self.at = min(Fraction(self.burst), self.tokens + gained), now


# Rates whose tokens take whole microseconds: in others a rounding may differ from the reference.
RATES = st.sampled_from([1, 2, 5, 20, 100, 500])
STEPS = st.lists(
    st.tuples(
        st.integers(0, 3 * SECOND_US),
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True),
        st.integers(1, 8),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(
    rates=st.tuples(RATES, RATES, RATES), bursts=st.tuples(*[st.integers(1, 6)] * 3), steps=STEPS
)
async def test_verdicts_are_those_of_a_plain_bucket(
    rates: tuple[int, int, int],
    bursts: tuple[int, int, int],
    steps: list[tuple[int, list[str], int]],
) -> None:
    clock = MicrosecondClock()
    buckets = InProcessBuckets(clock)
    kinds = {
        name: Bucket("p", name, rate, burst)
        for name, rate, burst in zip("abc", rates, bursts, strict=True)
    }
    plain = {
        name: PlainBucket(int(one.per_second), one.burst, clock.now) for name, one in kinds.items()
    }
    for pause, names, tokens in steps:
        clock.now += pause
        for name in names:
            plain[name].flow_in(clock.now)
        # What costs more than a bucket holds takes all of it.
        price = {name: min(tokens, plain[name].burst) for name in names}
        may = all(plain[name].tokens >= price[name] for name in names)
        for name in names if may else []:
            plain[name].tokens -= price[name]

        verdict = await buckets.take([kinds[name] for name in names], tokens)

        assert verdict.is_allowed == may
        left = plain[verdict.tightest.subject].tokens
        assert verdict.left == int(left)
        if may:
            assert left // 1 == min(plain[name].tokens // 1 for name in names)
        else:
            lacking = max(Fraction(0), price[verdict.tightest.subject] - left)
            missing = lacking / int(verdict.tightest.per_second)
            assert verdict.wait_ms == -(-missing * 1_000 // 1)


@settings(max_examples=60, deadline=None)
@given(
    rate=RATES, burst=st.integers(1, 6), pauses=st.lists(st.integers(0, 2 * SECOND_US), max_size=60)
)
async def test_the_short_way_takes_from_the_same_bucket(
    rate: int, burst: int, pauses: list[int]
) -> None:
    clock = MicrosecondClock()
    short, long = InProcessBuckets(clock), InProcessBuckets(clock)
    bucket = Bucket("p", "a", rate, burst)
    for number, pause in enumerate(pauses):
        clock.now += pause
        verdict = await long.take([bucket])
        if number % 2:
            other = await short.take([bucket])
            assert other == verdict
        else:
            assert short.take_now(bucket) == (0 if verdict.is_allowed else verdict.wait_ms)


async def test_a_full_burst_then_as_fast_as_it_flows_in() -> None:
    clock = MicrosecondClock()
    buckets = InProcessBuckets(clock)
    bucket = Bucket("p", "a", 20, 200)
    assert [buckets.take_now(bucket) for _ in range(200)] == [0] * 200
    assert buckets.take_now(bucket) == 50
    clock.now += 50_000
    assert buckets.take_now(bucket) == 0
    assert buckets.take_now(bucket) == 50


async def test_nothing_is_taken_where_one_is_empty() -> None:
    buckets = InProcessBuckets(MicrosecondClock())
    full, empty = Bucket("p", "full", 1, 3), Bucket("p", "empty", 1, 1)
    await buckets.take([empty])
    refused = await buckets.take([full, empty])
    assert (refused.is_allowed, refused.tightest, refused.wait_ms) == (False, empty, 1_000)
    assert (await buckets.take([full])).left == 2


async def test_one_name_under_two_policies_is_two_buckets() -> None:
    buckets = InProcessBuckets(MicrosecondClock())
    assert (await buckets.take([Bucket("p", "a", 1, 1)])).is_allowed
    assert (await buckets.take([Bucket("q", "a", 1, 1)])).is_allowed


@pytest.mark.attack("F01")
async def test_memory_is_bounded_and_who_was_there_lately_stays() -> None:
    buckets = InProcessBuckets(MicrosecondClock(), most=100)
    mine = Bucket("p", "mine", 1, 1)
    await buckets.take([mine])
    for number in range(1_000):
        assert buckets.take_now(Bucket("p", str(number), 1, 2)) == 0
        buckets.take_now(Bucket("p", str(number), 1, 2))
        if number < 50:
            assert buckets.take_now(mine) > 0
    assert len(buckets) == 100
    assert buckets.take_now(Bucket("p", "999", 1, 2)) > 0
    assert buckets.take_now(Bucket("p", "1", 1, 2)) == 0, "who is forgotten starts afresh"
