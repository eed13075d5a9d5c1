# SPDX-License-Identifier: Apache-2.0
"""Reads the log of one chat downwards, and finds the messages that a search asks for."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.identity.blocks import BlockLists
from tidings.actions.search.candidates import CandidateRange, Candidates
from tidings.actions.search.queries import SearchQuery
from tidings.actions.search.segments import STEP_ENTRIES
from tidings.model import limits
from tidings.model.blocks import masked, peers
from tidings.model.chats import Receipt
from tidings.model.entries import Entry
from tidings.model.ids import SEQUENCE_MAX, TIME_MS_MAX, ChatId, UserKey
from tidings.ports.log import Log
from tidings.ports.search import SearchIndex
from tidings.ports.world import Clock

PAGE_ENTRIES: Final = 250
"""Entries that are read at once. Decrypting and comparing them takes about 2 ms."""
PAGE_COST: Final = 25
"""Cost of reading a page, in entries, apart from the entries on it."""
SEEK_COST: Final = 5
"""Cost of reading one entry to find a time in a log, in entries."""
TAIL_PAGES_MAX: Final = 4
"""Pages of entries after the end of the index that are read; beyond that, it is not used."""
CLOCKS_APART_MS: Final = 60_000
"""How far the times of neighbouring entries may be in the wrong order, because the clocks of two
processes differ."""


class Criteria(msgspec.Struct, frozen=True):
    """What a search asks for."""

    query: SearchQuery
    sender: UserKey | None = None
    after: int = -1
    """Only messages after this time are found."""
    before: int = TIME_MS_MAX + 1
    """Only messages before this time are found."""
    has_file: bool = False
    """Whether only messages with files are found."""

    def concerns(self, entry: Entry) -> bool:
        """Return True if the search may find an entry, judged without its content."""
        return (
            is_searched(entry)
            and (entry.files is not None or not self.has_file)
            and self.after < entry.created_at < self.before
            and self.sender in (None, entry.sender)
        )


def is_searched(entry: Entry) -> bool:
    """Return True if an entry is a message with text or with files."""
    return entry.kind == "message" and (_is_text(entry) or entry.files is not None)


def searched_text(entry: Entry) -> str:
    """Return the searchable text of a decrypted message: its text, and the names of its files."""
    text = (entry.content or "") if _is_text(entry) else ""
    return "\n".join([text, *(file.name for file in entry.attachments)])


def _is_text(entry: Entry) -> bool:
    return (entry.content_type or "text/").startswith("text/")


class FoundMessage(msgspec.Struct):
    """A message that a search found, with the receipts of its chat."""

    entry: Entry
    receipts: tuple[Receipt, ...]
    highlights: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What all scans of one request have in common."""

    log: Log
    vault: Vault
    clock: Clock
    reader: UserKey
    criteria: Criteria
    blocks: BlockLists
    index: SearchIndex
    note: Callable[[ChatId], None]
    """Called with a chat that has too many entries without an index."""


