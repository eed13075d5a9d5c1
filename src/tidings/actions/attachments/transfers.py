# SPDX-License-Identifier: Apache-2.0
"""Limits how many files a process receives and sends at the same time, in total and per user."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tidings.model.attachments import (
    DOWNLOADS_AT_ONCE_MAX,
    UPLOADS_AT_ONCE_MAX,
    USER_DOWNLOADS_AT_ONCE_MAX,
    USER_UPLOADS_AT_ONCE_MAX,
)
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited


class Transfers:
    """Counts the transfers of a process. One that exceeds a limit is refused, and may be tried
    again."""

    def __init__(self) -> None:
        self._uploads: Counter[UserKey] = Counter()
        self._downloads: Counter[UserKey] = Counter()
        self._turn = asyncio.Lock()

    def upload(self, user: UserKey) -> AbstractAsyncContextManager[None]:
        """Return a context for receiving a file; entering it raises `RateLimited` beyond a
        limit."""
        return _counted(self._uploads, user, USER_UPLOADS_AT_ONCE_MAX, UPLOADS_AT_ONCE_MAX)

    def download(self, user: UserKey) -> AbstractAsyncContextManager[None]:
        """Return a context for sending a file; entering it raises `RateLimited` beyond a limit."""
        return _counted(self._downloads, user, USER_DOWNLOADS_AT_ONCE_MAX, DOWNLOADS_AT_ONCE_MAX)

    async def turn(self) -> None:
        """Wait until a download may decrypt its next piece: at most one download in each turn of
        the event loop.

        A client that reads as fast as the server sends would get its whole file in one turn, and
        everybody else would wait, as they would for a piece of each of many downloads.
        """
        async with self._turn:
            await asyncio.sleep(0)


@asynccontextmanager
async def _counted(
    running: Counter[UserKey], user: UserKey, user_max: int, most: int
) -> AsyncIterator[None]:
    if running[user] >= user_max or running.total() >= most:
        raise RateLimited("too many files are transferred at the same time")
    running[user] += 1
    try:
        yield
    finally:
        running[user] -= 1
        if not running[user]:
            del running[user]
