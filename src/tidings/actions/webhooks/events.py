# SPDX-License-Identifier: Apache-2.0
"""Appends events that are in no chat's log to a tenant's own event log, for its webhooks."""

from collections.abc import Callable, Mapping

from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.reminders import Reminders
from tidings.model.webhooks import TenantEventType, WebhookEndpoint
from tidings.ports.webhooks import TenantEventLog
from tidings.ports.world import Clock

Wake = Callable[[WebhookEndpoint], None]
"""Function that is called with an endpoint to which a new event is owed."""


class TenantEvents:
    """Raises events of a tenant. Every process has one, as `tenant_events` of its foundation.

    Call it after the fact is stored and before the request is answered:

        await base.tenant_events(tenant, "notification.acted", {"inbox": inbox, ...})

    The data are ids, numbers and RFC 3339 times, never content: they are stored as they are, and
    the endpoint gets them as `data`. If no endpoint of the tenant gets events of this type, nothing
    is written, and nothing is read either once the tenant's endpoints are cached. If a process dies
    between the fact and this call, the event is missing. An act that is repeated until it succeeds,
    such as the step of a job, therefore raises its event before it is finished. The event may then
    be raised twice, unless the call names the fact with `once`.
    """

    def __init__(
        self,
        directory: WebhookDirectory,
        log: TenantEventLog,
        remind: Reminders,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._log = log
        self._remind = remind
        self._clock = clock
        self._listeners: list[Wake] = []

    def listen(self, wake: Wake) -> None:
        """Call `wake` with each endpoint that is owed a new event."""
        self._listeners.append(wake)

    async def __call__(
        self,
        tenant: str,
        kind: TenantEventType,
        data: Mapping[str, object],
        once: str | None = None,
    ) -> None:
        """Append an event, if an endpoint of the tenant gets events of this type.

        If the tenant's log has an event with the name `once` already, nothing is appended.

        Raises:
            StoreUnavailable: The event may or may not be in the log.
        """
        wanted = await self.endpoints(tenant, kind)
        if not wanted:
            return
        for endpoint in wanted:
            await self._remind(endpoint)
        places = [endpoint.place for endpoint in wanted]
        await self._log.append(tenant, kind, data, self._clock.now(), places, once)
        # Also if the event was there already: whoever appended it may not have got this far.
        for endpoint in wanted:
            for wake in self._listeners:
                wake(endpoint)

    async def endpoints(self, tenant: str, kind: TenantEventType) -> list[WebhookEndpoint]:
        """Return the endpoints that get events of this type.

        Raises:
            StoreUnavailable: They are not cached, and the store cannot be read now.
        """
        return [one for one in await self._directory.of(tenant) if _wants(one, kind)]

    def is_wanted(self, tenant: str, kind: TenantEventType) -> bool:
        """Return False if the cached endpoints show that none gets events of this type."""
        found = self._directory.cached(tenant)
        return found is None or any(_wants(endpoint, kind) for endpoint in found)


def _wants(endpoint: WebhookEndpoint, kind: TenantEventType) -> bool:
    return endpoint.enabled and kind in endpoint.events
