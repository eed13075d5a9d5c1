# SPDX-License-Identifier: Apache-2.0
"""A load under way: time passes, unless the server ends what should go on."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Final

from tidings.load.rest import LoadStopped

TICK_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.02


class Watch:
    """Waits for time to pass, and hears of trouble."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._has_stopped = asyncio.Event()

    def stopped(self, reason: str) -> None:
        """Something is wrong: whoever waits is told, the first reason counts."""
        if self._reason is None:
            self._reason = reason
            self._has_stopped.set()

    async def wait(self, seconds: float, tick: Callable[[], None] | None = None) -> None:
        """Let some seconds pass; `tick` is called about twice in each.

        Raises:
            LoadStopped: There was trouble.
        """
        end = perf_counter() + seconds
        while (left := end - perf_counter()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_stopped.wait(), min(left, TICK_SECONDS))
            if self._reason is not None:
                raise LoadStopped(self._reason)
            if tick is not None:
                tick()

    async def until(self, condition: Callable[[], bool], seconds_max: float) -> bool:
        """Wait until the condition holds; False if it still does not after so many seconds.

        Raises:
            LoadStopped: There was trouble.
        """
        end = perf_counter() + seconds_max
        while not condition():
            if perf_counter() > end:
                return False
            await self.wait(LOOK_SECONDS)
        return True
