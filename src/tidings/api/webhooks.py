# SPDX-License-Identifier: Apache-2.0
"""Operations on the webhook endpoints of a tenant, and on deliveries to them."""

from typing import Annotated, Final, Literal

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller
from tidings.actions.verbs import WebhookVerbs
from tidings.actions.webhooks.configuring import Resume
from tidings.actions.webhooks.deliveries import DeliveryAnswer, DeliveryState
from tidings.api.fields import Time, time
from tidings.api.operations import Answer, Audited, operation
from tidings.api.requests import Body
from tidings.api.tenants import ListQuery
from tidings.model.ids import rfc3339
from tidings.model.outgoing_refusals import WebhookBusy, WebhookDeliveryNotFound, WebhookNotFound
from tidings.model.refusals import CursorInvalid, Invalid, LimitReached, TenantNotFound
from tidings.model.webhooks import (
    EVENT_TYPES,
    DisabledBy,
    OwedStream,
    SetAside,
    WebhookEndpoint,
    chat_of_stream,
)

TAG: Final = "Webhooks"

EventNames = Annotated[
    list[str],
    msgspec.Meta(extra_json_schema={"items": {"type": "string", "enum": list(EVENT_TYPES)}}),
]


class WebhookChange(Body, frozen=True):
    """An endpoint. If `url` is null, its events wait until they are pulled. After the endpoint was
    disabled, it continues where it stopped (`resume` is `place`), or with new events (`now`)."""

    url: str | None
    events: EventNames
    enabled: bool = True
    resume: Resume = "place"


class WebhookRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A webhook endpoint. `disabled_by` is `tenant`, `gone` after an answer 410, or `failing` if
    the endpoint took nothing for five days. `secret` is only in the answer that makes it."""

    webhook_id: str
    url: str | None
    events: list[str]
    enabled: bool
    disabled_by: DisabledBy | None
    disabled_at: str | None
    failing_since: str | None
    previous_secret_until: str | None
    created_at: str
    updated_at: str
    secret: str | None = None


class WebhookList(msgspec.Struct):
    """All webhook endpoints of a tenant, which are never more than 10."""

    data: list[WebhookRecord]
    next_cursor: None = None


@operation(
    "PUT",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}",
    tag=TAG,
    summary="Create or change a webhook endpoint",
    key="tenant",
    statuses=(200, 201),
    refusals=(TenantNotFound, LimitReached, WebhookBusy),
    audit=Audited(quoted=("enabled", "resume")),
)
async def put_webhook(
    caller: Caller, tenant: str, webhook_id: str, data: WebhookChange, webhooks: WebhookVerbs
) -> Answer[WebhookRecord]:
    """Create an endpoint (201), or change it (200). Only the answer that creates it has its secret.
    The endpoint gets events from now on. If it was disabled, `resume` says where it continues."""
    endpoint, secret = await webhooks.configure.put(
        caller,
        tenant,
        webhook_id,
        url=_address(data.url),
        events=tuple(data.events),
        enabled=data.enabled,
        resume=data.resume,
    )
    return Answer(webhook_record(endpoint, secret), status=200 if secret is None else 201)


@operation(
    "GET",
    "/v1/tenants/{tenant}/webhooks",
    tag=TAG,
    summary="List webhook endpoints",
    key="tenant",
    refusals=(TenantNotFound,),
)
async def list_webhooks(caller: Caller, tenant: str, webhooks: WebhookVerbs) -> WebhookList:
    """Return all endpoints of the tenant, without their secrets."""
    found = await webhooks.configure.list(caller, tenant)
    return WebhookList([webhook_record(endpoint) for endpoint in found])


@operation(
    "GET",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}",
    tag=TAG,
    summary="Get a webhook endpoint",
    key="tenant",
    refusals=(TenantNotFound, WebhookNotFound),
)
async def get_webhook(
    caller: Caller, tenant: str, webhook_id: str, webhooks: WebhookVerbs
) -> WebhookRecord:
    """Return the endpoint, without its secret."""
    return webhook_record(await webhooks.configure.get(caller, tenant, webhook_id))


@operation(
    "DELETE",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}",
    tag=TAG,
    summary="Delete a webhook endpoint",
    key="tenant",
    statuses=(204,),
    refusals=(TenantNotFound, WebhookNotFound),
)
async def delete_webhook(
    caller: Caller, tenant: str, webhook_id: str, webhooks: WebhookVerbs
) -> None:
    """Delete the endpoint. Events that wait for it are not delivered any more."""
    await webhooks.configure.delete(caller, tenant, webhook_id)


@operation(
    "POST",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}/secret",
    tag=TAG,
    summary="Replace the secret of a webhook endpoint",
    key="tenant",
    refusals=(TenantNotFound, WebhookNotFound, WebhookBusy),
)
async def rotate_webhook_secret(
    caller: Caller, tenant: str, webhook_id: str, webhooks: WebhookVerbs
) -> WebhookRecord:
    """Make a new secret, which is in this answer only. For 24 hours, requests are signed with both
    secrets; then the previous one ends by itself."""
    return webhook_record(*await webhooks.configure.rotate(caller, tenant, webhook_id))


class DeliveriesQuery(ListQuery, frozen=True):
    """Which deliveries to return: all that failed or wait, or those in one state."""

    state: DeliveryState | None = None


class DeliveryRecord(msgspec.Struct, kw_only=True):
    """An event. If its state is `failed`, the endpoint refused it too often. If it is `waiting`, it
    is the next event of a chat, and `events_waiting` is the number of events from it to the newest
    one, including those of types that the endpoint does not get. `chat_id` is null for the tenant's
    own events, whose sequences are not consecutive."""

    delivery_id: str
    state: DeliveryState
    chat_id: str | None
    sequence: int
    type: str | None = None
    status: int | None = None
    attempts: int | None = None
    failed_at: str | None = None
    events_waiting: int | None = None


class DeliveryList(msgspec.Struct):
    """A page of deliveries; `next_cursor` is null on the last page."""

    data: list[DeliveryRecord]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}/deliveries",
    tag=TAG,
    summary="List deliveries that failed or wait",
    key="tenant",
    refusals=(TenantNotFound, WebhookNotFound, CursorInvalid),
)
async def list_webhook_deliveries(
    caller: Caller, tenant: str, webhook_id: str, asked: DeliveriesQuery, webhooks: WebhookVerbs
) -> DeliveryList:
    """Return what failed in the last 30 days, and then what waits."""
    found, cursor = await webhooks.deliveries.list(
        caller, tenant, webhook_id, asked.state, asked.cursor, asked.limit
    )
    return DeliveryList([_delivery_record(row) for row in found], cursor)


class AttemptRecord(msgspec.Struct):
    """A delivery that was attempted now. `status` is that of the endpoint's answer; null if it did
    not answer, and `reason` says why."""

    delivery_id: str
    state: Literal["delivered", "failed"]
    status: int | None
    reason: str | None


@operation(
    "POST",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}/deliveries/{delivery_id}/replay",
    tag=TAG,
    summary="Deliver an event once more",
    key="tenant",
    refusals=(TenantNotFound, WebhookNotFound, WebhookDeliveryNotFound),
    cost=rate_limits.WEBHOOK_COST,
)
async def replay_webhook_delivery(
    caller: Caller, tenant: str, webhook_id: str, delivery_id: str, webhooks: WebhookVerbs
) -> AttemptRecord:
    """Post an event to the endpoint now, and wait for its answer. The id of an event is the part of
    its `webhook-id` after the id of the endpoint; it need not have failed before."""
    replayed = await webhooks.deliveries.replay(caller, tenant, webhook_id, delivery_id)
    return _attempt_record(replayed)


class ReplayedPeriod(Body, frozen=True, rename={"first": "from", "last": "to"}):
    """The period whose events are delivered once more."""

    first: Time
    last: Time


class ReplayAnswer(msgspec.Struct):
    """The job that delivers the events once more."""

    job: str


@operation(
    "POST",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}/replay",
    tag=TAG,
    summary="Deliver the events of a period once more",
    key="tenant",
    statuses=(202,),
    refusals=(TenantNotFound, WebhookNotFound),
    cost=rate_limits.WEBHOOK_COST,
)
async def replay_webhook(
    caller: Caller, tenant: str, webhook_id: str, data: ReplayedPeriod, webhooks: WebhookVerbs
) -> ReplayAnswer:
    """Start a job that goes through the chats of the tenant. The events of a chat are delivered in
    order, beside its new events."""
    first, last = time(data.first, "from"), time(data.last, "to")
    job = await webhooks.deliveries.replay_range(caller, tenant, webhook_id, first, last)
    return ReplayAnswer(job.job_id)


@operation(
    "POST",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}/test",
    tag=TAG,
    summary="Post a test event",
    key="tenant",
    refusals=(TenantNotFound, WebhookNotFound),
    cost=rate_limits.WEBHOOK_COST,
)
async def test_webhook(
    caller: Caller, tenant: str, webhook_id: str, webhooks: WebhookVerbs
) -> AttemptRecord:
    """Post an event of type `webhook.test` to the endpoint now, and wait for its answer."""
    return _attempt_record(await webhooks.deliveries.test(caller, tenant, webhook_id))


def webhook_record(endpoint: WebhookEndpoint, secret: str | None = None) -> WebhookRecord:
    """Return the public record of an endpoint."""
    until = endpoint.previous_until
    return WebhookRecord(
        webhook_id=endpoint.webhook_id,
        url=endpoint.url or None,
        events=list(endpoint.events),
        enabled=endpoint.enabled,
        disabled_by=endpoint.disabled_by,
        disabled_at=_time(endpoint.disabled_at),
        failing_since=_time(endpoint.failing_since),
        previous_secret_until=_time(until or None),
        created_at=rfc3339(endpoint.created_at),
        updated_at=rfc3339(endpoint.updated_at),
        secret=secret,
    )


def _address(url: str | None) -> str:
    """Return the address as it is stored, which is empty if events are pulled."""
    if url == "":
        raise Invalid("url: must be an address such as https://example.com/events", "/url")
    return url or ""


def _delivery_record(row: SetAside | OwedStream) -> DeliveryRecord:
    chat = chat_of_stream(row.stream)
    if isinstance(row, OwedStream):
        return DeliveryRecord(
            delivery_id=f"{row.stream}.{row.sent + 1}",
            state="waiting",
            chat_id=chat,
            sequence=row.sent + 1,
            events_waiting=None if chat is None else row.head - row.sent,
        )
    return DeliveryRecord(
        delivery_id=row.delivery_id,
        state="failed",
        chat_id=chat,
        sequence=row.sequence,
        type=row.type,
        status=row.status,
        attempts=row.attempts,
        failed_at=rfc3339(row.at),
    )


def _attempt_record(made: DeliveryAnswer) -> AttemptRecord:
    is_taken = made.result.outcome == "taken"
    state: Literal["delivered", "failed"] = "delivered" if is_taken else "failed"
    return AttemptRecord(made.delivery_id, state, made.result.status, made.result.reason)


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else rfc3339(time_ms)


OPERATIONS: Final = (
    put_webhook,
    list_webhooks,
    get_webhook,
    delete_webhook,
    rotate_webhook_secret,
    list_webhook_deliveries,
    replay_webhook_delivery,
    replay_webhook,
    test_webhook,
)
