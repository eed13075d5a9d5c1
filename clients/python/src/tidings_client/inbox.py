# SPDX-License-Identifier: Apache-2.0
"""An inbox of the user: list notifications, count the unread ones, and mark them as read."""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tidings_client.events import Notification
from tidings_client.preferences import InboxPreferences
from tidings_client.rest import Rest, path_of

PAGE_DEFAULT: Final = 50
READ_IDS_MAX: Final = 100
"""Maximum number of notifications that one request can mark as read."""


class NotificationPage(msgspec.Struct, frozen=True):
    """A page of an inbox, newest first; it may be empty. The last page has no `next_cursor`."""

    data: list[Notification]
    next_cursor: str | None


class Unread(msgspec.Struct, frozen=True):
    """The number of unread notifications, in total and by category.

    Categories without unread notifications are left out.
    """

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
    """An inbox of the user, by name.

    Its methods raise the same errors as those of `Api`. If the tenant has no such inbox, they raise
    Refused with the code `inbox.not_found`.
    """

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
        """Return a page of notifications, newest first.

        Args:
            limit: The maximum number of notifications.
            cursor: The `next_cursor` of the page before, with the same `category` and `unread`.
            category: Return only notifications of this category.
            unread: Return only unread notifications if True, only read ones if False.
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
        """Yield all notifications, newest first; each page is requested when it is needed."""
        cursor: str | None = None
        while True:
            page = await self.page(cursor=cursor, category=category, unread=unread)
            for one in page.data:
                yield one
            cursor = page.next_cursor
            if cursor is None:
                return

    async def unread(self) -> Unread:
        """Return the number of unread notifications."""
        return await self._rest.ask(Unread, "GET", self._path("unread"))

    async def read(self, ids: Iterable[str]) -> Unread:
        """Mark notifications as read on all devices; return the number of unread notifications.

        Ids that the user does not have are ignored.
        """
        left = list(ids)
        unread = None if left else await self.unread()
        while left:
            portion, left = left[:READ_IDS_MAX], left[READ_IDS_MAX:]
            unread = await self._mark({"ids": portion})
        assert unread is not None
        return unread

    async def read_before(self, time: datetime) -> Unread:
        """Mark all notifications up to this time as read; return the number of unread ones."""
        return await self._mark({"before": time.astimezone(UTC).isoformat()})

    async def preferences(self) -> InboxPreferences:
        """Return what applies to the user: the user's choices, and the tenant's defaults."""
        return await self._rest.ask(InboxPreferences, "GET", self._path("preferences"))

    async def choose(self, preferences: InboxPreferences) -> InboxPreferences:
        """Replace the user's preferences; return what applies now.

        Categories that are left out get the tenant's defaults. A category that the tenant requires
        cannot be switched off: the code is `preferences.required`.
        """
        body = msgspec.to_builtins(preferences)
        return await self._rest.ask(InboxPreferences, "PUT", self._path("preferences"), body)

    async def _mark(self, change: dict[str, Any]) -> Unread:
        return await self._rest.ask(Unread, "PUT", self._path("read"), change)

    def _path(self, last: str) -> str:
        return path_of("inboxes", self.name, last)

    def _shown(self, record: _Record) -> Notification:
        return Notification(inbox=self.name, **msgspec.structs.asdict(record))
