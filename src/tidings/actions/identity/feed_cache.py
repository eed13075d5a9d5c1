# SPDX-License-Identifier: Apache-2.0
"""Cache of consistent store reads, valid until the revocation feed reports a change."""

from typing import Generic, TypeVar

from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.caches import LruCache

T = TypeVar("T")


class FeedBackedCache(Generic[T]):
    """Bounded cache by name; the least recently used values are evicted first.

    The owner must call `forget` for each name that the feed reports; then `get` is never stale.
    """

    def __init__(self, watch: RevocationWatch, most: int) -> None:
        self._watch = watch
        self._values: LruCache[str, T] = LruCache(most)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> T | None:
        """Return the cached value; None while the feed cannot be read."""
        return self.peek(name) if self._watch.sees else None

    def peek(self, name: str) -> T | None:
        """Return the cached value, even if it may be revoked."""
        return self._values.get(name)

    def keep(self, name: str, value: T, place: int) -> None:
        """Cache a value that was read after the watch was at this position.

        Do nothing if the watch has advanced: it may have reported this name, and reports it once.
        """
        if place == self._watch.place:
            self._values.put(name, value)

    def forget(self, name: str) -> None:
        """Remove a name, so that its next use reads the store."""
        self._values.pop(name)
