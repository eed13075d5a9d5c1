# SPDX-License-Identifier: Apache-2.0
"""The operation with which a program gets events that cannot be posted to it."""

from typing import Annotated, Any, Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.identity.caller import Caller
from tidings.actions.verbs import WebhookVerbs
from tidings.actions.webhooks.pulling import PULLED_MAX, PulledEvent
from tidings.api.operations import NotAudited, operation
from tidings.api.requests import Body
from tidings.api.webhooks import TAG
from tidings.model.ids import rfc3339
from tidings.model.outgoing_refusals import WebhookNotFound
from tidings.model.refusals import TenantNotFound

Confirmed = Annotated[list[str], msgspec.Meta(max_length=PULLED_MAX)]


class WebhookPull(Body, frozen=True):
    """The ids of deliveries that the caller has processed."""

    done: Confirmed = msgspec.field(default_factory=list)


class PulledRecord(msgspec.Struct):
    """An event. `type`, `timestamp` and `data` are what would be posted."""

    delivery_id: str
    type: str
    timestamp: str
    data: dict[str, Any]


class PulledList(msgspec.Struct):
    """The next events, those of a chat in order."""

    data: list[PulledRecord]


@operation(
    "POST",
    "/v1/tenants/{tenant}/webhooks/{webhook_id}/pull",
    tag=TAG,
    summary="Get the events of an endpoint without an address",
    key="tenant",
    refusals=(TenantNotFound, WebhookNotFound),
    audit=NotAudited("The creation of the endpoint is recorded; what it gets is not."),
    cost=rate_limits.PULL_COST,
)
async def pull_webhook(
    caller: Caller, tenant: str, webhook_id: str, data: WebhookPull, webhooks: WebhookVerbs
) -> PulledList:
    """Confirm events, and return the next ones, which are returned again until they are confirmed
    with their `delivery_id`. Those of a chat are in order."""
    pulled = await webhooks.pull(caller, tenant, webhook_id, data.done)
    return PulledList([_pulled_record(one) for one in pulled])


def _pulled_record(pulled: PulledEvent) -> PulledRecord:
    event = pulled.event
    assert event.type is not None, "the endpoint gets only events with a type"
    data = msgspec.to_builtins(event.data)
    return PulledRecord(pulled.delivery_id, event.type, rfc3339(event.at), data)


OPERATIONS: Final = (pull_webhook,)
