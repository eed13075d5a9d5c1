# SPDX-License-Identifier: Apache-2.0
"""A bounded cache for values that a process keeps in memory because they may be used again."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from tidings.metrics import declared
from tidings.metrics.meters import report

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Cache of at most `most` values; the least recently used are evicted first.

    If `size_of` is given, the total size of all values is also limited, to `size_max`; a single
    value may be larger than that. No value may be None.
    """

    __slots__ = (
        "__weakref__", "_most", "_size_max", "_size_of", "_sizes", "_values", "peek", "size",
        "touch",
    )  # fmt: skip

    def __init__(
        self,
        most: int,
        *,
        name: str = "",
        size_of: Callable[[V], int] | None = None,
        size_max: int = 0,
    ) -> None:
        """Make an empty cache; one with a name is part of the metrics of this process."""
        self.size = 0
        """Total size of the values; 0 without `size_of`."""
        self._most = most
        self._size_of = size_of
        self._size_max = size_max
        self._sizes: dict[K, int] = {}
        """Size of each value when it was put, because a value may change while it is cached."""
        self._values: OrderedDict[K, V] = OrderedDict()
        # These run several times for every message: bound methods of the dict are the fastest.
        self.peek: Callable[[K], V | None] = self._values.get
        """Return the value without marking it as used; None if it is not cached."""
        self.touch: Callable[[K], None] = self._values.move_to_end
        """Mark a value that is cached as just used."""
        if name:
            report(self, lambda cache: [(declared.memory_entries, name, len(cache))])

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value and mark it as just used; None if it is not cached."""
        if (value := self.peek(key)) is not None:
            self.touch(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Cache a value as just used; it replaces an earlier value of the same key."""
        self._values[key] = value
        self.touch(key)
        if self._size_of is not None:
            self._put_size(key, self._size_of(value))
        elif len(self._values) > self._most:
            self._values.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Remove a value and return it; return None if it is not cached."""
        if self._size_of is not None:
            self.size -= self._sizes.pop(key, 0)
        return self._values.pop(key, None)

    def _put_size(self, key: K, size: int) -> None:
        self.size += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        while len(self) > 1 and (len(self) > self._most or self.size > self._size_max):
            self.pop(next(iter(self._values)))
