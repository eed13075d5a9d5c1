# SPDX-License-Identifier: Apache-2.0
"""Token buckets: how often something may be done, with a burst now and then."""

from collections.abc import Sequence
from math import ceil
from typing import Protocol

import msgspec


class Bucket(msgspec.Struct, frozen=True):
    """Holds `burst` tokens when full; `per_second` flow in. The name says whose it is."""

    policy: str
    """Which limit this is: what clients are told."""
    subject: str
    """Whom it limits."""
    per_second: float
    burst: int

    @property
    def seconds(self) -> int:
        """How long an empty one takes to fill, in whole seconds."""
        return ceil(self.burst / self.per_second)


class Verdict(msgspec.Struct, frozen=True):
    """What became of a request for tokens."""

    is_allowed: bool
    tightest: Bucket
    """The one with the least left, or the one that was empty."""
    left: int
    """Whole tokens in it."""
    wait_ms: int
    """Until it has as many tokens as were asked for; 0 if it has."""


class Buckets(Protocol):
    """Buckets by name, shared by all processes that have to; a bounded number of them.

    One that is not there is full. Nothing is promised over a restart.
    """

    async def take(self, buckets: Sequence[Bucket], tokens: int = 1) -> Verdict:
        """Take so many tokens out of each, or none if one has fewer. At least one bucket is given.

        What costs more than a bucket holds takes all of it: else it could never be had.
        Never raises: where the buckets cannot be reached, a process counts for itself.
        """
        ...


class OwnBuckets(Buckets, Protocol):
    """Buckets that this process has for itself: there is nobody to wait for."""

    def take_now(self, bucket: Bucket) -> int:
        """Take a token; returns 0, or how many milliseconds it is until there is one."""
        ...
