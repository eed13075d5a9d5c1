# SPDX-License-Identifier: Apache-2.0
"""Limits how many files a process receives and sends at the same time, in total, per tenant and
per user."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from tidings.model.attachments import (
    DOWNLOADS_AT_ONCE_MAX,
    TENANT_TRANSFERS_PER_FREE,
    UPLOADS_AT_ONCE_MAX,
    USER_DOWNLOADS_AT_ONCE_MAX,
    USER_UPLOADS_AT_ONCE_MAX,
)
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import RateLimited

_T = TypeVar("_T")


class Transfers:
    """Counts the transfers of a process. One that exceeds a limit is refused, and may be tried
    again."""

    def __init__(self) -> None:
        self._uploads = _Running(USER_UPLOADS_AT_ONCE_MAX, UPLOADS_AT_ONCE_MAX)
        self._downloads = _Running(USER_DOWNLOADS_AT_ONCE_MAX, DOWNLOADS_AT_ONCE_MAX)
        self._turn = asyncio.Lock()

    def upload(self, user: UserKey) -> AbstractContextManager[None]:
        """Return a context for receiving a file; entering it raises `RateLimited` beyond a
        limit."""
        return self._uploads.one_more(user)

    def download(self, user: UserKey) -> AbstractContextManager[None]:
        """Return a context for sending a file; entering it raises `RateLimited` beyond a limit."""
        return self._downloads.one_more(user)

    async def turn(self) -> None:
        """Wait until a download may decrypt its next piece: at most one download in each turn of
        the event loop.

        A client that reads as fast as the server sends would get its whole file in one turn, and
        everybody else would wait, as they would for a piece of each of many downloads.
        """
        async with self._turn:
            await asyncio.sleep(0)


class _Running:
    """Counts the transfers of one direction, by user and by tenant."""

    def __init__(self, user_max: int, most: int) -> None:
        self._user_max = user_max
        self._most = most
        self._of_users: Counter[UserKey] = Counter()
        self._of_tenants: Counter[str] = Counter()

    @contextmanager
    def one_more(self, user: UserKey) -> Iterator[None]:
        tenant = tenant_of(user)
        free = self._most - self._of_tenants.total()
        is_too_many = self._of_users[user] >= self._user_max
        if is_too_many or self._of_tenants[tenant] >= TENANT_TRANSFERS_PER_FREE * free:
            raise RateLimited("too many files are transferred at the same time")
        self._of_users[user] += 1
        self._of_tenants[tenant] += 1
        try:
            yield
        finally:
            _count_down(self._of_users, user)
            _count_down(self._of_tenants, tenant)


def _count_down(counter: Counter[_T], name: _T) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
