# SPDX-License-Identifier: Apache-2.0
"""Each inbox has a log of its broadcasts: append to it, and read it through a bounded cache.

A view is the cached content of a log. The engine sets the maximum age of a view. The age is
measured from the start of the read, so a view contains every entry that was in the log when the
read began.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.inbox_reading import LogView, fold
from tidings.model.notifications import Broadcast
from tidings.model.refusals import InboxBusy, StoreUnavailable
from tidings.ports.inboxes import Notifications
from tidings.ports.world import Clock

PAGE_ENTRIES: Final = 200
READINGS_MAX: Final = 3
_KEPT_MS_MAX: Final = limits.KEEP_DAYS_MAX * limits.DAY_MS
_ENTRY_BYTES: Final = 400
"""Approximate size of an entry in memory, without its content."""

_Key = tuple[str, str]


class _Known(msgspec.Struct, frozen=True):
    view: LogView
    begun: float
    """When the read of the view began, on the monotonic clock."""
    size: int


class _LogReading(msgspec.Struct, frozen=True, eq=False):
    begun: float
    task: "asyncio.Task[LogView]"


class LogViews:
    """Caches the latest view of each inbox's log; the least recently used are evicted first."""

    def __init__(self, notifications: Notifications, clock: Clock) -> None:
        self._notifications = notifications
        self._clock = clock
        self._known: LruCache[_Key, _Known] = LruCache(
            limits.INBOX_VIEW_BYTES_MAX // _ENTRY_BYTES,
            name="broadcasts",
            size_of=lambda known: known.size,
            size_max=limits.INBOX_VIEW_BYTES_MAX,
        )
        self._readings: dict[_Key, _LogReading] = {}

    async def get(self, tenant: str, inbox: str, *, age_ms: int | None = None) -> LogView:
        """Return a view that is at most `age_ms` old; None means the engine's maximum age.

        Raises:
            StoreUnavailable: The log cannot be read now.
        """
        key = tenant, inbox
        age_ms = self._notifications.broadcasts_age_ms if age_ms is None else age_ms
        since = monotonic() - age_ms / limits.SECOND_MS
        while True:
            known = self._known.get(key)
            if known is not None and known.begun >= since:
                return known.view
            reading = self._readings.get(key) or self._begin(key)
            if reading.begun >= since:
                return await asyncio.shield(reading.task)
            # The current read began too early, but only one may run at a time: wait for its end.
            await asyncio.wait([reading.task])

    async def now(self, tenant: str, inbox: str) -> LogView:
        """Return a view that is still fresh when this returns, and until the caller's next await.

        Raises:
            StoreUnavailable: The log cannot be read now, or is read too slowly to be fresh.
        """
        for _ in range(READINGS_MAX):
            await self.get(tenant, inbox)
            if (known := self._known.peek((tenant, inbox))) is not None and self._is_fresh(known):
                return known.view
        raise StoreUnavailable

    def _is_fresh(self, known: _Known) -> bool:
        age_ms = self._notifications.broadcasts_age_ms
        # An age of 0 means that no other process writes. `learn` gets every entry of this process,
        # so the view is complete.
        return age_ms == 0 or known.begun >= monotonic() - age_ms / limits.SECOND_MS

    def learn(self, entry: Broadcast) -> None:
        """Add an entry to the cached view of its log if it is the next entry; otherwise do
        nothing."""
        key = entry.tenant, entry.inbox
        known = self._known.peek(key)
        if known is not None and known.view.head + 1 == entry.sequence:
            self._keep(key, fold(known.view, [entry], self._clock.now()), known.begun)

    def _begin(self, key: _Key) -> _LogReading:
        # Use a separate task, so that a cancelled caller does not cancel the read for the others.
        begun = monotonic()
        task = asyncio.get_running_loop().create_task(self._read(key, begun))
        reading = self._readings[key] = _LogReading(begun, task)
        task.add_done_callback(lambda done: self._end(key, done))
        return reading

    def _end(self, key: _Key, task: "asyncio.Task[LogView]") -> None:
        del self._readings[key]
        if not task.cancelled():
            task.exception()  # mark the error as retrieved; callers that wait get it anyway

    async def _read(self, key: _Key, begun: float) -> LogView:
        known = self._known.peek(key)
        view = await self._read_back(key) if known is None else known.view
        while True:
            entries = await self._notifications.broadcasts(
                *key, after=view.head, limit=PAGE_ENTRIES
            )
            # `learn` may have added entries meanwhile: they are read here as well.
            view = fold(view, entries, self._clock.now())
            if len(entries) < PAGE_ENTRIES:
                self._keep(key, view, begun)
                return view

    async def _read_back(self, key: _Key) -> LogView:
        """Read a log that is not cached, backwards from its end to the oldest visible entry."""
        now = self._clock.now()
        found: list[Broadcast] = []
        broadcasts, before = 0, None
        while before is None or before > 1:
            page = await self._notifications.last_broadcasts(
                *key, before=before, limit=PAGE_ENTRIES
            )
            for entry in page:
                if entry.kind == "retraction" or broadcasts < limits.INBOX_BROADCASTS_MAX:
                    found.append(entry)
                broadcasts += entry.kind == "broadcast" and entry.expires_at > now
            if len(page) < PAGE_ENTRIES or page[-1].posted_at + _KEPT_MS_MAX <= now:
                break
            before = page[-1].sequence
            if found[0].sequence - before >= limits.INBOX_LOG_ENTRIES_MAX:
                break
        return fold(LogView(), found[::-1], now)

    def _keep(self, key: _Key, view: LogView, begun: float) -> None:
        before = self._known.peek(key)
        if before is not None:
            begun = max(begun, before.begun)
            if before.view.head >= view.head:
                self._known.put(key, _Known(before.view, begun, before.size))
                return
        self._known.put(key, _Known(view, begun, _size(view)))


