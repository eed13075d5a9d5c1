# SPDX-License-Identifier: Apache-2.0
"""What callers of a client wait for: nobody waits longer than the client lives."""

import asyncio
from typing import Any, TypeVar

from tidings_client.errors import TidingsError

T = TypeVar("T")


class Promises:
    """Futures that are kept, or broken all at once when the client ends."""

    def __init__(self) -> None:
        self.end: Exception | None = None
        """Why the client has ended, if it has."""
        self._open: set[asyncio.Future[Any]] = set()

    async def wait(self, promise: "asyncio.Future[T]") -> T:
        """Wait for one. Raises the reason of the end if that comes first."""
        if self.end is not None:
            raise self.end
        self._open.add(promise)
        try:
            return await promise
        finally:
            self._open.discard(promise)

    def break_all(self, reason: Exception) -> Exception:
        """The client has ended; the first reason counts, and is returned."""
        self.end = self.end or reason
        for promise in self._open:
            if not promise.done():
                promise.set_exception(self.end)
        return self.end


def settle(promise: "asyncio.Future[T]", outcome: T | TidingsError) -> None:
    """Keep a promise, or break it with an error; nothing if nobody waits any more."""
    if promise.done():
        return
    if isinstance(outcome, TidingsError):
        promise.set_exception(outcome)
    else:
        promise.set_result(outcome)
