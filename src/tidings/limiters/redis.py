# SPDX-License-Identifier: Apache-2.0
"""Token buckets in Redis, shared by all processes: one round trip for all buckets of a request."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from tidings.limiters.in_process import InProcessBuckets, most_debt_us, price_us, verdict
from tidings.ports.buckets import Bucket, Buckets, Verdict
from tidings.ports.delivery import RegistryUnavailable

AWAY_SECONDS: Final = 5.0
"""Time for which a process uses buckets of its own after Redis did not answer."""

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
"""Keys: the buckets. Arguments: now in microseconds, or empty for Redis's own time; then for each
bucket the debt to add, and the largest debt it may have before. A bucket that is full again
expires."""


class Link(Protocol):
    """Link to Redis that the parts of a process share."""

    def name(self, kind: str, which: str, *, together: str | None = None) -> str:
        """Return the name of a key, on the same server as others with the same `together`."""
        ...

    async def run(
        self,
        script: str,
        keys: Sequence[str],
        common: Sequence[str | int],
        own: Sequence[Sequence[str | int]],
    ) -> list[tuple[list[int], Any]]:
        """Run a script on keys; return the answers, each with the indexes of its keys.

        Raises:
            RegistryUnavailable: Redis did not answer.
        """
        ...


class RedisBuckets:
    """Buckets in Redis; while Redis does not answer, the process uses buckets of its own."""

    def __init__(
        self,
        link: Link,
        own: Buckets | None = None,
        *,
        now_us: Callable[[], int] | None = None,
        away_seconds: float = AWAY_SECONDS,
    ) -> None:
        """`own` is used while Redis is down. Without `now_us`, the time is that of Redis."""
        self._link = link
        self._own = own or InProcessBuckets()
        self._now_us = now_us
        self._away_seconds = away_seconds
        self._away_until = 0.0

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take this many tokens from each bucket, or from none if one has fewer."""
        if time.monotonic() < self._away_until:
            return await self._own.take(buckets, tokens)
        try:
            is_allowed, *debts = await self._ask(buckets, tokens)
        except RegistryUnavailable:
            self._away_until = time.monotonic() + self._away_seconds
            return await self._own.take(buckets, tokens)
        return verdict(buckets, debts, tokens, is_allowed=bool(is_allowed))

    async def _ask(self, buckets: Sequence[Bucket], tokens: int) -> list[int]:
        # The buckets of one subject are on one server of a cluster, so tokens are taken from all
        # or none. Those of several subjects are independent there: tokens taken from one subject
        # stay taken if another has none.
        names = [
            self._link.name("bucket", f"{bucket.policy}:{bucket.subject}", together=bucket.subject)
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
