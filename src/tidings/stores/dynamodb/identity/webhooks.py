# SPDX-License-Identifier: Apache-2.0
"""Webhook endpoints on DynamoDB: an item for each, in the partition of its tenant."""

from typing import Final

import msgspec

from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.sessions import Revocation
from tidings.ports.webhooks import Webhooks
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import Delete, Put
from tidings.stores.dynamodb.identity.items import partition
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations
from tidings.stores.dynamodb.inbox.webhook_patterns import READ_WEBHOOKS

WEBHOOK: Final = "webhook#"
"""Prefix of the sort keys of endpoints."""
_IS_AS_BEFORE: Final = "#revision = :revision"

_decode = msgspec.json.Decoder(WebhookEndpoint).decode


class DynamoWebhooks:
    """Stores endpoints, and appends each change to the revocation feed."""

    def __init__(self, dynamo: Dynamo, revocations: DynamoRevocations) -> None:
        self._dynamo = dynamo
        self._revocations = revocations

    async def add(self, endpoint: WebhookEndpoint) -> bool:
        change = Put("tenants", webhook_item(endpoint), "attribute_not_exists(#pk)")
        told = _told(endpoint.tenant, endpoint.updated_at)
        return await self._revocations.append_with([told], [change])

    async def change(self, before: WebhookEndpoint, after: WebhookEndpoint) -> bool:
        as_before = {":revision": before.revision}
        change = Put("tenants", webhook_item(after), _IS_AS_BEFORE, as_before)
        told = _told(after.tenant, after.updated_at)
        return await self._revocations.append_with([told], [change])

    async def of(self, tenant: str) -> list[WebhookEndpoint]:
        values = {":pk": partition(tenant), ":webhook": WEBHOOK}
        where = "#pk = :pk AND begins_with(#sk, :webhook)"
        items = await self._dynamo.query(READ_WEBHOOKS, where, values)
        return [to_webhook(item) for item in items]

    async def remove(self, endpoint: WebhookEndpoint, now: int) -> None:
        item = webhook_item(endpoint)
        change = Delete("tenants", {"pk": item["pk"], "sk": item["sk"]})
        await self._revocations.append_with([_told(endpoint.tenant, now)], [change])


def _told(tenant: str, now: int) -> Revocation:
    return Revocation(kind="webhook", subject=tenant, at=now)


def webhook_item(endpoint: WebhookEndpoint) -> Item:
    """Convert an endpoint to its item."""
    return {
        "pk": partition(endpoint.tenant),
        "sk": WEBHOOK + endpoint.webhook_id,
        "revision": endpoint.revision,
        "endpoint": msgspec.json.encode(endpoint).decode(),
    }


def to_webhook(item: Item) -> WebhookEndpoint:
    """Convert a stored item to an endpoint."""
    return _decode(item["endpoint"])


_conforms: type[Webhooks] = DynamoWebhooks
