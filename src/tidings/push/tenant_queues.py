# SPDX-License-Identifier: Apache-2.0
"""A bounded queue for each tenant, served in turns: a loud tenant waits for and drops its own."""

import asyncio
from collections import Counter, OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class TenantQueues(Generic[T]):
    """What waits, by tenant. Every wait and every drop of a tenant is caused by itself, as long as
    there are fewer loud tenants than workers can serve."""

    def __init__(self, *, tenant_max: int, total_max: int, at_once_max: int) -> None:
        """At most `tenant_max` wait for one tenant and `total_max` for all, and at most
        `at_once_max` of one tenant are worked on."""
        self._tenant_max = tenant_max
        self._total_max = total_max
        self._at_once_max = at_once_max
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()
        """Only tenants for whom something waits; whose turn is next comes first."""
        self._waiting = 0
        self._running: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def put(self, tenant: str, item: T) -> str | None:
        """Let it wait; returns the tenant for which something was dropped, if so.

        A tenant with too many loses what is new. If all together are too many, the tenant with the
        longest queue loses its newest, unless that is who comes now.
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
        """The next item of the tenant whose turn it is; to be followed by `done`."""
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
        """An item of the tenant's is finished with."""
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        async with self._changed:
            self._changed.notify_all()

    async def join(self) -> None:
        """Wait until nothing waits or is worked on."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._queues and not self._running)

    def _turn(self) -> str | None:
        """Whose turn it is. Few tenants are passed over: each of them keeps workers busy."""
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
