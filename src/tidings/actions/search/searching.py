# SPDX-License-Identifier: Apache-2.0
"""Search for messages over the chats of a user, newest first.

A request does a bounded amount of work. If it ends before the search is complete, its cursor says
for each chat from where the next request continues.
"""

import heapq
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.blocks import BlockLists
from tidings.actions.search.queries import parse_query
from tidings.actions.search.scanning import (
    CLOCKS_APART_MS,
    ChatScan,
    Criteria,
    FoundMessage,
    Reading,
)
from tidings.model.entries import Head
from tidings.model.ids import SEQUENCE_MAX, TIME_MS_MAX, ChatId, UserKey
from tidings.model.refusals import ChatNotFound, CursorInvalid, Invalid, RateLimited
from tidings.ports.chats import Chats
from tidings.ports.log import Log
from tidings.ports.search import SearchIndex
from tidings.ports.world import Clock

WORK_MAX: Final = 2_000
"""Cost of a request, in entries, after which it ends."""
USER_SEARCHES_MAX: Final = 2
"""Searches of a user that a process does at the same time."""
CURSOR_CHARS_MAX: Final = 131_072
"""Maximum length of a cursor. It has about 25 characters for each chat that was looked at."""
_CHAT_DIGEST_BYTES: Final = 8
_UNKNOWN: Final = Head(sequence=SEQUENCE_MAX, active_at=TIME_MS_MAX)


class Asked(msgspec.Struct, frozen=True):
    """A request to search, as the user sent it."""

    text: str
    chat: ChatId | None
    sender: UserKey | None
    after: int | None
    before: int | None
    has_file: bool = False


class Results(msgspec.Struct):
    """The messages that a request found, and how far the search got."""

    found: list[FoundMessage]
    cursor: str | None
    searched_until: int | None
    """All messages after this time have been looked at; None if the search is complete."""


class _Progress(msgspec.Struct, array_like=True):
    """How far earlier requests got; this is the payload of a cursor."""

    began_at: int
    places: dict[bytes, tuple[int, int]]
    """For each chat that was looked at, by its digest: the position from which to continue, or 0 at
    its end, and the time of the next message."""


