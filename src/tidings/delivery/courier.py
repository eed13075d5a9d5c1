# SPDX-License-Identifier: Apache-2.0
"""What a process knows about the deliveries to one webhook endpoint: its failures, and its turn."""

import asyncio
from typing import Final

from tidings.caches import LruCache
from tidings.model import webhooks as model
from tidings.model.webhooks import OwedStream, WebhookEndpoint

Name = tuple[str, str]
"""Tenant and id of an endpoint."""
SPARED_MAX: Final = 1_000
"""Number of streams of which a courier remembers the last failure that cost little."""


class Courier:
    """The state of the deliveries to one endpoint, as this process knows it."""

    def __init__(self, name: Name) -> None:
        self.name = name
        self.asked = asyncio.Event()
        """Set if the endpoint may be owed more, or was changed."""
        self.failures = 0
        """Failures of the endpoint in a row."""
        self.retry_at = 0
        """Time before which nothing is posted."""
        self.took_at = 0
        """When the endpoint took the last event, as far as this courier knows."""
        self._spared: LruCache[str, int] = LruCache(SPARED_MAX)
        """By stream, the sequence of the last event at which a failure cost little."""
        self.after = ""
        """The stream after which the next turn begins. Every stream therefore gets its turn, even
        if the endpoint fails at each event of one of them."""
        self.refused_until = 0
        """When the first of the refused events that wait may be posted again; 0 if none waits."""
        self.updated_at = 0
        """When the tenant last changed the endpoint."""
        self.resumed_in: int | None = None
        """Milliseconds after which the endpoint certainly has a job that resumes it, while the
        endpoint waits for that job; otherwise None."""

    def learn(self, endpoint: WebhookEndpoint) -> None:
        """Try the endpoint at once if its tenant has changed it."""
        if endpoint.updated_at != self.updated_at:
            self.updated_at = endpoint.updated_at
            self.failures = self.retry_at = 0

    def is_ready(self, owed: OwedStream, now: int) -> bool:
        """Return True if the next event of a stream may be posted now; if not, note when it may
        be."""
        refusal = owed.refused(self.updated_at)
        if refusal is None or refusal.retry_at <= now:
            return True
        self.refused_until = min(self.refused_until or refusal.retry_at, refusal.retry_at)
        return False

    def take(self, now: int) -> None:
        """Note that the endpoint took an event."""
        self.failures = self.retry_at = 0
        self.took_at = now

    def back_off(self, now: int, stream: str, sequence: int) -> bool:
        """Leave the endpoint alone for a while, because it failed at an event; several failures at
        once count as one.

        Returns False if this is the first failure of an endpoint that has just taken an event. It
        is tried again soon: otherwise it would fall behind although it fails only now and then. An
        event at which it fails again, though it takes others, must not be posted twice a second.
        """
        if now < self.retry_at:
            return self.failures > 1
        self.failures += 1
        has_just_taken = now < self.took_at + model.BACK_OFF_MS
        is_new = self._spared.get(stream) != sequence
        if has_just_taken and self.failures == 1 and is_new:
            self._spared.put(stream, sequence)
            self.retry_at = now + model.FIRST_BACK_OFF_MS
            return False
        wait_ms = min(model.BACK_OFF_MS * 2 ** max(0, self.failures - 2), model.BACK_OFF_MS_MAX)
        self.retry_at = now + wait_ms
        return True
