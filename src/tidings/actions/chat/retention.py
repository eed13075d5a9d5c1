# SPDX-License-Identifier: Apache-2.0
"""Caches the retention rules of tenants, so that most sends need not wait for a read.

A rule that is in use is read again in the background every two seconds. A send waits for a rule
only if this process has not used it within the last five seconds.
"""

import asyncio
from contextlib import suppress
from functools import partial

import msgspec

from tidings.caches import LruCache
from tidings.model.before_send import before_send_in
from tidings.model.refusals import Invalid, StoreUnavailable
from tidings.model.retention import (
    CACHED_RULES_MAX,
    KEEP_ALL,
    RULE_AGE_MS_MAX,
    RULE_REFRESH_MS,
    RetentionRule,
    retention_in,
)
from tidings.ports.inboxes import InboxSettings
from tidings.ports.world import Clock
from tidings.tasks import Tasks


class Retention:
    """Caches the retention rules of tenants. A change takes effect within five seconds."""

    def __init__(self, settings: InboxSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._rules: LruCache[str, tuple[RetentionRule, int]] = LruCache(
            CACHED_RULES_MAX, name="retention rules"
        )
        self._reading: set[str] = set()
        self._shared: dict[str, asyncio.Task[RetentionRule]] = {}
        """Reads that sends wait for."""
        self._tasks = Tasks("retention")

    def rule_nowait(self, tenant: str, now: int) -> RetentionRule | None:
        """Return the tenant's cached rule; None if it is not cached, or too old."""
        known = self._rules.peek(tenant)  # the next refresh marks it as used
        if known is None:
            return None
        rule, read_at = known
        age = now - read_at
        if not 0 <= age < RULE_AGE_MS_MAX:
            return None
        if age >= RULE_REFRESH_MS and tenant not in self._reading:
            self._reading.add(tenant)
            self._tasks.start(self._refresh(tenant))
        return rule

    async def rule(self, tenant: str) -> RetentionRule:
        """Return the tenant's rule, from the store if it is not cached or too old.

        Callers that wait for the rule of one tenant share a read.

        Raises:
            StoreUnavailable: The rule cannot be read.
        """
        known = self.rule_nowait(tenant, self._clock.now())
        if known is not None:
            return known
        shared = self._shared.get(tenant)
        if shared is None:
            shared = asyncio.get_running_loop().create_task(self._read(tenant))
            self._shared[tenant] = shared
            shared.add_done_callback(partial(self._ended, tenant))
        # If the first caller is cancelled, the others still wait.
        return await asyncio.shield(shared)

    def _ended(self, tenant: str, shared: "asyncio.Task[RetentionRule]") -> None:
        del self._shared[tenant]
        if not shared.cancelled():
            shared.exception()  # those who wait have it

    async def close(self) -> None:
        """Stop reading in the background."""
        for shared in self._shared.values():
            shared.cancel()
        await self._tasks.close()

    async def _refresh(self, tenant: str) -> None:
        try:
            await self._read(tenant)
        except StoreUnavailable:
            return  # a send that needs the rule reads it itself, and reports the failure
        finally:
            self._reading.discard(tenant)

    async def _read(self, tenant: str) -> RetentionRule:
        began = self._clock.now()
        settings = await self._settings.settings(tenant) or {}
        try:
            rule = retention_in(settings)
        except Invalid:
            rule = KEEP_ALL  # stored by a version that did not check `chats`
        with suppress(Invalid):  # stored by a version that did not check `before_send`
            hook = before_send_in(settings)
            if hook is not None:
                rule = msgspec.structs.replace(rule, hook=hook)
        self._rules.put(tenant, (rule, began))
        return rule
