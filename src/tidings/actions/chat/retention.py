# SPDX-License-Identifier: Apache-2.0
"""Caches the retention rules of tenants, so that most sends need not wait for a read.

A rule that is in use is read again in the background every two seconds. A send waits for a rule
only if this process has not used it within the last five seconds.
"""

from tidings.caches import LruCache
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
        self._tasks = Tasks("retention")

    def rule_nowait(self, tenant: str) -> RetentionRule | None:
        """Return the tenant's cached rule; None if it is not cached, or too old."""
        known = self._rules.get(tenant)
        if known is None:
            return None
        rule, read_at = known
        age = self._clock.now() - read_at
        if not 0 <= age < RULE_AGE_MS_MAX:
            return None
        if age >= RULE_REFRESH_MS and tenant not in self._reading:
            self._reading.add(tenant)
            self._tasks.start(self._refresh(tenant))
        return rule

    async def rule(self, tenant: str) -> RetentionRule:
        """Return the tenant's rule, from the store if it is not cached or too old.

        Raises:
            StoreUnavailable: The rule cannot be read.
        """
        return self.rule_nowait(tenant) or await self._read(tenant)

    async def close(self) -> None:
        """Stop reading in the background."""
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
        try:
            rule = retention_in(await self._settings.settings(tenant) or {})
        except Invalid:
            rule = KEEP_ALL  # stored by a version that did not check `chats`
        self._rules.put(tenant, (rule, began))
        return rule
