# SPDX-License-Identifier: Apache-2.0
"""Token buckets for the rate limits, in the memory of one process or shared by all in Redis.

Each bucket is stored as one number: the time when it will be full again. The debt of a bucket is
the time until then, in microseconds; a full bucket has a debt of 0.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from tidings.caches import LruCache
from tidings.model import limits
from tidings.ports.delivery import RegistryUnavailable
from tidings.ports.sessions import Bucket, Buckets, Verdict

SECOND_US: Final = 1_000_000

AWAY_SECONDS: Final = 5.0
"""Time for which a process uses its own buckets after Redis has not answered."""

TAKE: Final = """
local now = tonumber(ARGV[1])
if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
end
local debts, is_allowed = {}, 1
for place, name in ipairs(KEYS) do
    local debt = math.max(0, (tonumber(redis.call('GET', name)) or 0) - now)
    if debt > tonumber(ARGV[2 * place + 1]) then is_allowed = 0 end
    debts[place] = debt
end
if is_allowed == 1 then
    for place, name in ipairs(KEYS) do
        debts[place] = debts[place] + tonumber(ARGV[2 * place])
        local full_at = string.format('%.0f', now + debts[place])
        redis.call('SET', name, full_at, 'PX', math.ceil(debts[place] / 1000))
    end
end
return {is_allowed, unpack(debts)}
"""
"""Script that takes tokens from all buckets, or from none.

The keys are the buckets. The first argument is the time in microseconds, or empty for the time of
Redis. Two arguments follow for each bucket: the debt to add, and the largest debt that the bucket
may have before the addition. The key of a bucket expires when the bucket is full again.
"""


@lru_cache(maxsize=100)
def interval_us(per_second: float) -> int:
    """Return the time after which a bucket gets its next token, in microseconds."""
    return round(SECOND_US / per_second)


def price_us(bucket: Bucket, tokens: int) -> int:
    """Return the debt that is added by taking these tokens, in microseconds.

    A request for more tokens than the bucket can hold is charged as a full bucket.
    """
    return min(tokens, bucket.burst) * interval_us(bucket.per_second)


def most_debt_us(bucket: Bucket, tokens: int = 1) -> int:
    """Return the largest debt at which the bucket still has this many tokens."""
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
    """Convert microseconds to milliseconds; round up, so that a wait is never too short."""
    return -(-us // 1_000)


class InProcessBuckets:
    """Takes tokens from a bounded number of buckets in memory; the least recently used are evicted.

    No call waits.
    """

    def __init__(
        self, now_ns: Callable[[], int] = time.monotonic_ns, most: int = limits.BUCKETS_MAX
    ) -> None:
        """Create full buckets; `now_ns` is a monotonic clock in nanoseconds."""
        self._now_ns = now_ns
        self._full_at: LruCache[tuple[str, str], int] = LruCache(most, name="buckets")
        """The time when each bucket is full again."""

    def __len__(self) -> int:
        return len(self._full_at)

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take this many tokens from each bucket, or from none if a bucket has fewer."""
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
        """Take a token and return 0; if there is none, return the milliseconds until there is.

        This runs for every message and takes 0.5 µs. Helpers are inlined to save the calls.
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


class Link(Protocol):
    """The connection to Redis that all parts of a process share."""

    def name(self, kind: str, which: str, *, hash_tag: str | None = None) -> str:
        """Return the name of a key; keys with the same `hash_tag` are on the same server."""
        ...

    async def run(
        self,
        script: str,
        keys: Sequence[str],
        common: Sequence[str | int],
        own: Sequence[Sequence[str | int]],
    ) -> list[tuple[list[int], Any]]:
        """Run a script on keys; in a cluster, run it for each group of keys on the same server.

        `common` are the arguments for all keys, `own` those of each key. Return the answer of each
        run, with the indexes of its keys.

        Raises:
            RegistryUnavailable: Redis did not answer.
        """
        ...


class RedisBuckets:
    """Takes tokens from buckets in Redis, or from its own buckets while Redis does not answer."""

    def __init__(
        self,
        link: Link,
        own: Buckets | None = None,
        *,
        now_us: Callable[[], int] | None = None,
        away_seconds: float = AWAY_SECONDS,
    ) -> None:
        """Create the buckets; `own` are used while Redis does not answer.

        Without `now_us`, the time comes from Redis.
        """
        self._link = link
        self._own = own or InProcessBuckets()
        self._now_us = now_us
        self._away_seconds = away_seconds
        self._away_until = 0.0

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take this many tokens from each bucket, or from none if a bucket has fewer.

        In a Redis cluster, "all or none" is true only for the buckets of one subject.
        """
        if time.monotonic() < self._away_until:
            return await self._own.take(buckets, tokens)
        try:
            is_allowed, *debts = await self._ask(buckets, tokens)
        except RegistryUnavailable:
            self._away_until = time.monotonic() + self._away_seconds
            return await self._own.take(buckets, tokens)
        return verdict(buckets, debts, tokens, is_allowed=bool(is_allowed))

    async def _ask(self, buckets: Sequence[Bucket], tokens: int) -> list[int]:
        # In a cluster, all buckets of a subject are on one server, so tokens are taken from all of
        # them or from none. The buckets of different subjects are independent: tokens taken from
        # one subject stay taken even if another subject has too few.
        names = [
            self._link.name("bucket", f"{bucket.policy}:{bucket.subject}", hash_tag=bucket.subject)
            for bucket in buckets
        ]
        now = "" if self._now_us is None else self._now_us()
        own = [(price_us(bucket, tokens), most_debt_us(bucket, tokens)) for bucket in buckets]
        is_allowed, debts = 1, [0] * len(buckets)
        for indexes, (allows, *found) in await self._link.run(TAKE, names, (now,), own):
            is_allowed = min(is_allowed, allows)
            for index, debt in zip(indexes, found, strict=True):
                debts[index] = debt
        return [is_allowed, *debts]