class Search(msgspec.Struct, frozen=True):
    """Find the messages with given words, in one chat or in all chats of a user."""

    log: Log
    chats: Chats
    vault: Vault
    cursors: Cursors
    clock: Clock
    blocks: BlockLists
    index: SearchIndex
    note: Callable[[ChatId], None]
    """Called with a chat that has too many entries without an index."""
    _under_way: Counter[UserKey] = msgspec.field(default_factory=Counter)

    async def __call__(
        self, user: UserKey, asked: Asked, cursor: str | None, limit: int
    ) -> Results:
        """Return messages with decrypted content, newest first, without those of users whom the
        user blocks.

        Raises:
            Invalid: The text to search for is not valid, or the times are in the wrong order.
            CursorInvalid: The cursor is not from this search.
            ChatNotFound: The user is not a member of the chat.
            RateLimited: Two searches of the user are under way.
        """
        criteria = _criteria(asked)
        purpose = _purpose(asked)
        progress = self._progress(purpose, user, cursor)
        reading = Reading(
            self.log, self.vault, self.clock, user, criteria, self.blocks, self.index, self.note
        )
        async with self._slot(user):
            scans, cost = await self._scans(reading, asked.chat, progress)
            found, rest = await _merge(scans, limit, WORK_MAX - cost)
        if asked.chat is not None and any(scan.is_closed for scan in scans):
            raise ChatNotFound
        if not rest:
            return Results(found, None, None)
        begun = [scan for scan in scans if scan.is_begun]
        progress.places |= {_digest(s.chat): (s.resume_at, s.next_time) for s in begun}
        payload = msgspec.msgpack.encode(progress)
        until = min(self.clock.now(), max(scan.next_time for scan in rest))
        return Results(found, self.cursors.seal(purpose, user, payload), until)

    @asynccontextmanager
    async def _slot(self, user: UserKey) -> AsyncIterator[None]:
        if self._under_way[user] >= USER_SEARCHES_MAX:
            raise RateLimited(f"at most {USER_SEARCHES_MAX} searches at the same time")
        self._under_way[user] += 1
        try:
            yield
        finally:
            self._under_way[user] -= 1
            if not self._under_way[user]:
                del self._under_way[user]

    def _progress(self, purpose: str, user: UserKey, cursor: str | None) -> _Progress:
        if cursor is None:
            return _Progress(self.clock.now(), {})
        payload = self.cursors.open(purpose, user, cursor, chars_max=CURSOR_CHARS_MAX)
        try:
            return msgspec.msgpack.decode(payload, type=_Progress)
        except msgspec.DecodeError:  # an older version of the server made the cursor
            raise CursorInvalid from None

    async def _scans(
        self, reading: Reading, chat: ChatId | None, progress: _Progress
    ) -> tuple[list[ChatScan], int]:
        """Return the scans of all chats that are not done yet, and the cost of finding them.

        Finding them costs at most half of a request, so that each request gets further.
        """
        is_fresh = not progress.places and reading.criteria.before > TIME_MS_MAX
        heads = await self._heads(reading.reader, chat, is_needed=not is_fresh)
        fresh = reading.criteria
        if progress.places:  # what was sent after the first request would be out of order
            fresh = _before(fresh, progress.began_at + CLOCKS_APART_MS)
        scans: list[ChatScan] = []
        for name, head in heads.items():
            place = progress.places.get(_digest(name))
            if place is None:
                scans.append(ChatScan(reading, fresh, name, head.sequence, head.active_at))
            elif place[0] > 0:
                position, newest = place
                scans.append(
                    ChatScan(reading, reading.criteria, name, head.sequence, newest, position)
                )
        return scans, min(len(heads), WORK_MAX // 2)

    async def _heads(
        self, user: UserKey, chat: ChatId | None, *, is_needed: bool
    ) -> Mapping[ChatId, Head]:
        """Return the heads of the chats to search, which may be seconds old.

        A scan from the end of a single chat needs no head, and finds out itself whether the user is
        a member.
        """
        if chat is None:
            return {each.chat_id: each.head for each in await self.chats.list_heads(user)}
        if not is_needed:
            return {chat: _UNKNOWN}
        page = await self.log.page(chat, user, before=SEQUENCE_MAX, limit=1)
        if page is None:
            raise ChatNotFound
        return {chat: page.head}


async def _merge(
    scans: list[ChatScan], limit: int, work: int
) -> tuple[list[FoundMessage], list[ChatScan]]:
    """Return the newest messages that the scans find, and the scans that are not done."""
    found: list[FoundMessage] = []
    heap = [(-scan.next_time, place) for place, scan in enumerate(scans)]
    heapq.heapify(heap)
    while heap and len(found) < limit:
        scan = scans[heap[0][1]]
        if scan.waiting:
            found.append(scan.waiting.popleft())
        elif work > 0:
            work -= await scan.step()
        else:
            break
        if scan.is_done:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (-scan.next_time, heap[0][1]))
    return found, [scans[place] for _, place in heap]


def _criteria(asked: Asked) -> Criteria:
    if asked.after is not None and asked.before is not None and asked.after >= asked.before:
        raise Invalid("after: must be earlier than before", "/after")
    criteria = Criteria(parse_query(asked.text), asked.sender, has_file=asked.has_file)
    if asked.after is not None:
        criteria = msgspec.structs.replace(criteria, after=asked.after)
    return criteria if asked.before is None else _before(criteria, asked.before)


def _before(criteria: Criteria, time: int) -> Criteria:
    """Return the criteria, limited to messages before this time."""
    return msgspec.structs.replace(criteria, before=min(criteria.before, time))


def _purpose(asked: Asked) -> str:
    """Return the purpose of the cursors of a search; they are not valid for any other search."""
    return f"search {blake2b(msgspec.msgpack.encode(asked), digest_size=16).hexdigest()}"


def _digest(chat: ChatId) -> bytes:
    return blake2b(chat.encode(), digest_size=_CHAT_DIGEST_BYTES).digest()
