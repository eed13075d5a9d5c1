# SPDX-License-Identifier: Apache-2.0
"""Delivery jobs: the users of a notification, in portions, each to be given a copy."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Give these users a copy each."""

    tenant: str
    inbox: str
    notification_id: str
    number: int
    """0, 1, ...: which portion of the notification's users this is."""
    users: tuple[str, ...]
    """At most 100 user ids of the tenant."""
    category: str | None
    posted_at: int
    expires_at: int


class Taken(msgspec.Struct, frozen=True):
    """A job with what its queue knows it by."""

    job: Job
    handle: str
    attempt: int
    """1, 2, ...: how often it was taken, as far as the queue knows."""


class JobsUnavailable(Exception):
    """The queue does not answer. What was put may or may not be there."""


class Jobs(Protocol):
    """A queue that loses nothing. A job comes again unless it was finished; at times even so."""

    async def put(self, jobs: Sequence[Job]) -> None:
        """All of them are in the queue, durably. Safe to repeat: a job done twice changes nothing.

        Raises:
            JobsUnavailable: Some of them may be there.
        """
        ...

    async def take(self, most: int) -> Sequence[Taken]:
        """The next jobs, waiting a moment for the first; perhaps none.

        Raises:
            JobsUnavailable: Try again later.
        """
        ...

    async def finish(self, taken: Taken) -> None:
        """It is done and need not come again.

        Raises:
            JobsUnavailable: It may come again.
        """
        ...

    async def close(self) -> None:
        """Take no more. What was taken and not finished comes again, here or elsewhere."""
        ...


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that nobody could do, where an operator finds it."""

    aside_id: str
    job: Job
    reason: str
    at: int


class DeadLetters(Protocol):
    """Jobs set aside, kept in the store whatever the queue is. Durable when a call returns."""

    async def keep(self, aside: DeadLetter) -> None:
        """Keep it; the same id again changes nothing."""
        ...

    async def page(self, *, after: str | None, limit: int) -> list[DeadLetter]:
        """Those that are kept, by their ids, after an id or from the first."""
        ...

    async def get(self, aside_id: str) -> DeadLetter | None:
        """One of them."""
        ...

    async def drop(self, aside_id: str) -> None:
        """Keep it no longer."""
        ...
