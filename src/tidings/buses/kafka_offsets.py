# SPDX-License-Identifier: Apache-2.0
"""The offsets up to which the events of Kafka's partitions are finished."""

from collections import OrderedDict


class Offsets:
    """Tracks the finished events of each partition, and the offset that may be committed."""

    def __init__(self) -> None:
        self._open: dict[int, OrderedDict[int, bool]] = {}
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    def taken(self, partition: int, offset: int) -> None:
        """Record that an event was taken. The offsets of a partition must ascend."""
        self._open.setdefault(partition, OrderedDict())[offset] = False

    def finished(self, partition: int, offset: int) -> None:
        """Record that an event is finished, unless another worker has got the partition
        meanwhile."""
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
        """Return the offset to commit for each partition with events finished since the last
        commit."""
        return {
            partition: offset
            for partition, offset in self._next.items()
            if self._committed.get(partition) != offset
        }

    def behind(self, partition: int, end: int) -> int:
        """Return how many events of a partition that ends here are not finished."""
        return max(0, end - self._next.get(partition, end))

    def committed(self, offsets: dict[int, int]) -> None:
        """Record that these offsets are committed."""
        self._committed.update(offsets)

    def give_away(self, partition: int) -> None:
        """Stop tracking a partition, because another worker consumes it now."""
        for of_partition in (self._open, self._next, self._committed):
            of_partition.pop(partition, None)
