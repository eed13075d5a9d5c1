# SPDX-License-Identifier: Apache-2.0
"""Stores reminders of endpoints that are owed something, so that no process forgets them."""

from typing import Final

from tidings.caches import LruCache
from tidings.model.limits import SECOND_MS
from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.due import Due, DueItems
from tidings.ports.world import Clock

STEP_MS: Final = 2 * SECOND_MS
"""Reminders of an endpoint within this time are one item."""
AHEAD_MS: Final = 1 * SECOND_MS
"""A stored reminder is used if it becomes due at least this long after now. If it were due sooner,
another process could find it before the endpoint is owed something, and then remove it."""
REMEMBERED_MAX: Final = 10_000


class Reminders:
    """Stores a due item for an endpoint before the endpoint is owed something.

    The process that finds the item delivers what the endpoint is owed. The order matters: if this
    process dies in between, an item without work does no harm, but work without an item would wait
    for ever.
    """

    def __init__(self, due: DueItems, clock: Clock, *, is_needed: bool) -> None:
        """Create the object; no item is needed if the store itself finds what is owed."""
        self._due = due
        self._clock = clock
        self._is_needed = is_needed
        self._last: LruCache[str, int] = LruCache(REMEMBERED_MAX)
        """When the last reminder of an endpoint becomes due."""

    async def __call__(self, endpoint: WebhookEndpoint) -> None:
        """Store a reminder, unless a stored one can be used (see `AHEAD_MS`).

        Raises:
            StoreUnavailable: The reminder may not be stored.
        """
        now = self._clock.now()
        if not self._is_needed or (self._last.get(endpoint.place) or 0) >= now + AHEAD_MS:
            return
        at = (now // STEP_MS + 2) * STEP_MS
        await self._due.put(reminder_of(endpoint, at, now), now)
        self._last.put(endpoint.place, at)


def reminder_of(endpoint: WebhookEndpoint, at: int, now: int) -> Due:
    """Return the item that says when to look at an endpoint."""
    return Due(
        kind="webhook",
        at=at,
        item_id=f"{endpoint.tenant}/{endpoint.webhook_id}",
        subject=endpoint.webhook_id,
        tenant=endpoint.tenant,
        made_at=now,
    )
