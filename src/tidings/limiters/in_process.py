# SPDX-License-Identifier: Apache-2.0
"""Token buckets of one process: a number each, the longest unused forgotten first."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from tidings.model import limits
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


class InProcessBuckets:
    """Buckets in memory: a bounded number, no waiting."""

    def __init__(
        self, now_ns: Callable[[], int] = time.monotonic_ns, most: int = limits.BUCKETS_MAX
    ) -> None:
        """`now_ns` is monotonic, in nanoseconds."""
        self._now_ns = now_ns
        self._most = most
        self._full_at: OrderedDict[tuple[str, str], int] = OrderedDict()
        """When each will be full again; the one used last stands last."""

    def __len__(self) -> int:
        return len(self._full_at)

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take so many tokens out of each, or none if one has fewer."""
        now = self._now_ns() // 1_000
        debts = [max(0, self._full_at.get(_name(one), 0) - now) for one in buckets]
        is_allowed = all(
            debt <= most_debt_us(one, tokens) for one, debt in zip(buckets, debts, strict=True)
        )
        if is_allowed:
            for place, one in enumerate(buckets):
                debts[place] += price_us(one, tokens)
                self._keep(_name(one), now + debts[place])
        return verdict(buckets, debts, tokens, is_allowed=is_allowed)

    def take_now(self, bucket: Bucket) -> int:
        """Take a token; returns 0, or how many milliseconds it is until there is one.

        For what happens with every message: half a microsecond, written out where calls cost.
        """
        name = (bucket.policy, bucket.subject)
        now = self._now_ns() // 1_000
        full_at = self._full_at.get(name, 0)
        interval = interval_us(bucket.per_second)
        if full_at < now:
            full_at = now
        elif (missing := full_at - now - (bucket.burst - 1) * interval) > 0:
            return milliseconds(missing)
        self._full_at[name] = full_at + interval
        self._full_at.move_to_end(name)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        return 0

    def _keep(self, name: tuple[str, str], full_at: int) -> None:
        self._full_at[name] = full_at
        self._full_at.move_to_end(name)
        if len(self._full_at) > self._most:
            self._full_at.popitem(last=False)


def _name(bucket: Bucket) -> tuple[str, str]:
    return bucket.policy, bucket.subject
