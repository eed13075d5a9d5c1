# SPDX-License-Identifier: Apache-2.0
"""Port for the token buckets of rate limits."""

from collections.abc import Sequence
from math import ceil
from typing import Protocol

import msgspec


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket that holds `burst` tokens when full and refills by `per_second`."""

    policy: str
    """Name of the limit, as clients see it."""
    subject: str
    """User, tenant or address that is limited."""
    per_second: float
    burst: int

    @property
    def seconds(self) -> int:
        """Whole seconds in which an empty bucket fills."""
        return ceil(self.burst / self.per_second)


class Verdict(msgspec.Struct, frozen=True):
    """Result of a request for tokens."""

    is_allowed: bool
    tightest: Bucket
    """The bucket that had too few tokens, or, if all had enough, the bucket with the fewest
    left."""
    left: int
    """Whole tokens left in the tightest bucket."""
    wait_ms: int
    """Time until the tightest bucket has as many tokens as requested; 0 if it has them."""


class Buckets(Protocol):
    """A bounded number of token buckets, which processes may share.

    A bucket that is not stored is full. A restart may fill all buckets.
    """

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take `tokens` from each bucket, or nothing if any bucket has fewer.

        At least one bucket must be given. A request for more tokens than a bucket can hold takes
        all tokens of a full bucket, because otherwise it could never succeed. Never raises: a
        process that cannot reach the shared buckets uses buckets of its own.
        """
        ...


class OwnBuckets(Buckets, Protocol):
    """Buckets that only this process uses, so that taking a token never waits."""

    def take_now(self, bucket: Bucket) -> int:
        """Take a token and return 0, or return the milliseconds until there is a token."""
        ...
