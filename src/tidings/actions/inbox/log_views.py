# SPDX-License-Identifier: Apache-2.0
"""The logs of inboxes as this process knows them: read on when they are asked for, kept bounded.

How old a view may be is up to the engine. Its age counts from when its reading began, so that
whatever was in the log before then is in the view.
"""

import asyncio
from collections import OrderedDict
from time import monotonic
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.inbox_reading import LogView, fold
from tidings.model.notifications import Broadcast
from tidings.model.refusals import StoreUnavailable
from tidings.ports.inboxes import Notifications
from tidings.ports.world import Clock

PAGE_ENTRIES: Final = 200
READINGS_MAX: Final = 3
_KEPT_MS_MAX: Final = limits.KEEP_DAYS_MAX * limits.DAY_MS
_ENTRY_BYTES: Final = 400
"""What an entry takes in memory besides its content, about."""

_Key = tuple[str, str]


class _Known(msgspec.Struct, frozen=True):
    view: LogView
    begun: float
    """When its reading began, on the monotonic clock."""
    size: int


class _LogReading(msgspec.Struct, frozen=True, eq=False):
    begun: float
    task: "asyncio.Task[LogView]"


class LogViews:
    """The views of all inboxes; of each the latest, the least recently used out first."""

    def __init__(self, notifications: Notifications, clock: Clock) -> None:
        self._notifications = notifications
        self._clock = clock
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._bytes = 0
        self._readings: dict[_Key, _LogReading] = {}

    async def get(self, tenant: str, inbox: str, *, age_ms: int | None = None) -> LogView:
        """The log as it was at most so long before this call, or as the engine allows.

        Raises:
            StoreUnavailable: It cannot be read now.
        """
        key = tenant, inbox
        age_ms = self._notifications.announcements_age_ms if age_ms is None else age_ms
        since = monotonic() - age_ms / limits.SECOND_MS
        while True:
            known = self._known.get(key)
            if known is not None and known.begun >= since:
                self._known.move_to_end(key)
                return known.view
            reading = self._readings.get(key) or self._begin(key)
            if reading.begun >= since:
                return await asyncio.shield(reading.task)
            # Begun too early to be of use, but there is one at a time: wait for its end.
            await asyncio.wait([reading.task])

    async def now(self, tenant: str, inbox: str) -> LogView:
        """The log by which something may be shown at once: before the loop turns again.

        Raises:
            StoreUnavailable: It cannot be read now, or only too slowly.
        """
        for _ in range(READINGS_MAX):
            await self.get(tenant, inbox)
            if (known := self._known.get((tenant, inbox))) is not None and self._is_fresh(known):
                return known.view
        raise StoreUnavailable

    def _is_fresh(self, known: _Known) -> bool:
        age_ms = self._notifications.announcements_age_ms
        # Where nobody else writes, what is known is what there is: `learn` is told of all of it.
        return age_ms == 0 or known.begun >= monotonic() - age_ms / limits.SECOND_MS

    def learn(self, entry: Broadcast) -> None:
        """Add an entry that is known to stand right after what is known; else do nothing."""
        key = entry.tenant, entry.inbox
        known = self._known.get(key)
        if known is not None and known.view.head + 1 == entry.sequence:
            self._keep(key, fold(known.view, [entry], self._clock.now()), known.begun)

    def _begin(self, key: _Key) -> _LogReading:
        # A task of its own: whoever gives up waiting must not take it away from the others.
        begun = monotonic()
        task = asyncio.get_running_loop().create_task(self._read(key, begun))
        reading = self._readings[key] = _LogReading(begun, task)
        task.add_done_callback(lambda done: self._end(key, done))
        return reading

    def _end(self, key: _Key, task: "asyncio.Task[LogView]") -> None:
        del self._readings[key]
        if not task.cancelled():
            task.exception()  # whoever waits for it gets it; if nobody does, it is of no interest

    async def _read(self, key: _Key, begun: float) -> LogView:
        known = self._known.get(key)
        view = await self._read_back(key) if known is None else known.view
        while True:
            entries = await self._notifications.announcements(
                *key, after=view.head, limit=PAGE_ENTRIES
            )
            # Somebody may have taught us entries meanwhile: these are read here as well.
            view = fold(view, entries, self._clock.now())
            if len(entries) < PAGE_ENTRIES:
                self._keep(key, view, begun)
                return view

    async def _read_back(self, key: _Key) -> LogView:
        """All that counts of a log nothing is known of."""
        now = self._clock.now()
        found: list[Broadcast] = []
        broadcasts, before = 0, None
        while before is None or before > 1:
            page = await self._notifications.last_announcements(
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
        before = self._known.pop(key, None)
        if before is not None:
            self._bytes -= before.size
            begun = max(begun, before.begun)
            if before.view.head >= view.head:
                self._put(key, _Known(before.view, begun, before.size))
                return
        self._put(key, _Known(view, begun, _size(view)))

    def _put(self, key: _Key, known: _Known) -> None:
        self._known[key] = known
        self._bytes += known.size
        while self._bytes > limits.INBOX_VIEW_BYTES_MAX and len(self._known) > 1:
            _, least = self._known.popitem(last=False)
            self._bytes -= least.size


def _size(view: LogView) -> int:
    content = sum(len(entry.box or b"") for entry in view.broadcasts)
    return content + _ENTRY_BYTES * (1 + len(view.broadcasts) + len(view.retracted))
