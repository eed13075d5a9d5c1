# SPDX-License-Identifier: Apache-2.0
"""Token buckets of one process.

Each is stored as one number, the time when it is full again; the least recently used bucket is
evicted first. The debt of a bucket is the time until then, in microseconds: 0 if it is full.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from tidings.caches import LruCache
from tidings.model import limits
from tidings.ports.buckets import Bucket, Verdict

SECOND_US: Final = 1_000_000


@lru_cache(maxsize=100)
def interval_us(per_second: float) -> int:
    """Return the time in which one token is added, in microseconds."""
    return round(SECOND_US / per_second)


def price_us(bucket: Bucket, tokens: int) -> int:
    """Return by how many microseconds taking these tokens delays the time when the bucket is full.

    More tokens than the bucket holds count as a full bucket.
    """
    return min(tokens, bucket.burst) * interval_us(bucket.per_second)


def most_debt_us(bucket: Bucket, tokens: int = 1) -> int:
    """Return the largest debt with which the bucket still has this many tokens."""
    return max(0, bucket.burst - tokens) * interval_us(bucket.per_second)


def verdict(
    buckets: Sequence[Bucket], debts: Sequence[int], tokens: int, *, is_allowed: bool
) -> Verdict:
    """Return the answer to a request for tokens, from the current debts of its buckets."""
    owing = zip(buckets, debts, strict=True)
    if is_allowed:
        tightest, debt = min(owing, key=lambda pair: left(*pair))
    else:
        tightest, debt = max(owing, key=lambda pair: pair[1] - most_debt_us(pair[0], tokens))
    wait_us = max(0, debt - most_debt_us(tightest, tokens))
    return Verdict(is_allowed, tightest, left(tightest, debt), milliseconds(wait_us))


def left(bucket: Bucket, debt: int) -> int:
    """Return the number of whole tokens in a bucket with this debt."""
    return max(0, bucket.burst - -(-debt // interval_us(bucket.per_second)))


def milliseconds(us: int) -> int:
    """Convert microseconds, rounded up, so that a wait of this length is never too short."""
    return -(-us // 1_000)


class InProcessBuckets:
    """Bounded number of buckets in memory; no call waits."""

    def __init__(
        self, now_ns: Callable[[], int] = time.monotonic_ns, most: int = limits.BUCKETS_MAX
    ) -> None:
        """`now_ns` is monotonic, in nanoseconds."""
        self._now_ns = now_ns
        self._full_at: LruCache[tuple[str, str], int] = LruCache(most)
        """Time when each bucket is full again."""

    def __len__(self) -> int:
        return len(self._full_at)

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take this many tokens from each bucket, or from none if any of them has fewer."""
        now = self._now_ns() // 1_000
        debts = [max(0, (self._full_at.peek(_name(bucket)) or 0) - now) for bucket in buckets]
        is_allowed = all(
            debt <= most_debt_us(bucket, tokens)
            for bucket, debt in zip(buckets, debts, strict=True)
        )
        if is_allowed:
            for index, bucket in enumerate(buckets):
                debts[index] += price_us(bucket, tokens)
                self._full_at.put(_name(bucket), now + debts[index])
        return verdict(buckets, debts, tokens, is_allowed=is_allowed)

    def take_now(self, bucket: Bucket) -> int:
        """Take a token; return 0, or the milliseconds until there is one.

        This runs for every message and takes 0.5 µs. Helpers are inlined, because calls take time.
        """
        name = (bucket.policy, bucket.subject)
        now = self._now_ns() // 1_000
        full_at = self._full_at.peek(name) or 0
        interval = interval_us(bucket.per_second)
        if full_at < now:
            full_at = now
        elif (missing := full_at - now - (bucket.burst - 1) * interval) > 0:
            return milliseconds(missing)
        self._full_at.put(name, full_at + interval)
        return 0


def _name(bucket: Bucket) -> tuple[str, str]:
    return bucket.policy, bucket.subject
