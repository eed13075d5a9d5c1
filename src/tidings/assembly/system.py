# SPDX-License-Identifier: Apache-2.0
"""The clock and randomness of the machine, waits between attempts, and failpoints that exit."""

import asyncio
import os
import random
import time
from collections.abc import Mapping

from tidings.ports.world import Chance, Clock, FailpointName, Failpoints


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class SystemChance:
    """The machine's source of randomness."""

    def token(self, size: int) -> bytes:
        return os.urandom(size)


class ExitAt:
    """Failpoints that end the process like a kill, when it reaches a place for the n-th time."""

    def __init__(self, visits: Mapping[FailpointName, int]) -> None:
        self._left = dict(visits)

    def armed(self, name: FailpointName) -> bool:
        return name in self._left

    def reach(self, name: FailpointName) -> None:
        if name in self._left:
            self._left[name] -= 1
            if self._left[name] <= 0:
                os._exit(137)


def jitter_ms(most: int) -> int:
    """Return a random number of milliseconds up to `most`, to spread load; not for secrets."""
    return random.randint(0, most)


async def back_off(attempt: int) -> None:
    """Wait a random time of up to 10, 20 or 40 ms, before the next attempt to write a contended
    slot."""
    await asyncio.sleep(random.uniform(0, 0.005 * 2 ** min(attempt, 3)))


async def wait_patiently(attempt: int) -> None:
    """Wait a random time of up to ten seconds, before the next attempt to reach a service that is
    down."""
    await asyncio.sleep(random.uniform(0, min(10.0, 0.1 * 2 ** min(attempt, 10))))


_conforms: tuple[type[Clock], type[Chance], type[Failpoints]] = (SystemClock, SystemChance, ExitAt)
