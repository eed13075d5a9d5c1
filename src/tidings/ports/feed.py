# SPDX-License-Identifier: Apache-2.0
"""Events on their way from gateways to delivery workers, where these are different processes."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class FeedUnavailable(Exception):
    """The feed does not answer. Nothing is lost by it: the relay compares the log."""


class Received(msgspec.Struct, frozen=True):
    """An event with its place in the feed."""

    partition: int
    offset: int
    value: bytes


class Feed(Protocol):
    """What is published, shared out among the workers of one group.

    Events of one chat come to one worker, in order. An event comes again, to this worker or to
    another one, unless it was reported as finished; now and then even so.
    """

    async def take(self, most: int) -> Sequence[Received]:
        """The next events, soon; perhaps none.

        Raises:
            FeedUnavailable: Try again later.
        """
        ...

    def finish(self, received: Received) -> None:
        """All that the event asks for is done. It is finished for good once all before it are."""
        ...

    async def put_aside(self, received: Received, reason: str) -> None:
        """Keep an event that nobody can deliver where an operator finds it, with the reason.

        Raises:
            FeedUnavailable: It is not kept.
        """
        ...

    async def close(self) -> None:
        """Leave the group, having told it what is finished."""
        ...
