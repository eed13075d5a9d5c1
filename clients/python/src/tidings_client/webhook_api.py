# SPDX-License-Identifier: Apache-2.0
"""The part of a tenant's API with which it manages its webhook endpoints."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from tidings_client.listed import ListPage, part_of
from tidings_client.rest import Rest, path_of

DeliveryState = Literal["failed", "waiting"]


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook endpoint; `secret` is only in the answer that makes it."""

    webhook_id: str
    url: str | None
    events: list[str]
    enabled: bool
    disabled_by: str | None
    disabled_at: datetime | None
    failing_since: datetime | None
    previous_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime
    secret: str | None = None


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """An event that an endpoint refused too often, or the next one that waits in a chat."""

    delivery_id: str
    state: DeliveryState
    chat_id: str | None
    sequence: int
    type: str | None
    status: int | None
    attempts: int | None
    failed_at: datetime | None
    events_waiting: int | None


class WebhookAttempt(msgspec.Struct, frozen=True):
    """The result of a request that the server has just made to an endpoint."""

    delivery_id: str
    state: Literal["delivered", "failed"]
    status: int | None
    reason: str | None


class PulledEvent(msgspec.Struct, frozen=True):
    """An event of an endpoint without an address."""

    delivery_id: str
    type: str
    timestamp: datetime
    data: dict[str, Any]


class _Pulled(msgspec.Struct):
    data: list[PulledEvent]


class _Endpoints(msgspec.Struct):
    data: list[WebhookEndpoint]


class _Started(msgspec.Struct):
    job: str


class WebhookApi:
    """The webhook endpoints of a tenant."""

    def __init__(self, rest: Rest, tenant: str) -> None:
        self._rest = rest
        self._tenant = tenant

    async def put(
        self,
        webhook: str,
        url: str | None,
        events: Sequence[str],
        *,
        enabled: bool = True,
        resume: Literal["place", "now"] = "place",
    ) -> WebhookEndpoint:
        """Create an endpoint, and return it with its secret; or change it.

        Only the answer that tells of the creation has the secret, so the client does not repeat
        this request by itself. If you get no answer, the endpoint may exist: `rotate_secret`
        returns another secret.
        """
        path = self._path(webhook)
        body = {"url": url, "events": list(events), "enabled": enabled, "resume": resume}
        return await self._rest.ask(WebhookEndpoint, "PUT", path, body, is_safe=False)

    async def get(self, webhook: str) -> WebhookEndpoint:
        """Return an endpoint, without its secret."""
        return await self._rest.ask(WebhookEndpoint, "GET", self._path(webhook))

    async def list(self) -> list[WebhookEndpoint]:
        """Return all endpoints, which are never more than 10."""
        return (await self._rest.ask(_Endpoints, "GET", self._path())).data

    async def delete(self, webhook: str) -> None:
        """Delete an endpoint; what waits for it is not delivered."""
        await self._rest.request("DELETE", self._path(webhook))

    async def rotate_secret(self, webhook: str) -> WebhookEndpoint:
        """Make a new secret; for 24 hours, requests are signed with both."""
        return await self._rest.ask(WebhookEndpoint, "POST", self._path(webhook, "secret"))

    async def deliveries(
        self,
        webhook: str,
        state: DeliveryState | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ListPage[WebhookDelivery]:
        """Return a page of what failed or waits."""
        query = part_of(limit, cursor) | ({} if state is None else {"state": state})
        path = self._path(webhook, "deliveries")
        return await self._rest.ask(ListPage[WebhookDelivery], "GET", path, query=query)

    async def replay(self, webhook: str, delivery: str) -> WebhookAttempt:
        """Have one event posted now, and return the answer of the endpoint."""
        path = self._path(webhook, "deliveries", delivery, "replay")
        return await self._rest.ask(WebhookAttempt, "POST", path)

    async def replay_period(self, webhook: str, first: datetime, last: datetime) -> str:
        """Have the events of a period delivered once more; return the id of the job."""
        body = {"from": first.isoformat(), "to": last.isoformat()}
        return (await self._rest.ask(_Started, "POST", self._path(webhook, "replay"), body)).job

    async def test(self, webhook: str) -> WebhookAttempt:
        """Have a test event posted now, and return the answer of the endpoint."""
        return await self._rest.ask(WebhookAttempt, "POST", self._path(webhook, "test"))

    async def pull(self, webhook: str, done: Sequence[str] = ()) -> Sequence[PulledEvent]:
        """Confirm events of an endpoint without an address, by their `delivery_id`, and return the
        next ones. An event is returned again until it is confirmed."""
        path, body = self._path(webhook, "pull"), {"done": [*done]}
        return (await self._rest.ask(_Pulled, "POST", path, body)).data

    def _path(self, *more: str) -> str:
        return path_of("tenants", self._tenant, "webhooks", *more)
