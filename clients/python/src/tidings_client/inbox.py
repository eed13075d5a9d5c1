# SPDX-License-Identifier: Apache-2.0
"""One inbox as its user sees it: what came, how much of it is unread, what has been read."""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tidings_client.events import Notification
from tidings_client.rest import Rest, path_of

PAGE_DEFAULT: Final = 50
READ_IDS_MAX: Final = 100
"""How many notifications can be marked as read in one request."""


class NotificationPage(msgspec.Struct, frozen=True):
    """Part of an inbox, newest first. Only `next_cursor` None is the end: a page may be empty."""

    data: list[Notification]
    next_cursor: str | None


class Unread(msgspec.Struct, frozen=True):
    """How much is unread, in all and by category; categories without any are left out."""

    total: int
    categories: dict[str, int]


class _Record(msgspec.Struct):
    id: str
    category: str | None
    sender: str | None
    received_at: datetime
    read_at: datetime | None
    message: dict[str, Any]
    host_system_id: str | None = None


class _Page(msgspec.Struct):
    data: list[_Record]
    next_cursor: str | None


class Inbox:
    """One inbox, by name. What is asked raises as the methods of `Api` do; an inbox that its
    tenant has not made is refused with `inbox.not_found`."""

    def __init__(self, rest: Rest, name: str) -> None:
        self.name = name
        self._rest = rest

    async def page(
        self,
        *,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
        category: str | None = None,
        unread: bool | None = None,
    ) -> NotificationPage:
        """Part of the list, newest first; `next_cursor` leads to its next part.

        Args:
            limit: How many at most.
            cursor: From the page before, asked for with the same category and `unread`.
            category: Only those of this category.
            unread: Only those that are unread, or (False) read.
        """
        query = {"limit": str(limit)}
        if cursor is not None:
            query["cursor"] = cursor
        if category is not None:
            query["category"] = category
        if unread is not None:
            query["unread"] = "true" if unread else "false"
        page = await self._rest.ask(_Page, "GET", self._path("notifications"), query=query)
        return NotificationPage([self._shown(one) for one in page.data], page.next_cursor)

    async def notifications(
        self, *, category: str | None = None, unread: bool | None = None
    ) -> AsyncIterator[Notification]:
        """All of them, newest first, page by page as they are asked for."""
        cursor: str | None = None
        while True:
            page = await self.page(cursor=cursor, category=category, unread=unread)
            for one in page.data:
                yield one
            cursor = page.next_cursor
            if cursor is None:
                return

    async def unread(self) -> Unread:
        """How much is unread."""
        return await self._rest.ask(Unread, "GET", self._path("unread"))

    async def read(self, ids: Iterable[str]) -> Unread:
        """These have been read, on all devices; what is left unread. Ids that the user does not
        have are passed over."""
        left = list(ids)
        unread = None if left else await self.unread()
        while left:
            portion, left = left[:READ_IDS_MAX], left[READ_IDS_MAX:]
            unread = await self._mark({"ids": portion})
        assert unread is not None
        return unread

    async def read_before(self, time: datetime) -> Unread:
        """All that came up to this time has been read; what is left unread."""
        return await self._mark({"before": time.astimezone(UTC).isoformat()})

    async def _mark(self, change: dict[str, Any]) -> Unread:
        return await self._rest.ask(Unread, "PUT", self._path("read"), change)

    def _path(self, last: str) -> str:
        return path_of("inboxes", self.name, last)

    def _shown(self, record: _Record) -> Notification:
        return Notification(inbox=self.name, **msgspec.structs.asdict(record))
