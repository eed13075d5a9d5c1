# SPDX-License-Identifier: Apache-2.0
"""Bounded queues of waiting work, one per tenant; the tenants take turns."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from tidings.diagnosis import report_queue

T = TypeVar("T")


class Dropped(NamedTuple, Generic[T]):
    """An item that was dropped because too many were waiting."""

    tenant: str
    item: T


class TenantQueues(Generic[T]):
    """Queues of waiting items, one per tenant. The tenants take turns.

    As long as the workers can serve all busy tenants, a tenant's items are delayed or dropped only
    because of its own items, not because of other tenants.
    """

    def __init__(self, name: str, *, tenant_max: int, total_max: int, at_once_max: int) -> None:
        """Create empty queues, which diagnosis shows under this name.

        `tenant_max` and `total_max` limit the waiting items per tenant and in total; `at_once_max`
        limits the items of a tenant that are in progress.
        """
        self._tenant_max = tenant_max
        self._total_max = total_max
        self._at_once_max = at_once_max
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()
        """The queues of tenants with waiting items; the tenant whose turn is next is first."""
        self._waiting = 0
        self._running: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        report_queue(name, self)

    def depths(self) -> Mapping[str, int]:
        """Return the number of waiting items, of items in progress, and of waiting tenants."""
        running = self._running.total()
        return {"waiting": self._waiting, "running": running, "tenants": len(self._queues)}

    async def put(self, tenant: str, item: T) -> Dropped[T] | None:
        """Queue an item; return the item that was dropped, or None if none was dropped.

        If the tenant's queue is full, the new item is dropped. If the total is too high, the newest
        item in the longest queue is dropped, which may be the new item.
        """
        queue = self._queues.get(tenant, deque())
        if len(queue) >= self._tenant_max:
            return Dropped(tenant, item)
        dropped = None
        if self._waiting >= self._total_max:
            longest = max(self._queues, key=lambda name: len(self._queues[name]))
            if len(self._queues[longest]) <= len(queue) + 1:
                return Dropped(tenant, item)
            dropped = Dropped(longest, self._take(longest, newest=True))
        queue.append(item)
        self._queues.setdefault(tenant, queue)
        self._waiting += 1
        async with self._changed:
            self._changed.notify_all()
        return dropped

    async def get(self) -> tuple[str, T]:
        """Return the next item of the tenant whose turn it is.

        The caller must call `done` when the item is finished.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._turn() is not None)
            tenant = self._turn()
            assert tenant is not None, "the condition says so"
            item = self._take(tenant, newest=False)
            if tenant in self._queues:
                self._queues.move_to_end(tenant)
            self._running[tenant] += 1
            return tenant, item

    async def done(self, tenant: str) -> None:
        """Record that an item of the tenant is finished."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        async with self._changed:
            self._changed.notify_all()

    async def join(self) -> None:
        """Wait until no item is waiting or in progress."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._queues and not self._running)

    def _turn(self) -> str | None:
        """Return the tenant whose turn it is, or None if no item may start now.

        The loop skips tenants with too many items in progress. These are few, because each of them
        occupies several workers.
        """
        for tenant in self._queues:
            if self._running[tenant] < self._at_once_max:
                return tenant
        return None

    def _take(self, tenant: str, *, newest: bool) -> T:
        queue = self._queues[tenant]
        item = queue.pop() if newest else queue.popleft()
        self._waiting -= 1
        if not queue:
            del self._queues[tenant]
        return item
