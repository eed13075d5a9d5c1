# SPDX-License-Identifier: Apache-2.0
"""Token buckets of one process: a number each, the longest unused forgotten first."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from tidings.limiters.counting import interval_us, milliseconds, most_debt_us, price_us, verdict
from tidings.model import limits
from tidings.ports.buckets import Bucket, Verdict


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
