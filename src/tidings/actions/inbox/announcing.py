# SPDX-License-Identifier: Apache-2.0
"""Append broadcasts and retractions to the log of an inbox, at the next free sequence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from tidings.actions.inbox.log_views import LogViews
from tidings.model import limits
from tidings.model.notifications import Broadcast
from tidings.model.refusals import InboxBusy
from tidings.ports.inboxes import Notifications
from tidings.ports.world import Clock

PAGE_ENTRIES: Final = 200


def is_never_same(_: Broadcast) -> bool:
    """Return False, for a draft that no other request can have appended."""
    return False


class BroadcastAppender:
    """Appender to the logs of all inboxes, safe to use in several processes at once."""

    def __init__(
        self,
        notifications: Notifications,
        views: LogViews,
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
    ) -> None:
        """Create an appender; `back_off(n)` waits, with jitter, before the n-th retry."""
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
        """Append the draft with a sequence and a time; return the entry, and True if it existed.

        It existed if `is_same` holds for an entry after the sequence `after`, or for an entry that
        another request appends meanwhile.

        Raises:
            InboxBusy: Other requests took every sequence that was tried.
            StoreUnavailable: Unknown outcome.
        """
        key = draft.tenant, draft.inbox
        async with self._locks.setdefault(key, asyncio.Lock()):
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
                if await self._notifications.announce(placed):
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
            entries = await self._notifications.announcements(*key, after=head, limit=PAGE_ENTRIES)
            for entry in entries:
                yield entry
            if len(entries) < PAGE_ENTRIES:
                return
            head = entries[-1].sequence
