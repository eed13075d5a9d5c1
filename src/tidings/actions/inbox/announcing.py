# SPDX-License-Identifier: Apache-2.0
"""Adding to the log of an inbox: a place is claimed as in the log of a chat."""

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


def nobody_elses(_: Broadcast) -> bool:
    """Of an entry that nobody else can have added in the same name."""
    return False


class BroadcastAppender:
    """Appends to the logs of all inboxes. Several processes may do so at once."""

    def __init__(
        self,
        notifications: Notifications,
        views: LogViews,
        clock: Clock,
        back_off: Callable[[int], Awaitable[None]],
    ) -> None:
        """`back_off` waits before the n-th new attempt at a place, with jitter."""
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
        is_same: Callable[[Broadcast], bool] = nobody_elses,
    ) -> tuple[Broadcast, bool]:
        """Append the draft, which gets its place and time; True if it was there already.

        It was if an entry is the same, among those after a sequence, or of those that others add
        meanwhile.

        Raises:
            InboxBusy: Others took every place that was tried.
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
        """All entries after a sequence."""
        while True:
            entries = await self._notifications.announcements(*key, after=head, limit=PAGE_ENTRIES)
            for entry in entries:
                yield entry
            if len(entries) < PAGE_ENTRIES:
                return
            head = entries[-1].sequence