def _size(view: LogView) -> int:
    content = sum(len(entry.box or b"") for entry in view.broadcasts)
    return content + _ENTRY_BYTES * (1 + len(view.broadcasts) + len(view.retracted))


def is_never_same(_: Broadcast) -> bool:
    """Return False. This is the default of `is_same`: no other request can have appended the
    draft."""
    return False


class BroadcastAppender:
    """Appends to the logs of all inboxes, safely even if several processes append at once."""

    def __init__(
        self,
        notifications: Notifications,
        views: LogViews,
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
        complete: Callable[[Broadcast], Awaitable[None]] | None = None,
    ) -> None:
        """Create an appender; `back_off(n)` waits, with jitter, before the n-th retry. `complete`
        is called with each entry, also if the log contained it already."""
        self._complete = complete
        self._notifications = notifications
        self._views = views
        self._clock = clock
        self._back_off = back_off
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self,
        draft: Broadcast,
        *,
        after: int | None = None,
        is_same: Callable[[Broadcast], bool] = is_never_same,
    ) -> tuple[Broadcast, bool]:
        """Append the draft with a sequence and a time, unless the log already contains its entry.

        Return the entry, and whether the log already contained it. An entry is the draft's entry if
        `is_same` returns True for it. The search covers the entries after the sequence `after`, and
        those that other requests append meanwhile.

        Raises:
            InboxBusy: Other requests took every sequence that was tried.
            StoreUnavailable: The outcome is unknown.
        """
        key = draft.tenant, draft.inbox
        async with self._locks.setdefault(key, asyncio.Lock()):
            entry, is_replay = await self._found_or_appended(draft, after, is_same)
            if self._complete is not None:
                await self._complete(entry)
            return entry, is_replay

    async def _found_or_appended(
        self, draft: Broadcast, after: int | None, is_same: Callable[[Broadcast], bool]
    ) -> tuple[Broadcast, bool]:
        key = draft.tenant, draft.inbox
        view = await self._views.get(*key)
        head, head_at = view.head, view.head_at
        if after is not None and after < head:
            head, head_at = after, 0
        for attempt in range(limits.SLOT_ATTEMPTS_MAX):
            if attempt or head < view.head:
                async for entry in self._after(key, head):
                    if is_same(entry):
                        return entry, True
                    head, head_at = entry.sequence, entry.posted_at
            placed = self._placed(draft, head + 1, head_at + 1)
            if await self._notifications.append_broadcast(placed):
                self._views.learn(placed)
                return placed, False
            await self._back_off(attempt)
        raise InboxBusy

    def _placed(self, draft: Broadcast, sequence: int, not_before: int) -> Broadcast:
        return msgspec.structs.replace(
            draft, sequence=sequence, posted_at=max(self._clock.now(), not_before)
        )

    async def _after(self, key: tuple[str, str], head: int) -> AsyncIterator[Broadcast]:
        """Yield all entries after a sequence."""
        while True:
            entries = await self._notifications.broadcasts(*key, after=head, limit=PAGE_ENTRIES)
            for entry in entries:
                yield entry
            if len(entries) < PAGE_ENTRIES:
                return
            head = entries[-1].sequence
