# SPDX-License-Identifier: Apache-2.0
"""Caches the webhook endpoints of tenants, which the revocation feed keeps current."""

from collections.abc import Callable, Sequence
from typing import Final

from tidings.actions.identity.credential_status import FeedBackedCache
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.sessions import Revocation
from tidings.ports.webhooks import Webhooks

CACHED_MAX: Final = 10_000
"""Number of tenants whose endpoints are cached."""


class WebhookDirectory:
    """Finds the webhook endpoints of a tenant.

    They are read once; then a process learns of changes within seconds from the revocation feed.
    """

    def __init__(self, store: Webhooks) -> None:
        self._store = store
        self._watch: RevocationWatch | None = None
        self._cached: FeedBackedCache[list[WebhookEndpoint]] | None = None
        self._listeners: list[Callable[[str], None]] = []

    def follow(self, watch: RevocationWatch) -> None:
        """Cache endpoints from now on, because this watch reports their changes."""
        self._watch = watch
        self._cached = FeedBackedCache(watch, CACHED_MAX)
        watch.listen(self._reported)

    def listen(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with each tenant whose endpoints have changed."""
        self._listeners.append(changed)

    def cached(self, tenant: str) -> list[WebhookEndpoint] | None:
        """Return the endpoints of a tenant if they are cached."""
        return None if self._cached is None else self._cached.get(tenant)

    async def of(self, tenant: str) -> list[WebhookEndpoint]:
        """Return the endpoints of a tenant, from the cache or the store.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        found = self.cached(tenant)
        if found is None:
            position = self._watch.position if self._watch else 0
            found = await self._store.of(tenant)
            if self._cached is not None:
                self._cached.keep(tenant, found, position)
        return found

    async def find(self, tenant: str, webhook_id: str) -> WebhookEndpoint | None:
        """Return an endpoint, as `of` does; None if there is none with this id."""
        found = await self.of(tenant)
        return next((one for one in found if one.webhook_id == webhook_id), None)

    async def find_stored(self, tenant: str, webhook_id: str) -> WebhookEndpoint | None:
        """Return an endpoint as it is in the store now; None if there is none with this id.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        found = await self._store.of(tenant)
        return next((one for one in found if one.webhook_id == webhook_id), None)

    def forget(self, tenant: str) -> None:
        """Read the endpoints of a tenant again, because this process has changed them."""
        if self._cached is not None:
            self._cached.forget(tenant)
        for changed in self._listeners:
            changed(tenant)

    def _reported(self, revocations: Sequence[Revocation]) -> None:
        for tenant in {one.subject for one in revocations if one.kind == "webhook"}:
            self.forget(tenant)
