# SPDX-License-Identifier: Apache-2.0
"""Wakes the couriers of webhook endpoints: for new entries, for tenants' events, by the timer.

With several processes, the timer of one process finds the reminder of an endpoint. The courier of
the endpoint runs in this process, which keeps the reminder while the courier has work. A single
process does not wait for the timer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.owing import OweEntries
from tidings.delivery.courier import Name
from tidings.delivery.webhook_couriers import WebhookCouriers
from tidings.model.ids import ChatId
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import Unavailable
from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.bus import Appended
from tidings.ports.due import Due
from tidings.ports.tenant_jobs import NotYet
from tidings.ports.world import Clock
from tidings.tasks import Tasks

LOOK_AGAIN_MS: Final = 3 * SECOND_MS
"""How often the timer looks whether a courier has finished."""
OWNED_MS: Final = 12 * SECOND_MS
"""A courier whose reminder was not seen for this long belongs to another process, which has got the
reminder. This is less than a lease of the timer lasts."""


class WebhookFeed:
    """Wakes the couriers of endpoints that are owed something."""

    def __init__(
        self,
        couriers: WebhookCouriers,
        owe: OweEntries,
        directory: WebhookDirectory,
        back_off: Callable[[int], Awaitable[None]],
        *,
        is_alone: bool,
    ) -> None:
        """Set up the feed; `back_off(n)` waits before the n-th retry."""
        self._couriers = couriers
        self._owe = owe
        self._directory = directory
        self._back_off = back_off
        self._is_alone = is_alone
        self._waiting: dict[ChatId, tuple[str, int, int]] = {}
        """Chats with new entries: tenant, first and last sequence."""
        self._asked = asyncio.Event()
        self._tasks = Tasks("webhook_feed")

    def start(self) -> None:
        """Start the background task."""
        self._tasks.repeat(self._run)

    async def close(self) -> None:
        """Store the noted entries, if the store answers, and stop."""
        await self._tasks.close()
        with suppress(Unavailable):
            while self._waiting:
                await self._owe_next()

    def wake(self, endpoint: WebhookEndpoint) -> None:
        """Wake the courier of an endpoint, unless another process has it."""
        name = (endpoint.tenant, endpoint.webhook_id)
        if self._is_alone or self._couriers.is_busy(name):
            self._couriers.wake(name)

    def on_appended(self, event: Appended) -> None:
        """Note a new entry of this process. Without endpoints, this costs a look into a cache."""
        entry, tenant = event.entry, event.state.tenant
        known = self._directory.cached(tenant)
        if known is not None and not (known and any(one.takes_entries for one in known)):
            return
        self._note(entry.chat_id, tenant, entry.sequence, entry.sequence)

    def _note(self, chat: ChatId, tenant: str, first: int, last: int) -> None:
        """Note entries of a chat; two writers' entries may be published out of order."""
        _, known_first, known_last = self._waiting.get(chat, (tenant, first, last))
        self._waiting[chat] = (tenant, min(first, known_first), max(last, known_last))
        self._asked.set()

    def on_changed(self, tenant: str) -> None:
        """Look at the endpoints of a tenant, because one of them has changed."""
        self._tasks.start(self._look(tenant))

    async def _look(self, tenant: str) -> None:
        for attempt in range(1, 10):
            try:
                for endpoint in await self._directory.of(tenant):
                    if endpoint.enabled:
                        await self._owe.catch_up(endpoint)
                        name = (tenant, endpoint.webhook_id)
                        if self._is_alone or self._couriers.is_busy(name):
                            self._couriers.wake(name)
            except Unavailable:
                await self._back_off(attempt)
            else:
                return

    async def _run(self) -> None:
        await self._asked.wait()
        self._asked.clear()
        attempt = 0
        while self._waiting:
            try:
                await self._owe_next()
            except Unavailable:
                attempt += 1
                await self._back_off(attempt)
                continue
            attempt = 0

    async def _owe_next(self) -> None:
        """Store that endpoints are owed the new entries of one chat; keep them if this fails."""
        chat = next(iter(self._waiting))
        tenant, first, last = self._waiting.pop(chat)
        is_stored = False
        try:
            await self._owe(tenant, chat, first, last)
            is_stored = True
        finally:
            if not is_stored:
                self._note(chat, tenant, first, last)


class WebhookReminderWork:
    """Runs the courier of an endpoint when the reminder of the endpoint is due."""

    def __init__(self, couriers: WebhookCouriers, clock: Clock, *, is_alone: bool) -> None:
        self._couriers = couriers
        self._clock = clock
        self._is_alone = is_alone
        self._kept: dict[Name, tuple[Due, int]] = {}
        """For each courier, the item that is kept while it has work, and when it was seen."""

    async def do(self, due: Due) -> bool:
        """Wake the courier, and keep one item of its endpoint until the courier has finished.

        Returns False, because the next reminder may be the same item.
        """
        name, now = (due.tenant, due.subject), self._clock.now()
        # If this process had lost the item to another one, the courier has not finished here.
        if self._is_kept(name):
            if self._kept[name][0].name != due.name:
                self._couriers.wake(name)
                return False
            if not self._couriers.is_busy(name):
                del self._kept[name]
                return False
        self._kept[name] = (due, now)
        self._couriers.wake(name)
        raise NotYet(now + LOOK_AGAIN_MS)

    def has(self, name: Name) -> bool:
        """Return True if the courier of an endpoint may run in this process."""
        return self._is_alone or self._is_kept(name)

    def _is_kept(self, name: Name) -> bool:
        kept = self._kept.get(name)
        return kept is not None and kept[1] + OWNED_MS > self._clock.now()

    async def give_up(self, due: Due) -> None:
        """Do nothing: the next entry of a chat stores another item."""
