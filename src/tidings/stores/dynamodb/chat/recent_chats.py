# SPDX-License-Identifier: Apache-2.0
"""Chats with recent entries on DynamoDB, as the relay of this process finds them in the stream."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from tidings.model.ids import ChatId
from tidings.model.limits import SECOND_MS
from tidings.ports.delivery import EntryWritten
from tidings.ports.push import RecentChats
from tidings.ports.world import Clock

LISTENED_SECONDS: Final = 600.0
"""How long after the start chats are expected. The relay reads what a whole day has written; the
last minutes come at the end."""
RECENT_MS: Final = 300 * SECOND_MS
"""Age of the oldest entry that is noted. The times in the stream may be rounded down to minutes."""
NOTED_MAX: Final = 50_000
"""Maximum number of chats. The queue of push notices does not take more than this at a time."""


class DynamoRecentChats:
    """Remembers the chats of entries from the minutes before the start."""

    def __init__(self, clock: Clock) -> None:
        self._started_at = clock.now()
        self._noted: set[ChatId] = set()
        self._waiting: deque[ChatId] = deque()
        self._has_news = asyncio.Event()
        self._is_over = False
        """Whether nobody asks for chats any more."""

    def note(self, written: Sequence[EntryWritten]) -> None:
        for entry in written:
            if self._is_over or len(self._noted) >= NOTED_MAX:
                return
            is_recent = self._started_at - RECENT_MS <= entry.at <= self._started_at
            if is_recent and entry.chat not in self._noted:
                self._noted.add(entry.chat)
                self._waiting.append(entry.chat)
                self._has_news.set()

    async def written_since(self, since: int, *, of_everybody: bool) -> AsyncIterator[ChatId]:
        now = asyncio.get_running_loop().time
        end = now() + LISTENED_SECONDS
        while (left := end - now()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_news.wait(), left)
            self._has_news.clear()
            while self._waiting:
                yield self._waiting.popleft()
        self._is_over = True
        self._noted.clear()


_conforms: type[RecentChats] = DynamoRecentChats
