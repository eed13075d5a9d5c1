# SPDX-License-Identifier: Apache-2.0
"""How far a process has searched a shard for the due items of other tenants than the largest.

A search passes by all items of the tenants who have enough items in memory. There may be a hundred
thousand of them. Items become due in the order of their times, so the next search begins where the
last one ended.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from tidings.model.limits import SECOND_MS
from tidings.ports.due import DueKind

SEARCH_MS: Final = SECOND_MS // 2
"""How often a process searches a shard."""
WHOLE_MS: Final = 30 * SECOND_MS
"""How often a search begins with the first item. It finds the items that were stored late, or by a
process whose clock is behind."""
SETTLE_MS: Final = 2 * SECOND_MS
"""Time after which a read that is not strong sees all items."""
Shard = tuple[DueKind, int]


class _Search(NamedTuple):
    passed_by: frozenset[str]
    """Tenants whose items were left out."""
    began_at: int
    is_over: bool = False
    """Whether the search came to the last item that was due."""


class DueSearches:
    """The last searches of each shard."""

    def __init__(self) -> None:
        self._last: dict[Shard, _Search] = {}
        self._whole_at: dict[Shard, int] = {}
        """When a search began with the first item."""

    def begin(self, shard: Shard, without: Collection[str], now: int) -> int | None:
        """Begin a search that leaves out the items of some tenants. Return the time of the first
        items to look at, or None if the last search was a moment ago."""
        last = self._last.get(shard)
        if last is not None and now < last.began_at + SEARCH_MS:
            return None
        since = 0
        if last is not None and last.is_over and now < self._whole_at.get(shard, 0) + WHOLE_MS:
            # Items of a tenant who was passed by then, and is not now, may be anywhere.
            since = last.began_at - SETTLE_MS if last.passed_by <= set(without) else 0
        if not since:
            self._whole_at[shard] = now
        self._last[shard] = _Search(frozenset(without), now)
        return since

    def end(self, shard: Shard, passed_by: Iterable[str]) -> None:
        """Note that the search came to the last item that was due, and whose items it left out."""
        last = self._last[shard]
        self._last[shard] = last._replace(passed_by=frozenset(passed_by), is_over=True)
