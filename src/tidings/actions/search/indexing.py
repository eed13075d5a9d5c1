# SPDX-License-Identifier: Apache-2.0
"""Builds the search index of chats, in the background and behind their logs.

A chat is indexed when its log has grown by 256 entries, and when a search finds entries that are
not indexed. Nothing depends on it: until then, searches read the log.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import msgspec

from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.search.candidates import bound_to
from tidings.actions.search.scanning import is_searched, searched_text
from tidings.actions.search.segments import (
    ALL_BLOCKS,
    SEGMENT_BYTES_MAX,
    STEP_ENTRIES,
    Postings,
    block_of,
    block_range,
    is_newer,
    mark_of,
    pack,
    segment_of,
    unpack,
)
from tidings.actions.search.words import index_terms, words_line
from tidings.model.entries import Entry
from tidings.model.ids import TIME_MS_MAX, ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.bus import Appended
from tidings.ports.log import Log
from tidings.ports.search import AuthorWords, IndexState, SearchIndex, Segment
from tidings.ports.world import Clock

log = logging.getLogger("tidings.search")

CHATS_WAITING_MAX: Final = 10_000
PAUSE_SECONDS: Final = 1.0
"""Pause after the store was not available."""
RESTS_PER_STEP: Final = 9
"""After a step, the indexer rests for this many times the time of the step. It therefore uses at
most a tenth of the time of a process, and much less of a busy one, in which its steps take
longer."""
REST_SECONDS_MAX: Final = 2.0


class KeyChanged(Exception):
    """An author's content was erased while its words were being indexed."""


@dataclass(slots=True)
class Draft:
    """A segment that is being changed."""

    segment: Segment
    parts: dict[UserKey, AuthorWords]
    postings: dict[UserKey, tuple[int, Postings]] = field(default_factory=dict)
    """The parts that change: the generation of the data key, and the words."""

    @property
    def is_stored(self) -> bool:
        """Whether the segment existed before."""
        return self.segment.version > 0

    def leave_out(self, blocks: int, until: int) -> None:
        """Note that these blocks have messages that are not listed, the last of which expires at a
        time."""
        self.segment = msgspec.structs.replace(
            self.segment,
            unlisted=self.segment.unlisted | blocks,
            unlisted_until=max(self.segment.unlisted_until, until),
        )


