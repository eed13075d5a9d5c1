# SPDX-License-Identifier: Apache-2.0
"""Work that waits in line and is done on the loop in slices of a few milliseconds.

A thousand frames at once, or one message to a thousand members, would otherwise hold the loop
until the last of them is done, and everybody else with it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, TypeVar

T = TypeVar("T")

SLICE_SECONDS: Final = 0.003


class Slices:
    """A line of things to do, first come, first served; as long as those who stand in it let it.

    Between two slices the loop turns once: sockets are read and written, timers fire.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_scheduled = False
        self._until = 0.0
        """When what is done in this turn has to make way for the next."""

    def do(self, act: Callable[[T], None], thing: T) -> None:
        """Do this now if nobody waits and the turn has time left, else when its turn comes."""
        if self._waiting or (self._is_scheduled and perf_counter() > self._until):
            self._waiting.append((act, thing))
            return
        if not self._is_scheduled:
            self._schedule()
            self._until = perf_counter() + SLICE_SECONDS
        act(thing)

    def defer(self, act: Callable[[T], None], thing: T) -> None:
        """Do this at the end of the turn, or later; never now."""
        self._waiting.append((act, thing))
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        waiting = self._waiting
        until = perf_counter() + SLICE_SECONDS
        try:
            while waiting:
                act, thing = waiting.popleft()
                act(thing)
                if perf_counter() > until:
                    break
        finally:
            # Whatever became of one of them: the others still have their turn.
            self._is_scheduled = False
            if waiting:
                self._schedule()
