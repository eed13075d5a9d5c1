# SPDX-License-Identifier: Apache-2.0
"""What tenants say about their inboxes, on DynamoDB: kept as the JSON it came as."""

from typing import Final

import msgspec

from tidings.model.notifications import InboxConfig
from tidings.ports.inboxes import InboxSettings
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.inbox_items import IS_FREE, config_key, settings_key
from tidings.stores.dynamodb.inbox_patterns import (
    KEEP_INBOX,
    KEEP_SETTINGS,
    READ_INBOX,
    READ_SETTINGS,
)
from tidings.stores.dynamodb.trouble import ConditionFailed, Item

_JSON: Final = "json"


class DynamoInboxSettings:
    """Settings and inboxes, side by side under their tenant."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def settings(self, tenant: str) -> dict[str, object] | None:
        item = await self._dynamo.get(READ_SETTINGS, settings_key(tenant))
        return msgspec.json.decode(item[_JSON], type=dict[str, object]) if item else None

    async def put_settings(self, tenant: str, settings: dict[str, object]) -> None:
        await self._dynamo.put(KEEP_SETTINGS, said_item(settings_key(tenant), settings))

    async def config(self, tenant: str, inbox: str) -> InboxConfig | None:
        item = await self._dynamo.get(READ_INBOX, config_key(tenant, inbox))
        return msgspec.json.decode(item[_JSON], type=InboxConfig) if item else None

    async def put_config(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        item = said_item(config_key(tenant, inbox), config)
        try:
            await self._dynamo.put(KEEP_INBOX, item, IS_FREE)
        except ConditionFailed as failed:
            if failed.item == item:
                return failed.is_repeat
            await self._dynamo.put(KEEP_INBOX, item)
            return False
        return True


def said_item(key: Item, said: object) -> Item:
    """What was said, under a key."""
    return {**key, _JSON: msgspec.json.encode(said).decode()}


_conforms: type[InboxSettings] = DynamoInboxSettings
