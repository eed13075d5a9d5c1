# SPDX-License-Identifier: Apache-2.0
"""Futures that callers of a client wait for, which all fail when the client ends."""

import asyncio
from typing import Any, TypeVar

from tidings_client.errors import TidingsError

T = TypeVar("T")


class Promises:
    """The futures that callers wait for; all of them fail when the client ends."""

    def __init__(self) -> None:
        self.end: Exception | None = None
        """The reason why the client has ended; None if it has not."""
        self._open: set[asyncio.Future[Any]] = set()

    async def wait(self, promise: "asyncio.Future[T]") -> T:
        """Wait for a future. If the client ends first, raise the reason for that."""
        if self.end is not None:
            raise self.end
        self._open.add(promise)
        try:
            return await promise
        finally:
            self._open.discard(promise)

    def break_all(self, reason: Exception) -> Exception:
        """Let all futures fail, because the client has ended; return the first reason given."""
        self.end = self.end or reason
        for promise in self._open:
            if not promise.done():
                promise.set_exception(self.end)
        return self.end


def settle(promise: "asyncio.Future[T]", outcome: T | TidingsError) -> None:
    """Set the result or the error of a future; do nothing if it is already done."""
    if promise.done():
        return
    if isinstance(outcome, TidingsError):
        promise.set_exception(outcome)
    else:
        promise.set_result(outcome)
