# SPDX-License-Identifier: Apache-2.0
"""Offsets: events of a partition finish in any order, and are given up in the order they came."""

from collections import OrderedDict


class Offsets:
    """What was taken from each partition and is not finished, and up to where all of it is."""

    def __init__(self) -> None:
        self._open: dict[int, OrderedDict[int, bool]] = {}
        self._next: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def taken(self, partition: int, offset: int) -> None:
        """An event was taken; offsets of a partition come in ascending order."""
        self._open.setdefault(partition, OrderedDict())[offset] = False

    def finished(self, partition: int, offset: int) -> None:
        """It is done with; unless the partition was given away in the meantime."""
        taken = self._open.get(partition)
        if taken is None or offset not in taken:
            return
        taken[offset] = True
        while taken:
            first, is_finished = next(iter(taken.items()))
            if not is_finished:
                break
            del taken[first]
            self._next[partition] = first + 1

    def news(self) -> dict[int, int]:
        """Where each partition would be taken up again, if that has changed since it was told."""
        return {
            partition: offset
            for partition, offset in self._next.items()
            if self._told.get(partition) != offset
        }

    def told(self, offsets: dict[int, int]) -> None:
        """The group knows these."""
        self._told.update(offsets)

    def give_away(self, partition: int) -> None:
        """Another one takes from the partition now."""
        for of_partition in (self._open, self._next, self._told):
            of_partition.pop(partition, None)
