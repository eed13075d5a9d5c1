# SPDX-License-Identifier: Apache-2.0
"""About how many users each tenant has, on DynamoDB: what every process made, added up.

To count them for real would be to look through the whole table. A process that dies takes what it
did not add with it, and an addition whose answer was lost may count twice: nobody is told more
than an estimate.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Final

from tidings.model.refusals import StoreUnavailable
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.errors import Item
from tidings.stores.dynamodb.client.retrying import gather_bounded
from tidings.stores.dynamodb.inbox.inbox_patterns import COUNT_USERS, SHOW_USER_COUNT
from tidings.stores.dynamodb.inbox.items import of_tenant
from tidings.tasks import Tasks

ADD_SECONDS: Final = 5.0


class UserCounts:
    """One counter for each tenant."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._new: Counter[str] = Counter()
        self._closing = asyncio.Event()
        self._is_adding = False
        self._tasks = Tasks("user_counts")

    def made(self, tenant: str) -> None:
        """The tenant has one more."""
        self._new[tenant] += 1
        if not self._is_adding:
            self._is_adding = True
            self._tasks.start(self._add_all())

    async def about(self, tenant: str) -> int:
        """What was added by all, and what this process still has to."""
        item = await self._dynamo.get(SHOW_USER_COUNT, _key(tenant)) or {}
        return int(item.get("users", 0)) + self._new[tenant]

    async def _add_all(self) -> None:
        try:
            while self._new:
                with suppress(TimeoutError):
                    async with asyncio.timeout(ADD_SECONDS):
                        await self._closing.wait()
                tenants = list(self._new)
                await gather_bounded(partial(self._add, tenant) for tenant in tenants)
        finally:
            self._is_adding = False

    async def _add(self, tenant: str) -> None:
        count = self._new[tenant]
        try:
            await self._dynamo.update(
                COUNT_USERS, _key(tenant), "ADD #users :count", values={":count": count}
            )
        except StoreUnavailable:
            if not self._closing.is_set():
                return  # once more in a while
        self._new[tenant] -= count
        if not self._new[tenant]:
            del self._new[tenant]

    async def close(self) -> None:
        """Add what is left, or give up."""
        self._closing.set()
        await self._tasks.finish()


def count_item(tenant: str, users: int) -> Item:
    """A tenant's counter."""
    return {**_key(tenant), "users": users}


def _key(tenant: str) -> Item:
    return of_tenant(tenant, "uc")
