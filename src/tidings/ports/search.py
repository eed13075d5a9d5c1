# SPDX-License-Identifier: Apache-2.0
"""Port for the search index of each chat.

The index is a copy of words from the log, encrypted like the log. It may be missing or incomplete
at any time, because a search reads the log where the index ends.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import ChatId, UserKey


class AuthorWords(msgspec.Struct, frozen=True, array_like=True):
    """The words of one author in a segment, encrypted with the author's data key."""

    author: UserKey
    box_key: int
    """Generation of the data key that encrypted the box, and all messages listed in it."""
    box: bytes


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """The index of some consecutive entries of a chat."""

    number: int
    until: int
    """Sequence of the last entry that the segment covers."""
    began_at: int
    """Time of the first entry that the segment covers."""
    version: int = 1
    """Number of times that the segment was written."""
    unlisted: int = 0
    """Bits of the blocks with messages that are not listed, because they expire."""
    unlisted_until: int = 0
    """Time when the last of these messages has expired."""
    parts: tuple[AuthorWords, ...] = ()


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """How far the index of a chat reaches."""

    until: int = 0
    """Sequence of the last entry that is indexed."""
    mark: str = ""
    """The mark of that entry, which shows whether the log is still the one that was indexed."""
    changed_at: int = 0
    """Time when a segment was last changed because one of its messages had changed."""


class SearchIndex(Protocol):
    """Stores the index of each chat."""

    @property
    def segment_cost(self) -> int:
        """Cost of reading a segment, compared with reading an entry of the log."""
        ...

    async def state(self, chat: ChatId) -> IndexState:
        """Return how far the index reaches, from a strong read."""
        ...

    async def segments(
        self, chat: ChatId, first: int, last: int, *, strong: bool = False
    ) -> list[Segment]:
        """Return the segments with these numbers that exist, highest number first.

        Without `strong`, they may be as they were a moment ago.
        """
        ...

    async def put(
        self, chat: ChatId, segments: Sequence[Segment], before: IndexState, after: IndexState
    ) -> bool:
        """Write segments, and then how far the index reaches.

        Writes nothing more and returns False if a segment has another version than expected, or the
        index does not reach as far as `before` any more. A call that dies between two writes leaves
        a correct index.
        """
        ...

    async def forget(self, chat: ChatId) -> None:
        """Remove the index of a chat."""
        ...
