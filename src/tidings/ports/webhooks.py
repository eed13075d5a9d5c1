# SPDX-License-Identifier: Apache-2.0
"""Ports for webhook endpoints: where they are stored, what they are owed, and a tenant's events.

The queue is the store itself. For each endpoint it has one row per chat with events that the
endpoint has not taken yet, however many these are.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidings.model.webhooks import (
    EventRefusal,
    OwedStream,
    SetAside,
    TenantEvent,
    TenantEventType,
    WebhookEndpoint,
)
from tidings.ports.people import Listed


class RaiseEvent(Protocol):
    """Raises events of tenants, for their webhooks; see `actions.webhooks.events`."""

    async def __call__(
        self, tenant: str, kind: TenantEventType, data: Mapping[str, object]
    ) -> None:
        """Append an event to the tenant's event log, if one of its endpoints gets such events."""
        ...

    def is_wanted(self, tenant: str, kind: TenantEventType) -> bool:
        """Return False if no endpoint of the tenant gets such events, as far as is known without a
        read."""
        ...


class Webhooks(Protocol):
    """Stores the webhook endpoints of tenants. Writes are durable when they return.

    Each change appends a revocation of kind `webhook` to the revocation feed, in the same
    transaction. It names the tenant.
    """

    async def add(self, endpoint: WebhookEndpoint) -> bool:
        """Store a new endpoint; return False, and change nothing, if there is one with this id."""
        ...

    async def change(self, before: WebhookEndpoint, after: WebhookEndpoint) -> bool:
        """Replace an endpoint; return False, and change nothing, if it is no longer as `before`."""
        ...

    async def of(self, tenant: str) -> list[WebhookEndpoint]:
        """Return all endpoints of a tenant in the order of their ids, from a strong read."""
        ...

    async def remove(self, endpoint: WebhookEndpoint, now: int) -> None:
        """Remove an endpoint. `WebhookQueue.remove` removes the events that it is owed."""
        ...


class WebhookQueue(Protocol):
    """Stores what endpoints are owed. Writes are durable when they return, and safe to repeat.

    An endpoint is named by its `place`.
    """

    @property
    def is_fed_by_log(self) -> bool:
        """Whether appending to a chat's log also stores which endpoints are owed the entries."""
        ...

    async def owe(self, place: str, owed: OwedStream) -> None:
        """Store that an endpoint is owed the events of a stream from `sent` to `head`.

        If it is owed some of this stream already, the earlier `sent` and the later `head` are
        stored, because entries may be announced out of order.
        """
        ...

    async def owed(self, place: str, after: str, limit: int) -> list[OwedStream]:
        """Return streams that an endpoint is owed, in the order of their names, after a name.

        If there are fewer than `limit`, no stream follows.
        """
        ...

    async def advance(self, place: str, reached: OwedStream, began: int = 0) -> None:
        """Store that the events of a stream after `began` and up to `reached.sent` were delivered.

        If that is its head, and no later head was stored since, the endpoint is owed nothing more
        of it. If events before `began` became owed meanwhile, nothing is changed.
        """
        ...

    async def refuse(self, place: str, stream: str, refusal: EventRefusal) -> None:
        """Store that an endpoint refused an event of a stream that it is owed.

        It replaces an earlier refusal of the stream.
        """
        ...

    async def unfinished(self) -> list[tuple[str, str]]:
        """Return the tenant and the id of endpoints that are owed something, after a start.

        The engine returns none if it has a due item for each of these endpoints.
        """
        ...

    async def set_aside(self, place: str, aside: SetAside) -> None:
        """Store that an event was refused too often."""
        ...

    async def aside(self, place: str, after: str | None, limit: int) -> Listed[SetAside]:
        """Return dead letters in the order of stream and sequence, after a position."""
        ...

    async def remove(self, place: str, limit: int) -> int:
        """Remove rows of a deleted endpoint, about `limit` of them; return how many there were.

        If there were none, nothing of the endpoint is left.
        """
        ...

    async def take_back(self, place: str, delivery_id: str) -> None:
        """Remove the dead letter of an event, because the event was delivered."""
        ...


class TenantEventLog(Protocol):
    """Stores the event log of each tenant for `KEPT_MS`. Writes are durable when they return.

    Sequences grow, but not one by one: each is at least the time of its event, so that none is used
    again after old events were removed.
    """

    async def append(
        self,
        tenant: str,
        kind: str,
        data: Mapping[str, object],
        now: int,
        places: Sequence[str],
        once: str | None = None,
    ) -> TenantEvent | None:
        """Append an event, and store that these endpoints are owed it; return it with its
        sequence.

        `once` names the fact that the event reports. If the tenant's log has an event with this
        name already, nothing is stored, and None is returned. The name is stored in the same
        transaction as the event, and for as long.

        Raises:
            StoreUnavailable: The outcome is unknown, or too many callers append at once.
        """
        ...

    async def get(self, tenant: str, sequence: int) -> TenantEvent | None:
        """Return the event at a sequence; None if there is none, or none any more."""
        ...

    async def after(self, tenant: str, sequence: int) -> TenantEvent | None:
        """Return the first event after a sequence, from a strong read; None if there is none."""
        ...

    async def remove(self, tenant: str, limit: int) -> int:
        """Remove some of a deleted tenant's events; return how many. 0: none is left."""
        ...
