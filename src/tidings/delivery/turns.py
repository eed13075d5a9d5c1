# SPDX-License-Identifier: Apache-2.0
"""Tenants take turns: whoever has little to do does not wait for who has much."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """What waits, a line for each tenant."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()

    def put(self, tenant: str, waiting: T) -> None:
        """Stand in line behind what is the tenant's own."""
        self._lines.setdefault(tenant, deque()).append(waiting)

    def next(self) -> T | None:
        """The first of the tenant whose turn it is; None if nothing waits."""
        if not self._lines:
            return None
        tenant, line = self._lines.popitem(last=False)
        first = line.popleft()
        if line:
            self._lines[tenant] = line  # behind all others
        return first
