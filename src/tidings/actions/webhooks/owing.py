# SPDX-License-Identifier: Apache-2.0
"""Stores which webhook endpoints are owed new entries of a chat, and wakes their couriers."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.reminders import Reminders
from tidings.caches import LruCache
from tidings.model.ids import ChatId
from tidings.model.limits import CACHED_CHATS_MAX, SECOND_MS
from tidings.model.webhooks import OwedStream, WebhookEndpoint
from tidings.ports.webhooks import WebhookQueue
from tidings.ports.world import Clock

RECENT_MS: Final = 10 * SECOND_MS
"""How long a process remembers entries for which no endpoint was known. It learns of a new endpoint
within five seconds."""
RECENT_MAX: Final = 10_000

Reached = Callable[[Sequence[ChatId]], Awaitable[Mapping[ChatId, int]]]
"""Returns the sequences in the head copies of chats."""


class _Unowed(NamedTuple):
    """Entries that were appended when this process knew no endpoint to owe them to."""

    at: int
    tenant: str
    chat: ChatId
    first: int | None
    """Sequence of the first of these entries; None if this process does not know it."""
    last: int

    def first_for(self, endpoint: WebhookEndpoint) -> int:
        """Return the first entry to owe to an endpoint that this process did not know.

        A courier skips the entries from before the endpoint began. An endpoint that began long ago
        was enabled again, and a job finds what it has missed. It must not get all of a chat again.
        """
        if self.first is not None:
            return self.first
        return 1 if endpoint.since >= self.at - RECENT_MS else self.last


class OweEntries:
    """Stores what endpoints are owed. An engine may store this itself, together with the
    entries."""

    def __init__(
        self,
        directory: WebhookDirectory,
        queue: WebhookQueue,
        remind: Reminders,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._queue = queue
        self._remind = remind
        self._clock = clock
        self._owed_until: LruCache[ChatId, int] = LruCache(CACHED_CHATS_MAX)
        """For some chats, a sequence up to which the endpoints were owed everything."""
        self._recent: deque[_Unowed] = deque(maxlen=RECENT_MAX)
        self._listeners: list[Callable[[WebhookEndpoint], None]] = []

    def listen(self, wake: Callable[[WebhookEndpoint], None]) -> None:
        """Call `wake` with each endpoint that is owed new entries."""
        self._listeners.append(wake)

    async def __call__(self, tenant: str, chat: ChatId, first: int, last: int) -> None:
        """Store that the endpoints of a tenant are owed these entries of a chat.

        Raises:
            StoreUnavailable: Some endpoints may not be owed the entries yet.
        """
        owed = await self._followers(tenant)
        if not owed:
            self._recent.append(_Unowed(self._clock.now(), tenant, chat, first, last))
        for endpoint in owed:
            await self._owe(endpoint, chat, first, last)

    async def after_head_copy(
        self, tenant: str, chat: ChatId, first: int, last: int, reached: Reached
    ) -> None:
        """Store that endpoints are owed these entries, and all others after the head copy. Then the
        caller moves the head copy to `last`.

        The range may lack earlier entries, because their event is late, or because they were too
        many to be dispatched. Once the head copy is moved, nobody looks for them again. `reached`
        reads the head copy. It is not called if this process knows that nothing is missing.

        Raises:
            StoreUnavailable: Some endpoints may not be owed the entries yet.
        """
        is_followed, until = bool(await self._followers(tenant)), self._owed_until.get(chat) or 0
        if is_followed and until < first - 1:
            first = min(first, (await reached([chat])).get(chat, 0) + 1)
        await self(tenant, chat, first, last)
        if is_followed and until < last:
            self._owed_until.put(chat, last)

    async def before_head_copy(
        self, tenant: str, chat: ChatId, last: int, reached: Reached
    ) -> None:
        """Store that endpoints are owed all entries up to `last`. Then this process moves the head
        copy to `last`.

        If this process does not know which entries are owed already, it reads the head copy with
        `reached`, and stores the entries after it.

        Raises:
            StoreUnavailable: Some endpoints may not be owed the entries yet.
        """
        until = self._owed_until.get(chat) or 0
        if not await self._followers(tenant):
            if until:  # what they miss is found by the job that enables one of them
                self._owed_until.put(chat, last)
            first = until + 1 if until else None
            self._recent.append(_Unowed(self._clock.now(), tenant, chat, first, last))
            return
        if not until:
            until = (await reached([chat])).get(chat, 0)
            if until > last:  # the chat is being deleted, and has no head copy any more
                until = last - 1
        if until < last:
            await self(tenant, chat, until + 1, last)
            self._owed_until.put(chat, last)

    async def _followers(self, tenant: str) -> list[WebhookEndpoint]:
        found = await self._directory.of(tenant)
        return [one for one in found if one.takes_entries]

    async def catch_up(self, endpoint: WebhookEndpoint) -> None:
        """Store that an endpoint is owed the entries that were appended before this process knew
        it.

        Raises:
            StoreUnavailable: The endpoint may not be owed all of them yet.
        """
        since = self._clock.now() - RECENT_MS
        for one in list(self._recent):
            if one.tenant == endpoint.tenant and one.at >= since:
                await self._owe(endpoint, one.chat, one.first_for(endpoint), one.last)

    async def _owe(self, endpoint: WebhookEndpoint, chat: ChatId, first: int, last: int) -> None:
        if not self._queue.is_fed_by_log:
            await self._remind(endpoint)
            await self._queue.owe(endpoint.place, OwedStream(chat, first - 1, last))
        for wake in self._listeners:
            wake(endpoint)
