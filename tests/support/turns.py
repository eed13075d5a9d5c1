# SPDX-License-Identifier: Apache-2.0
"""Counts the turns of the event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def counted_turns() -> AsyncIterator[list[int]]:
    """Yield a list with one number, which grows by one in each turn."""
    turns = [0]

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        yield turns
    finally:
        counting.cancel()
