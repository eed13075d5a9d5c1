# SPDX-License-Identifier: Apache-2.0
"""Asks the search index of a chat which parts of the log to read.

The index only proposes. The messages that a search finds always come from the log, which decides
who may read them and which are gone.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.search.queries import SearchQuery
from tidings.actions.search.segments import (
    ALL_BLOCKS,
    SEGMENT_ENTRIES,
    block_of,
    blocks_with,
    first_of,
    mark_of,
    ranges_of,
    segment_of,
)
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.ports.search import IndexState, SearchIndex, Segment

SEGMENTS_AT_ONCE: Final = 64
"""Segments that are read and searched at once. Searching them takes about 5 ms, in a thread."""
SEGMENTS_AT_FIRST: Final = 16
PARTS_AT_ONCE: Final = 512
"""Lists of words that are opened at once. A segment has one for each of its authors."""
PARTS_PER_COST: Final = 4
"""Lists of words whose search costs as much as reading an entry of the log."""
PAGE_MIN: Final = 192
"""Number of entries from which on a page gets no further block."""
SETTLED_MS: Final = 10_000
"""Time after a change of the index in which reads of it, and of the messages in it, are strong."""


def bound_to(chat: ChatId, number: int) -> str:
    """Return the text to which the encryption of a segment is bound."""
    return f"search\0{chat}\0{number}"


class CandidateRange(msgspec.Struct, frozen=True):
    """The entries of a log to read next. The entries between them and the previous range have no
    match."""

    first: int
    last: int
    """Sequence of the last entry to read; lower than `first` if there is nothing to read."""
    cost: int = 0
    is_settled: bool = False
    """Whether none of the entries has changed in the last seconds."""
    began_at: int = 0
    """If there is nothing to read: the time of the first entry."""


class Candidates:
    """Finds the blocks of a log in which a query may find messages, newest first.

    The index may be used after `saw` was called for all entries after the end of the index, and for
    the last entry in it. This entry shows that the log was not restored since it was indexed.
    """

    def __init__(
        self,
        index: SearchIndex,
        vault: Vault,
        chat: ChatId,
        state: IndexState,
        query: SearchQuery,
        sender: UserKey | None,
        now: int,
    ) -> None:
        self._index = index
        self._vault = vault
        self._chat = chat
        self._state = state
        self._query = query
        self._sender = sender
        self._now = now
        self._edited: dict[int, int] = {}
        """For each segment, the blocks with messages that changed after they were indexed."""
        self._changed: set[int] = set()
        """Messages that changed after the end of the index."""
        self._ranges: deque[tuple[int, int]] = deque()
        self._is_sound = False
        self._at_once = SEGMENTS_AT_FIRST

    def cover(self, position: int) -> bool:
        """Return True if the index covers all entries before a position, and may be used."""
        return self._is_sound and position <= self._state.until + 1

    def saw(self, entries: Iterable[Entry]) -> None:
        """Take note of entries: edited messages are candidates, whatever the index says."""
        for entry in entries:
            if entry.target is not None:
                self._changed.add(entry.target)
            if entry.kind == "edited" and entry.target is not None:
                number = segment_of(entry.target)
                self._edited[number] = self._edited.get(number, 0) | block_of(entry.target)
            if entry.sequence == self._state.until and mark_of(entry) == self._state.mark:
                self._is_sound = True

    async def below(self, position: int) -> CandidateRange:
        """Return the next entries to read before a position; the index must reach up to the
        position."""
        if self._ranges:
            return self._range()
        high = segment_of(position - 1)
        low = max(0, high - self._at_once + 1)
        is_strong = not self._is_index_settled
        found = await self._index.segments(self._chat, low, high, strong=is_strong)
        blocks = await self._blocks(found)
        for number in range(high, low - 1, -1):
            wanted = blocks.get(number, ALL_BLOCKS) | self._edited.get(number, 0)
            for first, last in ranges_of(number, wanted):
                if first < position:
                    self._ranges.append((first, min(last, position - 1)))
        cost = self._cost(found)
        if self._ranges:
            return self._range(cost)
        return CandidateRange(first_of(low), 0, cost, began_at=found[-1].began_at)

    def _cost(self, found: list[Segment]) -> int:
        """Return the cost of reading segments, and read fewer at once if they have many authors."""
        parts = sum(self._sender in (None, part.author) for each in found for part in each.parts)
        fitting = PARTS_AT_ONCE * len(found) // max(1, parts)
        self._at_once = max(1, min(SEGMENTS_AT_ONCE, fitting))
        return self._index.segment_cost * len(found) + parts // PARTS_PER_COST

    def _range(self, cost: int = 0) -> CandidateRange:
        """Return the next blocks that follow each other, up to the size of a page."""
        first, last = self._ranges.popleft()
        while self._ranges and self._ranges[0][1] == first - 1 and last - first < PAGE_MIN:
            first, _ = self._ranges.popleft()
        return CandidateRange(first, last, cost, self._is_settled(first, last))

    @property
    def _is_index_settled(self) -> bool:
        return self._now - self._state.changed_at >= SETTLED_MS

    def _is_settled(self, first: int, last: int) -> bool:
        """Return True if none of the entries in a range has changed in the last seconds.

        The index does not record when messages of its last segment changed.
        """
        return (
            self._is_index_settled
            and segment_of(last) < segment_of(self._state.until)
            and not any(first <= target <= last for target in self._changed)
        )

    async def _blocks(self, segments: list[Segment]) -> dict[int, int]:
        """Return the blocks to read of each segment that is complete."""
        blocks: dict[int, int] = {}
        packed: list[tuple[int, bytes]] = []
        for segment in segments:
            last = first_of(segment.number) + SEGMENT_ENTRIES - 1
            if segment.until < min(last, self._state.until):
                continue  # an old version of it was read
            is_waiting = segment.unlisted_until > self._now
            blocks[segment.number] = segment.unlisted if is_waiting else 0
            packed += [(segment.number, each) for each in await self._opened(segment)]
            await asyncio.sleep(0)  # other requests have their turn before the next segment
        for number, found in await asyncio.to_thread(_search, packed, self._query):
            blocks[number] |= found
        return blocks

    async def _opened(self, segment: Segment) -> list[bytes]:
        name = bound_to(self._chat, segment.number)
        boxes = [
            await self._vault.open_bytes(part.author, name, Sealed(part.box, part.box_key))
            for part in segment.parts
            if self._sender in (None, part.author)
        ]
        return [box for box in boxes if box is not None]


def _search(packed: list[tuple[int, bytes]], query: SearchQuery) -> list[tuple[int, int]]:
    return [(number, blocks_with(each, query)) for number, each in packed]
