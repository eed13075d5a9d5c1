# SPDX-License-Identifier: Apache-2.0
"""Show what a webhook endpoint refused or is owed, and deliver events to it on request."""

import re
from typing import Final, Literal

import msgspec

from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.caller import Caller
from tidings.actions.jobs.starting import StartJob
from tidings.actions.webhooks.attempts import (
    AttemptResult,
    EventReader,
    WebhookAttempts,
    WebhookEvent,
)
from tidings.actions.webhooks.configuring import ConfigureWebhooks
from tidings.model.ids import CHAT, UserKey
from tidings.model.outgoing_refusals import WebhookDeliveryNotFound
from tidings.model.refusals import Invalid
from tidings.model.webhooks import EVENT_LOG, OwedStream, SetAside, WebhookEndpoint
from tidings.ports.tenant_jobs import TenantJob
from tidings.ports.webhooks import WebhookQueue
from tidings.ports.world import Clock

DeliveryState = Literal["failed", "waiting"]

DELIVERY: Final = re.compile(rf"({CHAT.pattern}|{EVENT_LOG})\.([1-9][0-9]{{0,15}})")
TEST_TYPE: Final = "webhook.test"
_FAILED: Final = "f"
_WAITING: Final = "w"


class DeliveryAnswer(msgspec.Struct, frozen=True):
    """A delivery that was attempted on request."""

    delivery_id: str
    result: AttemptResult


class WebhookDeliveries(msgspec.Struct, frozen=True):
    """The verbs with which a tenant follows the deliveries to its endpoints."""

    configure: ConfigureWebhooks
    queue: WebhookQueue
    read: EventReader
    attempt: WebhookAttempts
    cursors: Cursors
    start_job: StartJob
    clock: Clock

    async def list(
        self,
        caller: Caller,
        tenant: str,
        webhook_id: str,
        state: DeliveryState | None,
        cursor: str | None,
        limit: int,
    ) -> tuple[list[SetAside | OwedStream], str | None]:
        """Return dead letters, and then chats with events that the endpoint is owed.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
            CursorInvalid: The cursor is not for this list.
        """
        endpoint = await self.configure.get(caller, tenant, webhook_id)
        purpose, owner = f"deliveries {endpoint.place} {state or ''}", UserKey(tenant)
        place = self.cursors.position(purpose, owner, cursor)
        part, after = (place[0], place[1:] or None) if place else (_FAILED, None)
        rows: list[SetAside | OwedStream] = []
        if state != "waiting" and part == _FAILED:
            page = await self.queue.aside(endpoint.place, after, limit)
            rows += page.rows
            if page.end is not None:
                return rows, self.cursors.after(purpose, owner, _FAILED + page.end)
            after = None
        if state == "failed":
            return rows, None
        owed = await self.queue.owed(endpoint.place, after or "", limit - len(rows) + 1)
        rows += owed[: limit - len(rows)]
        shown = [row for row in rows if isinstance(row, OwedStream)]
        end = _WAITING + (shown[-1].stream if shown else "") if len(owed) > len(shown) else None
        return rows, self.cursors.after(purpose, owner, end)

    async def replay(
        self, caller: Caller, tenant: str, webhook_id: str, delivery_id: str
    ) -> DeliveryAnswer:
        """Post one event now, in its present form. If the endpoint takes it, its dead letter is
        removed.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
            WebhookDeliveryNotFound: There is no such event, or the endpoint does not get events of
                its type.
        """
        endpoint = await self.configure.get(caller, tenant, webhook_id)
        named = DELIVERY.fullmatch(delivery_id)
        if named is None:
            raise WebhookDeliveryNotFound
        event = await self.read.at(tenant, named[1], int(named[2]))
        if event is None or event.type not in endpoint.events:
            raise WebhookDeliveryNotFound
        result = await self.attempt(endpoint, named[1], event)
        if result.outcome == "taken":
            await self.queue.take_back(endpoint.place, delivery_id)
        return DeliveryAnswer(delivery_id, result)

    async def test(self, caller: Caller, tenant: str, webhook_id: str) -> DeliveryAnswer:
        """Post a test event to the endpoint, whether it is enabled or not.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
        """
        endpoint, now = await self.configure.get(caller, tenant, webhook_id), self.clock.now()
        data = {"tenant": tenant, "webhook_id": webhook_id}
        result = await self.attempt(endpoint, "test", WebhookEvent(now, TEST_TYPE, now, data))
        return DeliveryAnswer(f"test.{now}", result)

    async def replay_range(
        self, caller: Caller, tenant: str, webhook_id: str, first: int, last: int
    ) -> TenantJob:
        """Start the job that delivers the events of a period once more.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
            Invalid: The period ends before it begins.
        """
        endpoint: WebhookEndpoint = await self.configure.get(caller, tenant, webhook_id)
        if last < first:
            raise Invalid("to: must not be before from", "/to")
        job_id = f"replay-webhook-{endpoint.webhook_id}-{self.clock.now()}"
        return await self.start_job(tenant, "webhook.replay", webhook_id, job_id, f"{first} {last}")
