# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of token buckets, the same wherever they are kept.

All that is kept of a bucket is when it will be full again, in whole microseconds: how far that is
away, its debt, tells how many tokens are missing. One that is full need not be kept at all.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tidings.ports.buckets import Bucket, Verdict

SECOND_US: Final = 1_000_000


@lru_cache(maxsize=100)
def interval_us(per_second: float) -> int:
    """How long one token takes to flow in."""
    return round(SECOND_US / per_second)


def price_us(bucket: Bucket, tokens: int) -> int:
    """By how much the debt grows when so many tokens are taken, or all that it ever holds."""
    return min(tokens, bucket.burst) * interval_us(bucket.per_second)


def most_debt_us(bucket: Bucket, tokens: int = 1) -> int:
    """With more than this there are not as many tokens in it."""
    return max(0, bucket.burst - tokens) * interval_us(bucket.per_second)


def verdict(
    buckets: Sequence[Bucket], debts: Sequence[int], tokens: int, *, is_allowed: bool
) -> Verdict:
    """What to tell those who wanted so many tokens, of debts as they are now."""
    owing = zip(buckets, debts, strict=True)
    if is_allowed:
        tightest, debt = min(owing, key=lambda one: left(*one))
    else:
        tightest, debt = max(owing, key=lambda one: one[1] - most_debt_us(one[0], tokens))
    wait_us = max(0, debt - most_debt_us(tightest, tokens))
    return Verdict(is_allowed, tightest, left(tightest, debt), milliseconds(wait_us))


def left(bucket: Bucket, debt: int) -> int:
    """Whole tokens in it."""
    return max(0, bucket.burst - -(-debt // interval_us(bucket.per_second)))


def milliseconds(us: int) -> int:
    """Rounded up: who waits so long has waited long enough."""
    return -(-us // 1_000)
