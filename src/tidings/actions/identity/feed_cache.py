# SPDX-License-Identifier: Apache-2.0
"""What was read of the store strongly, remembered as long as the feed says nothing against it."""

from collections import OrderedDict
from typing import Generic, TypeVar

from tidings.actions.identity.revocation_watch import RevocationWatch

T = TypeVar("T")


class FeedBackedCache(Generic[T]):
    """A bounded number of things by their names; those asked for last stay.

    Whoever forgets something when the feed tells of it may trust what `get` returns.
    """

    def __init__(self, watch: RevocationWatch, most: int) -> None:
        self._watch = watch
        self._most = most
        self._held: OrderedDict[str, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, name: str) -> T | None:
        """What is remembered; nothing while the feed is not seen."""
        return self.peek(name) if self._watch.sees else None

    def peek(self, name: str) -> T | None:
        """What is remembered, though it may have stopped counting."""
        held = self._held.get(name)
        if held is not None:
            self._held.move_to_end(name)
        return held

    def keep(self, name: str, value: T, place: int) -> None:
        """Remember what was read since the watch was at this place.

        Not if it has moved on: what it told meanwhile may be about this, and is not told again.
        """
        if place != self._watch.place:
            return
        self._held[name] = value
        self._held.move_to_end(name)
        while len(self._held) > self._most:
            self._held.popitem(last=False)

    def forget(self, name: str) -> None:
        """Read it anew when it is asked for next."""
        self._held.pop(name, None)
