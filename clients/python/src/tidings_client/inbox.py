# SPDX-License-Identifier: Apache-2.0
"""An inbox of the user: list and count notifications, change their states, choose actions."""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tidings_client.notifications import Action, Notification
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
    unseen: int | None = None
    """How many of them the user has not seen; None if it is all of them."""


class StateCount(msgspec.Struct, frozen=True):
    """The numbers of unseen and unread notifications, the unread ones also by category."""

    unseen: int
    unread: int
    categories: dict[str, int]


class Acted(msgspec.Struct, frozen=True):
    """The action of a notification that the user chose first."""

    id: str
    action: str
    acted_at: datetime


class _Record(msgspec.Struct):
    id: str
    category: str | None
    sender: str | None
    received_at: datetime
    read_at: datetime | None
    message: dict[str, Any]
    host_system_id: str | None = None
    seen_at: datetime | None = None
    archived_at: datetime | None = None
    snoozed_until: datetime | None = None
    actions: list[Action] = []
    action: str | None = None
    acted_at: datetime | None = None
    collapse_key: str | None = None
    collapsed: int = 0


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
        archived: bool = False,
        snoozed: bool = False,
    ) -> NotificationPage:
        """Return a page of notifications, newest first.

        Archived and snoozed notifications are left out, unless they are asked for.

        Args:
            limit: The maximum number of notifications.
            cursor: The `next_cursor` of the page before, with the same `category` and `unread`.
            category: Return only notifications of this category.
            unread: Return only unread notifications if True, only read ones if False.
            archived: Return only archived notifications.
            snoozed: Return only notifications that are snoozed now.
        """
        query = {"limit": str(limit)}
        if cursor is not None:
            query["cursor"] = cursor
        if category is not None:
            query["category"] = category
        if unread is not None:
            query["unread"] = "true" if unread else "false"
        if archived:
            query["archived"] = "true"
        if snoozed:
            query["snoozed"] = "true"
        page = await self._rest.ask(_Page, "GET", self._path("notifications"), query=query)
        return NotificationPage([self._shown(one) for one in page.data], page.next_cursor)

    async def notifications(
        self,
        *,
        category: str | None = None,
        unread: bool | None = None,
        archived: bool = False,
        snoozed: bool = False,
    ) -> AsyncIterator[Notification]:
        """Yield all notifications, newest first; each page is requested when it is needed."""
        cursor: str | None = None
        while True:
            page = await self.page(
                cursor=cursor,
                category=category,
                unread=unread,
                archived=archived,
                snoozed=snoozed,
            )
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
        del body["chosen"]  # servers before this field would refuse it
        return await self._rest.ask(InboxPreferences, "PUT", self._path("preferences"), body)

    async def _mark(self, change: dict[str, Any]) -> Unread:
        return await self._rest.ask(Unread, "PUT", self._path("read"), change)

    async def change(
        self,
        ids: Iterable[str],
        *,
        seen: bool | None = None,
        read: bool | None = None,
        archived: bool | None = None,
        snooze_until: datetime | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> StateCount:
        """Change states of at most 100 notifications on all devices; return the counts.

        None leaves a state as it is, and False takes it away. `snooze_until=None` ends a snooze.
        Ids that the user does not have are ignored.
        """
        change: dict[str, Any] = {"ids": list(ids), **_given(seen, read, archived)}
        if snooze_until is not msgspec.UNSET:
            change["snooze_until"] = snooze_until and snooze_until.astimezone(UTC).isoformat()
        return await self._rest.ask(StateCount, "PUT", self._path("state"), change)

    async def change_before(
        self,
        time: datetime,
        *,
        seen: bool | None = None,
        read: bool | None = None,
        archived: bool | None = None,
    ) -> StateCount:
        """Set states of all notifications that were received up to a time; return the counts."""
        before = {"before": time.astimezone(UTC).isoformat()}
        change = before | _given(seen, read, archived)
        return await self._rest.ask(StateCount, "PUT", self._path("state"), change)

    async def act(self, notification_id: str, action: str) -> Acted:
        """Choose an action of a notification; return the action that was chosen first."""
        path = self._path("notifications", notification_id, "actions", action)
        return await self._rest.ask(Acted, "POST", path)

    def _path(self, *rest: str) -> str:
        return path_of("inboxes", self.name, *rest)

    def _shown(self, record: _Record) -> Notification:
        return Notification(inbox=self.name, **msgspec.structs.asdict(record))


def _given(seen: bool | None, read: bool | None, archived: bool | None) -> dict[str, Any]:
    states = {"seen": seen, "read": read, "archived": archived}
    return {name: wanted for name, wanted in states.items() if wanted is not None}
