# SPDX-License-Identifier: Apache-2.0
"""Looking through a whole table: for operators, a page at a time, and never faster than so."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.trouble import Item

ITEMS_PER_SECOND: Final = 5_000
"""Some 250 read units, of small items: serving goes on beside it."""


PAGE_ITEMS: Final = 500


class Walk:
    """A scan in steps. Each goes on where the last one stopped, and at the end begins anew."""

    def __init__(self, dynamo: Dynamo, pattern: Pattern) -> None:
        self._dynamo = dynamo
        self._pattern = pattern
        self._turn = asyncio.Lock()
        self._asked: object = None
        self._pages: AsyncIterator[list[Item]] | None = None
        self._rests_until = 0.0

    async def some(self, only: str, values: dict[str, Any], limit: int) -> list[Item]:
        """At most so many items for which this holds.

        None only if a whole pass, begun during this call, met none.
        """
        async with self._turn:
            if self._asked != (only, values, limit):
                self._asked, self._pages = (only, values, limit), None
            is_whole = False
            while True:
                if self._pages is None:
                    self._pages = self._dynamo.scan(self._pattern, 0, 1, limit, only, values)
                    is_whole = True
                await self._rest(limit)
                page = await anext(self._pages, None)
                if page:
                    return page
                if page is None:
                    self._pages = None
                    if is_whole:
                        return []

    async def _rest(self, items: int) -> None:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._rests_until - now))
        self._rests_until = max(now, self._rests_until) + items / ITEMS_PER_SECOND


async def whole_table(
    dynamo: Dynamo, pattern: Pattern, only: str = "", values: dict[str, Any] | None = None
) -> AsyncIterator[list[Item]]:
    """Every item of a table, or those for which this holds, once, in no order."""
    loop = asyncio.get_running_loop()
    may_go_on = loop.time()
    async for page in dynamo.scan(pattern, 0, 1, PAGE_ITEMS, only, values):
        yield page
        await asyncio.sleep(max(0.0, may_go_on - loop.time()))
        # By what was looked at, not by what was found: that is what is paid for.
        may_go_on += PAGE_ITEMS / ITEMS_PER_SECOND


async def ids_of(
    dynamo: Dynamo,
    pattern: Pattern,
    name: str,
    only: str = "",
    values: dict[str, Any] | None = None,
) -> list[str]:
    """What the items of a table are called, or those for which this holds, in order."""
    pages = whole_table(dynamo, pattern, only, values)
    return sorted([item[name] async for page in pages for item in page])
