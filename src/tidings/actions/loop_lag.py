# SPDX-License-Identifier: Apache-2.0
"""How late this process's own event loop was, while somebody waited for something else.

Who waits for an answer and is late to look at it has learnt nothing about who should have answered.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

TICK_SECONDS: Final = 0.1


class LoopLag:
    """Measures by how much timers are late."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.seconds = 0.0
        """The longest delay while it was last measured."""
        self._now = now
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure for as long as this lasts."""
        self.seconds = 0.0
        self._set_timer()
        try:
            yield
        finally:
            self._note()
            if self._timer is not None:
                self._timer.cancel()

    def _set_timer(self) -> None:
        self._due = self._now() + TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._note()
        self._set_timer()

    def _note(self) -> None:
        """One that is due and has not come yet is late as well."""
        self.seconds = max(self.seconds, self._now() - self._due)
