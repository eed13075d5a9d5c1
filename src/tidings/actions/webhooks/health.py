# SPDX-License-Identifier: Apache-2.0
"""Stores since when a webhook endpoint takes nothing, and disables it if this lasts too long."""

import logging

import msgspec

from tidings.actions.webhooks.attempts import AttemptResult
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.model.webhooks import TAKES_NOTHING_MS, DisabledBy, WebhookEndpoint
from tidings.ports.webhooks import Webhooks

log = logging.getLogger("tidings.webhooks")


class EndpointHealth:
    """Notes in the record of an endpoint whether it takes events. If the tenant changes the record
    at the same time, the change of the tenant wins, and only the next answer is noted."""

    def __init__(self, store: Webhooks, directory: WebhookDirectory) -> None:
        self._store = store
        self._directory = directory

    async def took(self, endpoint: WebhookEndpoint) -> None:
        """Note that an endpoint took an event."""
        if endpoint.failing_since is not None:
            await self._change(endpoint, failing_since=None)

    async def failed(self, endpoint: WebhookEndpoint, result: AttemptResult, now: int) -> None:
        """Note that an endpoint failed; disable it if it is gone, or failed for too long."""
        if result.outcome == "gone":
            await self._disable(endpoint, "gone", now)
            return
        if endpoint.failing_since is None:
            extra = {"action": "webhook_fails", "tenant": endpoint.tenant}
            reason = result.reason or f"status {result.status}"
            named = {"webhook": endpoint.webhook_id, "reason": reason}
            log.warning("a webhook endpoint fails", extra={**extra, **named})
        await self.refused(endpoint, result, now)

    async def refused(self, endpoint: WebhookEndpoint, result: AttemptResult, now: int) -> None:
        """Note that an endpoint took nothing; disable it if it has taken nothing for too long."""
        await self.left(endpoint, now)

    async def left(self, endpoint: WebhookEndpoint, now: int) -> None:
        """Note that events wait for an endpoint, as `refused` does."""
        if endpoint.failing_since is None:
            await self._change(endpoint, failing_since=now)
        elif now - endpoint.failing_since >= TAKES_NOTHING_MS:
            await self._disable(endpoint, "failing", now)

    async def _disable(self, endpoint: WebhookEndpoint, by: DisabledBy, now: int) -> None:
        named = {"tenant": endpoint.tenant, "webhook": endpoint.webhook_id, "reason": by}
        log.warning("a webhook endpoint is disabled", extra={"action": "webhook_disabled", **named})
        await self._change(endpoint, enabled=False, disabled_at=now, disabled_by=by)

    async def _change(self, endpoint: WebhookEndpoint, **fields: object) -> None:
        after = msgspec.structs.replace(endpoint, revision=endpoint.revision + 1, **fields)
        await self._store.change(endpoint, after)
        self._directory.forget(endpoint.tenant)
