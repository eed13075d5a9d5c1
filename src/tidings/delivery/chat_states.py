# SPDX-License-Identifier: Apache-2.0
"""Caches the state of each chat that a worker delivers, and selects the entries to dispatch.

An entry is dispatched only to users who are members in a state that includes every earlier entry.
Therefore a removed member never receives a later entry, in whatever order events arrive.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from tidings.caches import LruCache
from tidings.metrics.counts import report_counts
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.ports.delivery import DeliveryStore, EncodedEntry
from tidings.ports.log import Log

DISPATCHED_ENTRIES_MAX: Final = 256
"""Limit on the entries of a chat that are dispatched together. If there are more, only the last of
them are dispatched, and connections read the earlier entries from the log."""
READ_ENTRIES: Final = 100
NOTICE_STATE_SECONDS: Final = 60.0
_CHANGES_STATE: Final = frozenset(
    {"created", "added", "removed", "role", "renamed", "settings", "deleted"}
)


class NotInLog(Exception):
    """An event announces an entry that the log does not have."""


class DeliveryRun(msgspec.Struct, kw_only=True):
    """Consecutive entries of one chat, and a state that includes them."""

    entries: list[Entry]
    state: ChatState


class DeliveryState(msgspec.Struct, eq=False):
    """State of one chat, and the range of its entries that this process has dispatched."""

    state: ChatState
    start: int
    dispatched: int
    """Last sequence of the range, which begins with `start`. At first the range is empty, and this
    is `start - 1`."""


class NoticeStates:
    """Caches the states of chats for which this process sends receipts, typing and unread counts.

    A gateway whose users only read never appends to their chats, so the appender does not have
    these states. A state may be outdated. This is safe, because a connection gets notices only of
    chats that it follows.
    """

    def __init__(
        self,
        known: Callable[[ChatId], ChatState | None],
        read: Callable[[ChatId], Awaitable[ChatState | None]],
    ) -> None:
        """Create an empty cache; `known` returns a state that another cache of the process has."""
        self._known = known
        self._read = read
        self._loop = asyncio.get_running_loop()
        self._cached: LruCache[ChatId, tuple[float, ChatState]] = LruCache(
            limits.CACHED_CHATS_MAX,
            name="notice states",
            size_of=lambda cached: len(cached[1].members),
            size_max=limits.CACHED_MEMBERS_MAX,
        )
        self._reading: dict[ChatId, asyncio.Task[ChatState | None]] = {}

    def cached(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state if it is cached and not too old, otherwise None."""
        state = self._known(chat)
        kept = self._cached.get(chat) if state is None else None
        return kept[1] if kept is not None and self._loop.time() < kept[0] else state

    async def state(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state from the cache or the store; concurrent calls share one read."""
        state = self.cached(chat)
        if state is not None:
            return state
        if chat not in self._reading:
            self._reading[chat] = self._loop.create_task(self._load(chat))
        return await asyncio.shield(self._reading[chat])

    def heard(self, entry: EncodedEntry) -> None:
        """Remove the entry's chat from the cache, if the entry changes the members or the name."""
        if entry.kind in _CHANGES_STATE:
            self._cached.pop(entry.chat_id)
            self._reading.pop(entry.chat_id, None)

    async def _load(self, chat: ChatId) -> ChatState | None:
        own = asyncio.current_task()
        try:
            state = await self._read(chat)
            if state is not None and self._reading.get(chat) is own:
                self._cached.put(chat, (self._loop.time() + NOTICE_STATE_SECONDS, state))
            return state
        finally:
            if self._reading.get(chat) is own:
                del self._reading[chat]


class DeliveryStates:
    """Cache of the chats that are being delivered; the least recently used chats are evicted.

    Calls for one chat must not overlap.
    """

    def __init__(self, log: Log, deliveries: DeliveryStore) -> None:
        self._log = log
        self._deliveries = deliveries
        self._by_chat: LruCache[ChatId, DeliveryState] = LruCache(
            limits.CACHED_CHATS_MAX,
            name="delivery states",
            size_of=lambda delivery: len(delivery.state.members),
            size_max=limits.CACHED_MEMBERS_MAX,
        )
        self.cold_loads = 0
        self.log_reads = 0
        report_counts(self, "chat states")

    async def run(
        self, chat: ChatId, first: int, goal: int, in_events: Mapping[int, Entry], *, is_old: bool
    ) -> DeliveryRun | None:
        """Return the next run to dispatch after events announced the entries `first` to `goal`.

        `in_events` contains young entries that the events carried. They are used instead of the
        log, unless a later entry may have changed them. If `is_old`, some of the events are old.
        Then the state is first updated from the end of the log, because members may have changed.
        Returns None if all entries were dispatched before.

        Raises:
            NotInLog: The log does not have all of these entries.
            StoreUnavailable: The log cannot be read now.
        """
        # The state is removed from the cache, so that after a failure no half-updated state stays.
        delivery = self._by_chat.pop(chat)
        if delivery is None or goal - delivery.dispatched > DISPATCHED_ENTRIES_MAX:
            delivery = await self._start_anew(chat, first, goal)
        elif is_old and (goal > delivery.dispatched or first < delivery.start):
            await self._catch_up(delivery.state)
        if first < delivery.start:
            # These entries come before those dispatched so far: two writers' events may overtake
            # each other.
            goal = min(goal, delivery.start - 1)
            found = await self._read(chat, first - 1, goal)
            entries = [entry for entry in found if entry.sequence <= goal]
        elif goal > delivery.dispatched:
            entries = _run_from_events(delivery, goal, in_events) or await self._read(
                chat, delivery.dispatched, goal
            )
        else:
            entries = []
        for entry in entries:
            if entry.sequence > delivery.state.head:
                delivery.state.fold(entry)
        self._by_chat.put(chat, delivery)
        return DeliveryRun(entries=entries, state=delivery.state.copy()) if entries else None

    def mark_dispatched(self, run: DeliveryRun) -> None:
        """Record that a run was dispatched, so that repeated events do not dispatch it again."""
        delivery = self._by_chat.peek(run.state.chat_id)
        if delivery is None:
            return
        first, last = run.entries[0].sequence, run.entries[-1].sequence
        if first == delivery.dispatched + 1:
            delivery.dispatched = last
        elif last == delivery.start - 1:
            delivery.start = first

    def known(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state if it is cached, otherwise None."""
        delivery = self._by_chat.peek(chat)
        return delivery.state if delivery is not None else None

    def forget(self, chat: ChatId) -> None:
        """Evict a chat after a failure, so that its entries are dispatched again."""
        self._by_chat.pop(chat)

    async def state(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state from the cache or the store, for frames that have no sequence."""
        return self.known(chat) or await self._log.state(chat)

    async def _start_anew(self, chat: ChatId, first: int, goal: int) -> DeliveryState:
        """Return the state of a chat that this worker has not delivered for a while.

        Others may have delivered it. The range begins after the head copy, even if the events begin
        later: the event of an earlier entry may be lost, and once the head copy is moved, nobody
        looks for its entry again.
        """
        # Before the state, which therefore includes all these entries.
        reached = (await self._deliveries.reached([chat])).get(chat, first)
        start = max(min(first, reached + 1), goal - DISPATCHED_ENTRIES_MAX + 1)
        return DeliveryState(await self._read_state(chat), start, start - 1)

    async def _read_state(self, chat: ChatId) -> ChatState:
        self.cold_loads += 1
        state = await self._log.state(chat)
        if state is None:
            raise NotInLog(f"there is no chat {chat}")
        return state

    async def _catch_up(self, state: ChatState) -> None:
        is_at_end = False
        while not is_at_end:
            missed = await self._log.tail(state.chat_id, state.head)
            for entry in missed:
                state.fold(entry)
            is_at_end = len(missed) < limits.TAIL_ENTRIES_MAX

    async def _read(self, chat: ChatId, after: int, goal: int) -> list[Entry]:
        self.log_reads += 1
        entries: list[Entry] = []
        while after < goal:
            limit = min(READ_ENTRIES, goal - after)
            found = await self._deliveries.entries(chat, after=after, limit=limit)
            if not found:
                raise NotInLog(f"the log of {chat} has nothing after {after}, let alone {goal}")
            entries += found
            after = found[-1].sequence
        return entries


def _run_from_events(
    delivery: DeliveryState, goal: int, in_events: Mapping[int, Entry]
) -> list[Entry] | None:
    """Return the entries of a run from the events alone, or None if the log has to be read.

    The log has to be read in any of these cases:

    - The events do not carry all entries of the run.
    - The head of the state is neither right before the run nor at its end. Then an entry after the
      run may have changed an entry of the run.
    - The run contains an edit, because the edited message is sent with it.
    - An entry of the run redacts a message of the run.
    """
    if delivery.state.head not in (delivery.dispatched, goal):
        return None
    run = range(delivery.dispatched + 1, goal + 1)
    entries = [in_events[sequence] for sequence in run if sequence in in_events]
    if len(entries) != len(run):
        return None
    for entry in entries:
        is_touched = entry.kind == "redacted" and entry.target is not None and entry.target in run
        if entry.kind == "edited" or is_touched:
            return None
    return entries
