# SPDX-License-Identifier: Apache-2.0
"""Bounded queue per tenant, served round-robin: a busy tenant delays and drops only its own."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import Generic, TypeVar

from tidings.diagnosis import report_queue

T = TypeVar("T")


class TenantQueues(Generic[T]):
    """Waiting items by tenant.

    As long as there are fewer busy tenants than workers can serve, every delay and every drop of a
    tenant is caused by the tenant itself.
    """

    def __init__(self, *, tenant_max: int, total_max: int, at_once_max: int) -> None:
        """Limit the waiting items per tenant and in total, and a tenant's items in progress."""
        self._tenant_max = tenant_max
        self._total_max = total_max
        self._at_once_max = at_once_max
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()
        """Tenants with waiting items only; the tenant whose turn is next is first."""
        self._waiting = 0
        self._running: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        report_queue("push", self)

    def depths(self) -> Mapping[str, int]:
        """Return how many items wait and run, and of how many tenants."""
        running = self._running.total()
        return {"waiting": self._waiting, "running": running, "tenants": len(self._queues)}

    async def put(self, tenant: str, item: T) -> str | None:
        """Queue an item; return the tenant for which an item was dropped, if any.

        A tenant with a full queue loses the new item. If the total is too high, the tenant with
        the longest queue loses its newest item, which may be the new one.
        """
        queue = self._queues.get(tenant, deque())
        if len(queue) >= self._tenant_max:
            return tenant
        dropped = None
        if self._waiting >= self._total_max:
            dropped = max(self._queues, key=lambda name: len(self._queues[name]))
            if len(self._queues[dropped]) <= len(queue) + 1:
                return tenant
            self._take(dropped, newest=True)
        queue.append(item)
        self._queues.setdefault(tenant, queue)
        self._waiting += 1
        async with self._changed:
            self._changed.notify_all()
        return dropped

    async def get(self) -> tuple[str, T]:
        """Return the next item of the tenant whose turn it is; `done` must follow."""
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
        """Return the tenant whose turn it is.

        The loop skips few tenants: each skipped tenant occupies several workers.
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
