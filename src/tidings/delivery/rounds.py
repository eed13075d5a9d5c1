# SPDX-License-Identifier: Apache-2.0
"""Repeats rounds of background work that is stored, such as jobs and deletions."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tidings.model.refusals import Unavailable

POLL_SECONDS: Final = 2.0
"""Interval of the search for work that another process has begun or abandoned."""
PAUSE_SECONDS: Final = 0.02
"""Pause between two rounds, because messages are more urgent than such work."""


async def repeat_rounds(
    work: Callable[[], Awaitable[bool]],
    asked: asyncio.Event,
    back_off: Callable[[int], Awaitable[None]],
) -> None:
    """Repeat a round of work until this is cancelled.

    Args:
        work: Performs one round; returns whether more can be done at once.
        asked: Is set when there is new work, so that the next round does not wait.
        back_off: Waits before the n-th retry, while the store does not answer.
    """
    attempt = 0
    while True:
        asked.clear()
        try:
            is_more = await work()
        except Unavailable:
            attempt += 1
            await back_off(attempt)
            continue
        attempt = 0
        if is_more:
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await asked.wait()
