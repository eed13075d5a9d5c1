# SPDX-License-Identifier: Apache-2.0
"""Token buckets in Redis, which all processes share: one round trip for all of a request."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from tidings.limiters.in_process import InProcessBuckets, most_debt_us, price_us, verdict
from tidings.ports.buckets import Bucket, Buckets, Verdict
from tidings.ports.cluster import RegistryUnavailable

AWAY_SECONDS: Final = 5.0
"""So long a process counts for itself before it asks a Redis that did not answer again."""

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
"""Keys: the buckets. Arguments: now in microseconds, or nothing for Redis's own time; then of each
bucket by how much its debt grows, and the most it may owe before. One that is full again is gone by
itself."""


class Link(Protocol):
    """The way to Redis that the parts of a process share."""

    def name(self, kind: str, which: str, *, together: str | None = None) -> str:
        """The name of a key, beside others with the same `together`."""
        ...

    async def run(
        self,
        script: str,
        keys: Sequence[str],
        common: Sequence[str | int],
        own: Sequence[Sequence[str | int]],
    ) -> list[tuple[list[int], Any]]:
        """Run a script on keys: answers, each with the places of the keys that it is about.

        Raises:
            RegistryUnavailable: There is none.
        """
        ...


class RedisBuckets:
    """Buckets in Redis. While it does not answer, the process counts for itself."""

    def __init__(
        self,
        link: Link,
        own: Buckets | None = None,
        *,
        now_us: Callable[[], int] | None = None,
        away_seconds: float = AWAY_SECONDS,
    ) -> None:
        """`own` counts while Redis is away. Unless `now_us` is given, time is Redis's own."""
        self._link = link
        self._own = own or InProcessBuckets()
        self._now_us = now_us
        self._away_seconds = away_seconds
        self._away_until = 0.0

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take so many tokens out of each, or none if one has fewer."""
        if time.monotonic() < self._away_until:
            return await self._own.take(buckets, tokens)
        try:
            is_allowed, *debts = await self._ask(buckets, tokens)
        except RegistryUnavailable:
            self._away_until = time.monotonic() + self._away_seconds
            return await self._own.take(buckets, tokens)
        return verdict(buckets, debts, tokens, is_allowed=bool(is_allowed))

    async def _ask(self, buckets: Sequence[Bucket], tokens: int) -> list[int]:
        # Of one subject they are together in a cluster, too, and taken from all or none. Of several
        # subjects each decides for itself there: what one gave stays taken if another is empty.
        names = [
            self._link.name("bucket", f"{one.policy}:{one.subject}", together=one.subject)
            for one in buckets
        ]
        now = "" if self._now_us is None else self._now_us()
        own = [(price_us(one, tokens), most_debt_us(one, tokens)) for one in buckets]
        is_allowed, debts = 1, [0] * len(buckets)
        for places, (allows, *found) in await self._link.run(TAKE, names, (now,), own):
            is_allowed = min(is_allowed, allows)
            for place, debt in zip(places, found, strict=True):
                debts[place] = debt
        return [is_allowed, *debts]
