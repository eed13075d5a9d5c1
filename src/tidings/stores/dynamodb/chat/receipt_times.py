# SPDX-License-Identifier: Apache-2.0
"""Plans updates that move a receipt and store the time of the move, without reading the item first.

If the list of times has room, an update appends to it. A process knows a full list from the item
that its previous update returned. In this case the update replaces the list by a shorter one, on
condition that the mark has not moved meanwhile. If the process does not know the list, it appends,
so a list may become longer than it should be. Readers shorten such a list, and so does a later
update.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.receipt_times import DELIVERED_TIMES_MAX, READ_TIMES_MAX, noted
from tidings.stores.dynamodb.chat.items import times_to_numbers, to_times
from tidings.stores.dynamodb.client.retrying import Item

KNOWN_LISTS_MAX: Final = 20_000
EXCESS_MAX: Final = 8
"""A list with this many surplus elements is shortened by a separate update. A list becomes so long
only if the process had not cached it at any of its last moves."""

MARKED_UNREAD: Final = "#unread_from, #unread_number"
"""Attributes that store which part of the chat the user marked as unread."""

Mark = Literal["delivered", "read"]
_LISTS: Final[dict[Mark, tuple[str, int]]] = {
    "delivered": ("deliveries", DELIVERED_TIMES_MAX),
    "read": ("reads", READ_TIMES_MAX),
}
"""For each mark, the attribute with the times of its moves, and how many of them are kept besides
the oldest."""


class NotedTimes(msgspec.Struct, frozen=True):
    """The part of an update that stores at which time a receipt moved."""

    update: str = ""
    condition: str = ""
    values: Item = {}


class _FullList(msgspec.Struct, frozen=True, gc=False):
    mark: int
    """Sequence of the mark when the list was read."""
    numbers: list[int]


class ReceiptTimes:
    """Plans how updates store times, and caches the lists of times that are full."""

    def __init__(self) -> None:
        self._known: LruCache[tuple[str, str, Mark], _FullList] = LruCache(KNOWN_LISTS_MAX)

    def note(
        self, key: Item, moves: Mapping[Mark, int], at: int, *, appends: bool = False
    ) -> NotedTimes:
        """Return the part of an update that stores when marks moved.

        Each mark has a list of its moves. A new move is appended to the list, unless the cached
        list is full: then a shorter list replaces it, on condition that the mark has not moved
        since. With `appends`, moves are always appended, which needs no condition.

        Args:
            moves: The new sequence of each mark that moves.
        """
        update, condition = "", ""
        values: Item = {}
        for mark, sequence in moves.items() if at else ():
            name, most = _LISTS[mark]
            full = None if appends else self._known.get((key["user_id"], key["chat_id"], mark))
            if full is None:
                update += f", #{name} = list_append(if_not_exists(#{name}, :none), :{name})"
                new = times_to_numbers([(sequence, at // limits.SECOND_MS)])
                values |= {f":{name}": new, ":none": []}
            else:
                update += f", #{name} = :{name}"
                condition += f" AND #{mark} = :{mark}_before"
                times = noted(to_times(full.numbers, most), sequence, at, most)
                values |= {f":{name}": times_to_numbers(times), f":{mark}_before": full.mark}
        return NotedTimes(update, condition, values)

    def saw(self, item: Item) -> NotedTimes | None:
        """Cache the full lists of times in a receipt's item.

        Returns an update that shortens a list, if one is too long, or None.
        """
        thinning = None
        for mark, (name, most) in _LISTS.items():
            numbers = item.get(name, ())
            key = (item["user_id"], item["chat_id"], mark)
            if len(numbers) <= most:
                self._known.pop(key)
                continue
            self._known.put(key, _FullList(item[mark], numbers))
            if len(numbers) > most + EXCESS_MAX:
                kept = times_to_numbers(to_times(numbers, most))
                thinning = NotedTimes(
                    f"SET #{name} = :{name}",
                    f"#{mark} = :{mark}",
                    {f":{name}": kept, f":{mark}": item[mark]},
                )
        return thinning


class MarksUpdate(msgspec.Struct, frozen=True):
    """An update of a receipt's marks."""

    update: str
    condition: str
    new: Item
    """The new values. Each has the name of the attribute that it sets."""
    at: int = 0
    others: Item = {}
    """Values that only the condition needs."""
    removes: str = ""
    """An attribute that the update removes."""

    @property
    def moves(self) -> dict[Mark, int]:
        """The new sequence of each mark that moves."""
        marks: tuple[Mark, ...] = ("delivered", "read")
        return {mark: self.new[f":{mark}"] for mark in marks if f":{mark}" in self.new}

    def expressions(self, times: NotedTimes) -> tuple[str, str, Item]:
        """Return the update expression, its condition and its values, including the parts for the
        times."""
        removes = [MARKED_UNREAD] if ":read" in self.new else []
        removes += [self.removes] if self.removes else []
        removed = f" REMOVE {', '.join(removes)}" if removes else ""
        return (
            f"{self.update}{times.update}{removed}",
            f"{self.condition}{times.condition}",
            self.new | self.others | times.values,
        )

    def is_in(self, item: Item) -> bool:
        """Return True if a stored receipt already has the new values."""
        return all(item.get(name[1:]) == value for name, value in self.new.items())

    def advances(self, item: Item) -> bool:
        """Return True if the update would advance all of its marks in a stored receipt."""
        return all(max(item[mark], item["read"]) < far for mark, far in self.moves.items())