class Indexer:
    """Indexes the chats that are reported to it, one after the other."""

    def __init__(self, log: Log, index: SearchIndex, vault: Vault, clock: Clock) -> None:
        self._log = log
        self._index = index
        self._vault = vault
        self._clock = clock
        self._waiting: dict[ChatId, None] = {}
        self._is_wanted = asyncio.Event()

    def note(self, chat: ChatId) -> None:
        """Index a chat soon. If very many chats wait already, a later search asks again."""
        if len(self._waiting) < CHATS_WAITING_MAX:
            self._waiting[chat] = None
            self._is_wanted.set()

    def on_appended(self, event: Appended) -> None:
        """Index a chat each time its log has grown by one step."""
        if event.entry.sequence % STEP_ENTRIES == 0:
            self.note(event.entry.chat_id)

    async def index_when_due(self) -> None:
        """Wait for a chat to index, and index its next entries. Chats take turns."""
        await self._is_wanted.wait()
        chat = next(iter(self._waiting))
        del self._waiting[chat]
        began = monotonic()
        try:
            if await self.step(chat):
                self.note(chat)
        except StoreUnavailable as refusal:
            log.warning("cannot index now: %s", refusal, extra={"action": "index_waits"})
            await asyncio.sleep(PAUSE_SECONDS)
        if not self._waiting:
            self._is_wanted.clear()
        await asyncio.sleep(min((monotonic() - began) * RESTS_PER_STEP, REST_SECONDS_MAX))

    async def step(self, chat: ChatId) -> bool:
        """Index the next entries of a chat; return False if there are too few, or another process
        has indexed them."""
        state = await self._index.state(chat)
        if is_newer(state.mark):
            return False  # a newer process maintains this index
        if state.until and not await self._is_current(chat, state):
            await self._index.forget(chat)
            state = IndexState()
        fresh = (await self._log.tail(chat, state.until))[:STEP_ENTRIES]
        if len(fresh) < STEP_ENTRIES or any(entry.kind == "deleted" for entry in fresh):
            return False
        drafts = await self._drafts(chat, state, fresh)
        changed_at = self._clock.now() if len(drafts) > 1 else state.changed_at
        after = IndexState(until=fresh[-1].sequence, mark=mark_of(fresh[-1]), changed_at=changed_at)
        try:
            segments = [await self._finished(chat, draft, after) for draft in drafts]
        except KeyChanged:
            return False
        return await self._index.put(chat, segments, state, after)

    async def _is_current(self, chat: ChatId, state: IndexState) -> bool:
        """Return True if the index has this format, and the log was not restored since."""
        last = await self._log.entry(chat, state.until)
        return last is not None and mark_of(last) == state.mark

    async def _drafts(self, chat: ChatId, state: IndexState, fresh: list[Entry]) -> list[Draft]:
        """Return the segments that change: the last one, and those of messages that changed."""
        number = segment_of(fresh[0].sequence)
        drafts = {number: await self._draft(chat, number, fresh[0].created_at)}
        await self._list(chat, drafts[number], fresh)
        changed = {
            entry.target
            for entry in fresh
            if entry.kind in ("edited", "redacted") and entry.target is not None
        }
        for target in sorted(changed):
            if target <= state.until:
                older = segment_of(target)
                if older not in drafts:
                    drafts[older] = await self._draft(chat, older, 0)
                await self._list_again(chat, drafts[older], target)
        return [each for each in drafts.values() if each.segment.number == number or each.is_stored]

    async def _draft(self, chat: ChatId, number: int, began_at: int) -> Draft:
        found = await self._index.segments(chat, number, number, strong=True)
        if not found:
            return Draft(Segment(number=number, until=0, began_at=began_at, version=0), {})
        return Draft(found[0], {part.author: part for part in found[0].parts})

    async def _list(self, chat: ChatId, draft: Draft, entries: Iterable[Entry]) -> None:
        """Add the words of messages to a segment."""
        messages = [entry for entry in entries if is_searched(entry)]
        await self._vault.open(messages, self._clock.now(), for_good=True)
        for entry in messages:
            if entry.content is None:
                continue
            block = block_of(entry.sequence)
            if entry.expires_at is not None:
                draft.leave_out(block, entry.expires_at)
                continue
            postings = await self._postings(chat, draft, entry.sender, entry.box_key)
            for term in index_terms(words_line(searched_text(entry))):
                postings[term] = postings.get(term, 0) | block

    async def _list_again(self, chat: ChatId, draft: Draft, target: int) -> None:
        """List the words of a block again, without those of a message that changed."""
        first, last = block_range(target)
        entries = [each for each in await self._log.tail(chat, first - 1) if each.sequence <= last]
        author = next(each.sender for each in entries if each.sequence == target)
        part = draft.parts.get(author)
        if part is not None:
            postings = await self._postings(chat, draft, author, part.box_key)
            block = block_of(target)
            for term in [term for term, blocks in postings.items() if blocks & block]:
                postings[term] &= ~block
        await self._list(chat, draft, [each for each in entries if each.sender == author])

    async def _postings(
        self, chat: ChatId, draft: Draft, author: UserKey, generation: int
    ) -> Postings:
        """Return the words of an author in a segment, to be changed.

        The words of an earlier data key are forgotten, because the content that they come from was
        erased.
        """
        known = draft.postings.get(author)
        if known is not None and known[0] >= generation:
            return known[1] if known[0] == generation else {}
        part = draft.parts.get(author)
        postings: Postings = {}
        if part is not None and part.box_key == generation:
            name = bound_to(chat, draft.segment.number)
            sealed = Sealed(part.box, part.box_key)
            packed = await self._vault.open_bytes(author, name, sealed, for_good=True)
            postings = {} if packed is None else unpack(packed)
        draft.postings[author] = generation, postings
        return postings

    async def _finished(self, chat: ChatId, draft: Draft, after: IndexState) -> Segment:
        """Return a segment as it is to be written.

        Raises:
            KeyChanged: An author's data key was replaced since the words were read.
        """
        for author, (generation, postings) in draft.postings.items():
            listed = {term: blocks for term, blocks in postings.items() if blocks}
            draft.parts.pop(author, None)
            if listed:
                packed = await asyncio.to_thread(pack, listed)
                name = bound_to(chat, draft.segment.number)
                sealed = await self._vault.seal_text(author, name, packed)
                if sealed.box_key != generation:
                    raise KeyChanged
                draft.parts[author] = AuthorWords(author, sealed.box_key, sealed.box)
        if sum(len(part.box) for part in draft.parts.values()) > SEGMENT_BYTES_MAX:
            draft.parts = {}
            draft.leave_out(ALL_BLOCKS, TIME_MS_MAX)
        is_last = draft.segment.number == segment_of(after.until)
        return msgspec.structs.replace(
            draft.segment,
            until=after.until if is_last else draft.segment.until,
            version=draft.segment.version + 1,
            parts=tuple(draft.parts.values()),
        )
