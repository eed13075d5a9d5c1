# SPDX-License-Identifier: Apache-2.0
"""Estimates of the number of users of each tenant: the sum of what all processes created.

An exact count would scan the whole table. A process that dies loses what it has not added yet, and
an addition whose answer was lost may be counted twice: the number is only ever an estimate.
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
    """Counters of users, one for each tenant."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._new: Counter[str] = Counter()
        self._closing = asyncio.Event()
        self._is_adding = False
        self._tasks = Tasks("user_counts")

    def made(self, tenant: str) -> None:
        """Count one more user of the tenant."""
        self._new[tenant] += 1
        if not self._is_adding:
            self._is_adding = True
            self._tasks.start(self._add_all())

    async def about(self, tenant: str) -> int:
        """Return the stored count plus what this process has not added yet."""
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
                return  # the next round adds it
        self._new[tenant] -= count
        if not self._new[tenant]:
            del self._new[tenant]

    async def close(self) -> None:
        """Add what is left; give up if the store does not answer."""
        self._closing.set()
        await self._tasks.finish()


def count_item(tenant: str, users: int) -> Item:
    """Build the item of a tenant's counter."""
    return {**_key(tenant), "users": users}


def _key(tenant: str) -> Item:
    return of_tenant(tenant, "uc")
