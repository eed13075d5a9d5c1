# SPDX-License-Identifier: Apache-2.0
"""Scans whole tables for operators, at a limited rate, with a client that retries for minutes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tidings.model.refusals import StoreUnavailable
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Budget, Item, Rejected, Retrying
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.patterns import Pattern

ATTEMPTS_MAX: Final = 60
"""Maximum number of attempts at one request. With pauses of up to ten seconds between them, they
take about five minutes."""

BackOff = Callable[[int], Awaitable[None]]
"""Function that waits before another attempt, given the number of attempts so far."""
ITEMS_PER_SECOND: Final = 5_000
"""Rate of a scan: about 250 read units per second, so that a server can work at the same time."""
PAGE_ITEMS: Final = 500


class PatientDynamo(Dynamo):
    """Sends requests, and repeats a failing request for minutes.

    It gives up at once if the store has never answered. All requests must be safe to repeat.
    """

    def __init__(
        self, transport: Transport, chance: Chance, *, prefix: str, back_off: BackOff
    ) -> None:
        super().__init__(transport, Retrying(chance, Budget()), chance, prefix=prefix)
        self._back_off = back_off
        self._has_answered = False

    async def call(
        self,
        pattern: Pattern,
        request: dict[str, Any],
        *,
        tables: tuple[str, ...] | None = None,
        gives_way: bool = False,
    ) -> dict[str, Any]:
        """Send a request until it is answered.

        Raises:
            StoreUnavailable: The request was rejected, no attempt is left, or the store has never
                answered this client.
        """
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                answer = await super().call(pattern, request, tables=tables, gives_way=gives_way)
            except StoreUnavailable as unavailable:
                is_final = isinstance(unavailable.__cause__, Rejected) or attempt == ATTEMPTS_MAX
                if is_final or not self._has_answered:
                    raise
                await self._back_off(attempt)
            else:
                self._has_answered = True
                return answer
        raise AssertionError("the last attempt returns or raises")


@asynccontextmanager
async def open_patient(
    *,
    endpoint: str | None,
    region: str,
    prefix: str,
    clock: Clock,
    chance: Chance,
    back_off: BackOff,
) -> AsyncIterator[PatientDynamo]:
    """Open the tables with this prefix, on AWS or at a custom endpoint."""
    async with open_transport(endpoint=endpoint, region=region, clock=clock) as transport:
        yield PatientDynamo(transport, chance, prefix=prefix, back_off=back_off)


class Walk:
    """Scans a table in steps, each of which continues where the previous one stopped.

    After the end of the table, the scan starts over.
    """

    def __init__(self, dynamo: Dynamo, pattern: Pattern) -> None:
        self._dynamo = dynamo
        self._pattern = pattern
        self._turn = asyncio.Lock()
        self._asked: object = None
        self._pages: AsyncIterator[list[Item]] | None = None
        self._rests_until = 0.0

    async def some(self, only: str, values: dict[str, Any], limit: int) -> list[Item]:
        """Return at most `limit` items that satisfy the condition `only`.

        The list is empty only if this call has scanned the whole table and found no such item.
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
    dynamo: Dynamo,
    pattern: Pattern,
    only: str = "",
    values: dict[str, Any] | None = None,
    *,
    items_per_second: int = ITEMS_PER_SECOND,
) -> AsyncIterator[list[Item]]:
    """Yield all items that satisfy the condition `only`, in pages and in no particular order."""
    loop = asyncio.get_running_loop()
    may_go_on = loop.time()
    async for page in dynamo.scan(pattern, 0, 1, PAGE_ITEMS, only, values):
        yield page
        await asyncio.sleep(max(0.0, may_go_on - loop.time()))
        # The rate limits the items read, not those found, because the items read are billed.
        may_go_on += PAGE_ITEMS / items_per_second


async def ids_of(
    dynamo: Dynamo,
    pattern: Pattern,
    name: str,
    only: str = "",
    values: dict[str, Any] | None = None,
) -> list[str]:
    """Return the attribute `name` of all items that satisfy the condition `only`, sorted."""
    pages = whole_table(dynamo, pattern, only, values)
    return sorted([item[name] async for page in pages for item in page])
