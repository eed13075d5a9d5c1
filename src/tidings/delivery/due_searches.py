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
COOL_DOWN_FACTOR: Final = 10
"""A search that goes back to earlier items reads many. So many times as long as it took, no other
search of the kind goes back."""
COOL_DOWN_MS_MAX: Final = WHOLE_MS // 2
"""An outage makes a search long, too. Other tenants must not wait much longer for it than that."""
Shard = tuple[DueKind, int]


class _Search(NamedTuple):
    passed_by: frozenset[str]
    """Tenants of whom earlier items may be left, because they were left out."""
    began_at: int
    is_over: bool = False
    """Whether the search came to the last item that was due."""


class DueSearches:
    """The last searches of each shard."""

    def __init__(self) -> None:
        self._last: dict[Shard, _Search] = {}
        self._whole_at: dict[Shard, int] = {}
        """When a search began with the first item."""
        self._going_back: dict[Shard, int] = {}
        """When the searches began that are running, and look at earlier items once more."""
        self._cooled_down_at: dict[DueKind, int] = {}
        """When the next search of a kind may go back."""

    def begin(
        self, shard: Shard, without: Collection[str], paused_since: int, now: int
    ) -> int | None:
        """Begin a search that leaves out the items of some tenants. Return the time of the first
        items to look at, or None if there is no search now.

        Args:
            shard: What to search.
            without: The tenants to leave out.
            paused_since: The time of the first item of other tenants that is tried again.
            now: The present time.
        """
        last = self._last.get(shard)
        if last is not None and now < last.began_at + SEARCH_MS:
            return None
        behind: frozenset[str] = frozenset()
        onwards = last.began_at - SETTLE_MS if last is not None and last.is_over else 0
        since = min(onwards, paused_since)
        if last is None or now >= self._whole_at.get(shard, 0) + WHOLE_MS:
            since = 0
        elif not last.passed_by <= set(without):
            since = 0  # items of a tenant who was passed by then, and is not now, may be anywhere
        if not since or since < onwards:
            if now < self._cooled_down_at.get(shard[0], 0):
                if last is None or not onwards:
                    return None
                since, behind = onwards, last.passed_by
            else:
                self._going_back[shard] = now
        if not since:
            self._whole_at[shard] = now
        self._last[shard] = _Search(behind.union(without), now)
        return since

    def end(self, shard: Shard, passed_by: Iterable[str]) -> None:
        """Note that the search came to the last item that was due, and whose items it left out."""
        last = self._last[shard]
        self._last[shard] = last._replace(passed_by=last.passed_by.union(passed_by), is_over=True)

    def stop(self, shard: Shard, now: int) -> None:
        """Note that the search of a shard has stopped, if one was running: it is over, there is no
        room for more, or the store did not answer."""
        began_at = self._going_back.pop(shard, now)
        cool_down_ms = min(COOL_DOWN_FACTOR * (now - began_at), COOL_DOWN_MS_MAX)
        kind = shard[0]
        self._cooled_down_at[kind] = max(now + cool_down_ms, self._cooled_down_at.get(kind, 0))
