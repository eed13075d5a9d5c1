# SPDX-License-Identifier: Apache-2.0
"""Sends connected users the unread counts of inboxes: at hello, and whenever a count changes."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from msgspec import UNSET

from tidings.actions.inbox.counting import InboxNews
from tidings.actions.rate_limits import RateLimits
from tidings.gateway.client_connection import ClientConnection, ConnectedUsers
from tidings.metrics.counts import report_counts
from tidings.model.ids import UserKey
from tidings.model.inbox_reading import UnreadCount
from tidings.model.refusals import Refusal
from tidings.tasks import Tasks
from tidings.wire.frames import Hello, InboxMissed, InboxUnread, encode

RECOUNTS_WAITING_MAX: Final = 50_000
COUNTED_AT_ONCE: Final = 4
"""Limit on concurrent counts. Each may query a thousand rows, and when a notification is retracted,
a count is requested for every user who has it."""


class InboxUnreadCounts:
    """Computes the unread counts of queued users, and sends them to all devices of each user.

    If the queue is full or the store fails, no count is sent.
    """

    def __init__(
        self, hub: ConnectedUsers, count_unread: Callable[[UserKey, str], Awaitable[UnreadCount]]
    ) -> None:
        self.dropped = 0
        """Number of requests dropped because the queue was full."""
        report_counts(self, "inbox counts")
        self._hub = hub
        self._count_unread = count_unread
        self._waiting: OrderedDict[tuple[UserKey, str], None] = OrderedDict()
        self._counting = 0
        self._under_way: set[tuple[UserKey, str]] = set()
        self._again: set[tuple[UserKey, str]] = set()
        self._tasks = Tasks("recounts")

    async def close(self) -> None:
        """Cancel running counts."""
        await self._tasks.close()

    def ask(self, user: UserKey, inbox: str, *, is_urgent: bool = False) -> None:
        """Queue a count for a connected user; urgent requests go first."""
        if not self._hub.of(user):
            return
        if len(self._waiting) >= RECOUNTS_WAITING_MAX:
            self.dropped += 1
            return
        self._waiting[user, inbox] = None
        if is_urgent:
            self._waiting.move_to_end((user, inbox), last=False)
        if self._counting < COUNTED_AT_ONCE:
            self._counting += 1
            self._tasks.start(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                key, _ = self._waiting.popitem(last=False)
                if key in self._under_way:
                    # If two counts for one user ran at a time, the older might be sent last.
                    self._again.add(key)
                else:
                    await self._count(key)
        finally:
            self._counting -= 1

    async def _count(self, key: tuple[UserKey, str]) -> None:
        self._under_way.add(key)
        try:
            with suppress(Refusal):  # no frame is sent; a REST request will count again
                await self._send(*key)
        finally:
            self._under_way.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._waiting[key] = None

    async def _send(self, user: UserKey, inbox: str) -> None:
        unread = await self._count_unread(user, inbox)
        frame = encode(_unread_frame(inbox, unread))
        for connection in self._hub.of(user):
            connection.send(frame)


class InboxGreeting:
    """Sends a device the counts of the inboxes that it names in hello, before it becomes live."""

    def __init__(
        self,
        news: Callable[[UserKey, str, str | None], Awaitable[InboxNews]],
        rate_limits: RateLimits | None,
    ) -> None:
        """Set up the greeting; `news` returns the counts of one inbox for a user."""
        self._news = news
        self._limits = rate_limits

    async def greet(self, user: UserKey, connection: ClientConnection, hello: Hello) -> None:
        """Send the counts of the named inboxes.

        Each inbox counts as one request of the user. Beyond the rate limit, the device gets no
        counts; it still becomes live, and can load its inboxes later.
        """
        inboxes = hello.inboxes or {}
        if not inboxes or (self._limits and await self._limits.read(user, len(inboxes))):
            return
        async with asyncio.TaskGroup() as group:
            for inbox, last in inboxes.items():
                group.create_task(self._send(user, connection, inbox, last or None))

    async def _send(
        self, user: UserKey, connection: ClientConnection, inbox: str, last: str | None
    ) -> None:
        with suppress(Refusal):  # no such inbox, or it cannot be read now: nothing is sent
            news = await self._news(user, inbox, last)
            missed = news.missed
            connection.send(encode(_unread_frame(inbox, news.unread, news.is_exact)))
            connection.send(encode(InboxMissed(inbox, missed.count, missed.exact)))


def _unread_frame(inbox: str, unread: UnreadCount, is_exact: bool = True) -> InboxUnread:
    unseen = unread.unseen if unread.unseen != unread.total else UNSET
    return InboxUnread(inbox, unread.total, unread.categories, is_exact, unseen)