@dataclass(slots=True)
class ChatScan:
    """The scan of one chat, from its newest message downwards.

    Everything at or above `position` has been looked at, except for `waiting`: messages that were
    found and not taken yet.
    """

    reading: Reading
    criteria: Criteria
    chat: ChatId
    head: int
    """Sequence of the last entry of the log; a few newer entries may exist."""
    newest: int
    """Time of the last message before `position`, or a later time."""
    position: int = SEQUENCE_MAX
    waiting: deque[FoundMessage] = field(default_factory=deque)
    is_begun: bool = False
    is_read: bool = False
    """Whether the rest of the log has been read."""
    indexed: int = 0
    """Sequence of the last entry that is indexed."""
    candidates: Candidates | None = None
    """The candidates of the index, if there is one."""
    is_closed: bool = False
    """Whether the reader is not a member of the chat."""
    receipts: tuple[Receipt, ...] | None = None
    """The receipts of the chat, once a page of it was read for the reader in this request."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more can be found."""
        return self.is_read and not self.waiting

    @property
    def next_time(self) -> int:
        """Time of the message that is found next, or a later time."""
        return self.waiting[0].entry.created_at if self.waiting else self.newest

    @property
    def resume_at(self) -> int:
        """Position from which a later request continues; 0 if nothing is left."""
        if self.waiting:
            return self.waiting[0].entry.sequence + 1
        return 0 if self.is_read else self.position

    async def step(self) -> int:
        """Read the next entries, and return the cost; a reader who was removed finds nothing."""
        cost = 0
        if not self.is_begun:
            self.is_begun = True
            cost = await self._skip_newer() + await self._open_index()
            if self.waiting:
                return cost
        candidates = self.candidates
        if candidates is None or not candidates.cover(self.position):
            return cost + await self._read_page(PAGE_ENTRIES, only_messages=candidates is None)
        candidate = await candidates.below(self.position)
        cost += candidate.cost
        if candidate.first <= candidate.last:
            self.position = candidate.last + 1
            if candidate.is_settled and await self._read_settled(candidate):
                return cost + PAGE_COST + candidate.last - candidate.first + 1
            cost += await self._read_page(candidate.last - candidate.first + 1, only_messages=False)
        else:
            self._reach(candidate.first, candidate.began_at)
        return cost

    async def _read_settled(self, candidate: CandidateRange) -> bool:
        """Look at entries that have not changed since the reader was last known to be a member, and
        that a cheap read can therefore return; return False if that is not certain."""
        if self.receipts is None:
            return False
        reading = self.reading
        messages = await reading.log.settled_messages(
            self.chat, reading.reader, candidate.first, candidate.last
        )
        recent = reading.clock.now() - CLOCKS_APART_MS
        if any(entry.edited_at is not None and entry.edited_at > recent for entry in messages):
            return False
        await self._look_at(messages, self.receipts)
        self._reach(candidate.first, messages[-1].created_at if messages else self.newest)
        return True

    async def _read_page(self, limit: int, *, only_messages: bool) -> int:
        page = await self.reading.log.page(
            self.chat,
            self.reading.reader,
            before=self.position,
            limit=limit,
            only_messages=only_messages,
        )
        if page is None:
            self.waiting.clear()
            self.is_read = self.is_closed = True
            return PAGE_COST
        self.receipts = page.receipts
        if self.candidates is not None:
            self.candidates.saw(page.entries)
        if page.head.sequence - self.indexed >= STEP_ENTRIES:
            self.reading.note(self.chat)
        await self._look_at(page.entries, page.receipts)
        cost = PAGE_COST + min(self.position, page.head.sequence + 1) - (page.next or 1)
        self._reach(page.next or 1, page.entries[-1].created_at if page.entries else self.newest)
        return cost

    def _reach(self, position: int, newest: int) -> None:
        """Note that everything at or above a position has been looked at."""
        self.position = position
        self.newest = min(self.newest, newest)
        is_past = self.newest < self.criteria.after - CLOCKS_APART_MS
        self.is_read = position <= 1 or is_past

    async def _open_index(self) -> int:
        """Get ready to use the index, if it reaches far enough; return the cost.

        Everything after the end of the index must be read, to see what was edited since. If the
        scan does not begin at the end of the log, this is done here.
        """
        if self.head < STEP_ENTRIES:
            return 0
        reading, criteria = self.reading, self.criteria
        state = await reading.index.state(self.chat)
        self.indexed = state.until
        if state.until == 0:
            return 0
        candidates = Candidates(
            reading.index,
            reading.vault,
            self.chat,
            state,
            criteria.query,
            criteria.sender,
            reading.clock.now(),
        )
        self.candidates = candidates
        if self.position == SEQUENCE_MAX:
            return await self._read_tail(state.until)
        cost, after = 0, state.until - 1
        for _ in range(TAIL_PAGES_MAX):
            entries = await reading.log.tail(self.chat, after)
            candidates.saw(entries)
            cost += PAGE_COST + len(entries)
            if len(entries) < limits.TAIL_ENTRIES_MAX:
                return cost
            after = entries[-1].sequence
        self.candidates = None
        return cost

    async def _read_tail(self, until: int) -> int:
        """Look at the entries from the end of the index on, if they fit on a page.

        Otherwise the scan goes on from the end of the log.
        """
        reading, limit = self.reading, STEP_ENTRIES + 1
        page = await reading.log.page(self.chat, reading.reader, after=until - 1, limit=limit)
        if page is None or page.next is not None or not page.entries:
            return PAGE_COST
        assert self.candidates is not None
        self.receipts = page.receipts
        self.candidates.saw(page.entries)
        await self._look_at(reversed(page.entries), page.receipts)
        self._reach(until, page.entries[0].created_at)
        return PAGE_COST + len(page.entries)

    async def _look_at(self, entries: Iterable[Entry], receipts: tuple[Receipt, ...]) -> None:
        """Keep those of the entries that the search asks for."""
        blocks = await self.reading.blocks.of(self.reading.reader, peers(receipts))
        concerned = [
            entry
            for entry in entries
            if entry.sender not in blocks.blocked and self.criteria.concerns(entry)
        ]
        await self.reading.vault.open(concerned, self.reading.clock.now())
        query = self.criteria.query
        receipts = tuple(masked(receipt, self.chat, blocks) for receipt in receipts)
        for entry in concerned:
            if entry.content is not None and query.matches(searched_text(entry)):
                marked = query.highlights(entry.content) if _is_text(entry) else []
                self.waiting.append(FoundMessage(entry, receipts, marked))
        await asyncio.sleep(0)  # other requests have their turn before the next page

    async def _skip_newer(self) -> int:
        """Skip entries that are too new for the search, and return the cost of finding them.

        The times in a log increase, except that clocks differ.
        """
        latest = self.criteria.before + CLOCKS_APART_MS
        low, high, cost = 0, min(self.position, self.head + 1), 0
        while self.newest > latest and high - low > PAGE_ENTRIES:
            middle = (low + high) // 2
            entry = await self.reading.log.entry(self.chat, middle)
            cost += SEEK_COST
            if entry is None or entry.created_at > latest:
                high = middle
            else:
                low = middle
        if cost:
            self.position = high
        return cost
