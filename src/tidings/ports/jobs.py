# SPDX-License-Identifier: Apache-2.0
"""Ports for delivery jobs and for the dead letters among them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery job: up to 100 users who each get a copy of a notification."""

    tenant: str
    inbox: str
    notification_id: str
    number: int
    """0, 1, ...: position of this portion among the notification's users."""
    users: tuple[str, ...]
    """At most 100 user ids of the tenant."""
    category: str | None
    posted_at: int
    expires_at: int


class Taken(msgspec.Struct, frozen=True):
    """A job that was taken, with its handle in the queue."""

    job: Job
    handle: str
    attempt: int
    """1, 2, ...: how often the job was taken, by the queue's count."""


class JobsUnavailable(Exception):
    """The queue does not answer. Jobs that were put may or may not be in it."""


class Jobs(Protocol):
    """A queue that loses nothing. An unfinished job comes again; sometimes a finished job does."""

    async def put(self, jobs: Sequence[Job]) -> None:
        """Put all jobs into the queue, durably. Safe to repeat: a job done twice changes nothing.

        Raises:
            JobsUnavailable: Some of the jobs may be in the queue.
        """
        ...

    async def take(self, most: int) -> Sequence[Taken]:
        """Return the next jobs, after a short wait for the first; perhaps none.

        Raises:
            JobsUnavailable: Try again later.
        """
        ...

    async def finish(self, taken: Taken) -> None:
        """Remove a job that is done from the queue.

        Raises:
            JobsUnavailable: It may come again.
        """
        ...

    async def close(self) -> None:
        """Take no more jobs. Jobs taken and not finished come again, here or elsewhere."""
        ...


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed too often and was set aside for an operator."""

    aside_id: str
    job: Job
    reason: str
    at: int


class DeadLetters(Protocol):
    """Dead letters, in the store even if the queue is not. Writes are durable on return."""

    async def keep(self, aside: DeadLetter) -> None:
        """Store a dead letter; the same id again changes nothing."""
        ...

    async def page(self, *, after: str | None, limit: int) -> list[DeadLetter]:
        """Return dead letters in the order of their ids, after an id or from the first."""
        ...

    async def get(self, aside_id: str) -> DeadLetter | None:
        """Return one dead letter."""
        ...

    async def drop(self, aside_id: str) -> None:
        """Remove a dead letter."""
        ...
