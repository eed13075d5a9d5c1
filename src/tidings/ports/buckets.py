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
    """Answer to a request for tokens."""

    is_allowed: bool
    tightest: Bucket
    """The bucket with the least left, or the bucket that had too few."""
    left: int
    """Whole tokens left in the tightest bucket."""
    wait_ms: int
    """Time until the tightest bucket has as many tokens as requested; 0 if it has them."""


class Buckets(Protocol):
    """A bounded number of buckets by name, shared by all processes that need to share them.

    A bucket that is not stored is full. Nothing is promised across a restart.
    """

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take this many tokens from each bucket, or none if any has fewer; at least one bucket.

        A request for more than a bucket can hold takes all of it: otherwise it could never succeed.
        Never raises: a process that cannot reach the shared buckets counts for itself.
        """
        ...


class OwnBuckets(Buckets, Protocol):
    """Buckets of this process alone, which can be used without waiting."""

    def take_now(self, bucket: Bucket) -> int:
        """Take a token and return 0, or return the milliseconds until there is a token."""
        ...
