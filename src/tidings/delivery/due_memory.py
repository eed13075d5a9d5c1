# SPDX-License-Identifier: Apache-2.0
"""The due items that a process has in memory: whose turn it is, and which are tried again later."""

from collections import Counter
from collections.abc import Collection, Container, Sequence
from typing import Final, NamedTuple

from tidings.delivery.job_runner import TenantRoundRobin
from tidings.model.limits import SECOND_MS
from tidings.ports.due import Due, DueKind

HELD_MAX: Final = 2_000
"""Items of one kind that a process has in memory, so that no kind waits for another."""
TENANT_HELD_MAX: Final = 500
"""Items of one kind and one tenant that a process has in memory. If more of them are due, the
process reads further for the items of other tenants."""
RETRIED_MS: Final = 60 * SECOND_MS
"""Time after its pause in which an item is expected to be read again. An item that was cancelled
meanwhile never is."""
Name = tuple[str, int, str]


class _Pause(NamedTuple):
    until: int
    tenant: str


class HeldItems:
    """Items that were read and are not done yet. Tenants take turns."""

    def __init__(self) -> None:
        self._names: set[Name] = set()
        self._paused: dict[Name, _Pause] = {}
        """Items that are tried again, each with the time of the next attempt."""
        self._failures: dict[Name, int] = {}
        """Number of unexpected failures of items that are tried again."""
        self._turns: TenantRoundRobin[Due] = TenantRoundRobin()
        self._of_tenants: Counter[tuple[DueKind, str]] = Counter()
        self._of_kinds: Counter[DueKind] = Counter()
        self._crowded: set[tuple[DueKind, str]] = set()

    def __len__(self) -> int:
        return len(self._names)

    def has_room(self, kind: DueKind) -> bool:
        """Return True if further items of a kind may be read."""
        return self._of_kinds[kind] < HELD_MAX

    def crowded(self, kind: DueKind) -> list[str]:
        """Return the tenants who have enough items of a kind in memory: as many as they may, and
        then until half of them are done. Otherwise a process would read hundreds of items again for
        each few that are done."""
        return sorted(name for one, name in self._crowded if one == kind)

    def take(self, found: Sequence[Due], now: int) -> bool:
        """Keep items in memory as far as there is room; return True if some have to wait."""
        has_more = False
        for due in found:
            name, owner = due.name, (due.kind, due.tenant)
            pause = self._paused.get(name)
            if name in self._names or (pause is not None and pause.until > now):
                continue
            if not self.has_room(due.kind):
                return True
            if self._of_tenants[owner] >= TENANT_HELD_MAX:
                has_more = True
                continue
            self._names.add(name)
            self._paused.pop(name, None)
            self._of_tenants[owner] += 1
            if self._of_tenants[owner] >= TENANT_HELD_MAX:
                self._crowded.add(owner)
            self._of_kinds[due.kind] += 1
            self._turns.put(due.tenant, due)
        return has_more

    def next(self, busy: Container[str]) -> Due | None:
        """Return the next item of the tenant whose turn it is; tenants who are busy miss theirs."""
        return self._turns.next(busy)

    def let_go(self, due: Due) -> None:
        """Forget an item whose work is done, or is tried again later."""
        self._names.discard(due.name)
        self._of_kinds[due.kind] -= 1
        owner = due.kind, due.tenant
        self._of_tenants[owner] -= 1
        if self._of_tenants[owner] <= TENANT_HELD_MAX // 2:
            self._crowded.discard(owner)
        if not self._of_tenants[owner]:
            del self._of_tenants[owner]

    def pause(self, due: Due, until: int) -> None:
        """Leave an item alone until a time."""
        if len(self._paused) >= HELD_MAX:
            # The next round tries them once more than necessary.
            self._paused.clear()
            self._failures.clear()
        self._paused[due.name] = _Pause(until, due.tenant)

    def paused_since(self, kind: DueKind, without: Collection[str], now: int) -> int:
        """Return the time of the first item of a kind that is tried again, or now if there is none.
        The items of some tenants are left out."""
        paused = (
            at
            for (one, at, _), (until, tenant) in self._paused.items()
            if one == kind and tenant not in without and now < until + RETRIED_MS
        )
        return min(paused, default=now)

    def count_failure(self, due: Due) -> int:
        """Return how often the work of an item has failed unexpectedly, this time included."""
        failures = self._failures[due.name] = self._failures.get(due.name, 0) + 1
        return failures

    def forget_failures(self, due: Due) -> None:
        """Forget the failures of an item that is over."""
        self._failures.pop(due.name, None)
