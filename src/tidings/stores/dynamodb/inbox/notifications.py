# SPDX-License-Identifier: Apache-2.0
"""Notifications, broadcasts and the settings of inboxes, on DynamoDB.

Bodies come from eventually consistent reads. That is enough, because the inbox's log, which is read
with strong reads, shows whether a notification was retracted. A body is reported as missing only
after a strong read.

The next broadcast gets the sequence after the last entry in the inbox's log. DynamoDB must
therefore not delete the last entry: an entry gets its TTL only when the next one is stored.
"""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.model.notifications import Broadcast, InboxConfig, Notification
from tidings.model.refusals import StoreUnavailable
from tidings.ports.inboxes import InboxSettings, Notifications, PostKey
from tidings.ports.people import Listed
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.inbox import inbox_patterns as patterns
from tidings.stores.dynamodb.inbox.inbox_patterns import (
    KEEP_INBOX,
    KEEP_SETTINGS,
    LIST_INBOXES,
    READ_INBOX,
    READ_SETTINGS,
)
from tidings.stores.dynamodb.inbox.items import (
    IN_RANGE,
    IS_FREE,
    IS_THERE,
    NEXT_TO,
    body_key,
    broadcast_item,
    claim_item,
    config_key,
    in_range,
    inbox_partition,
    log_key,
    log_partition,
    log_sort,
    made,
    notification_item,
    portions_key,
    portions_of,
    portions_ttl,
    settings_key,
    to_broadcast,
    to_notification,
)
from tidings.stores.dynamodb.inbox.preferences import BEGUN
from tidings.tasks import Tasks

_JSON: Final = "json"
_SET_JSON: Final = "SET #json = :json"

log = logging.getLogger("tidings.dynamodb")

BROADCASTS_AGE_MS: Final = 1_000
_FREE_KEY: Final = f"{IS_FREE} OR #expires_at <= :now"


class DynamoInboxSettings:
    """Stores the settings of tenants and of inboxes in the partition of the tenant."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def settings(self, tenant: str) -> dict[str, object] | None:
        item = await self._dynamo.get(READ_SETTINGS, settings_key(tenant))
        return msgspec.json.decode(item[_JSON], type=dict[str, object]) if item else None

    async def put_settings(self, tenant: str, settings: dict[str, object]) -> None:
        await self._dynamo.put(KEEP_SETTINGS, settings_item(settings_key(tenant), settings))

    async def config(self, tenant: str, inbox: str) -> InboxConfig | None:
        item = await self._dynamo.get(READ_INBOX, config_key(tenant, inbox))
        return to_config(item) if item else None

    async def configs(
        self, tenant: str, *, after: str | None, limit: int
    ) -> Listed[tuple[str, InboxConfig]]:
        # No name has a space or a `~`, which sort before and after all its characters.
        first = config_key(tenant, "" if after is None else f"{after} ")
        items = await self._dynamo.query(
            LIST_INBOXES,
            "#pk = :pk AND #sk BETWEEN :first AND :last",
            {":pk": first["pk"], ":first": first["sk"], ":last": config_key(tenant, "~")["sk"]},
            limit=limit + 1,
        )
        prefix = config_key(tenant, "")["sk"]
        rows = [(item["sk"].removeprefix(prefix), to_config(item)) for item in items[:limit]]
        return Listed(rows, rows[-1][0] if len(items) > limit else None)

    async def put_config(self, tenant: str, inbox: str, config: InboxConfig) -> bool:
        key, values = config_key(tenant, inbox), {":json": _config_json(config)}
        try:
            await self._dynamo.update(KEEP_INBOX, key, _SET_JSON, IS_FREE, values)
        except ConditionFailed as failed:
            if failed.item is not None and failed.item[_JSON] == values[":json"]:
                return failed.is_repeat
            await self._dynamo.update(KEEP_INBOX, key, _SET_JSON, values=values)
            return False
        return True


def config_item(tenant: str, inbox: str, config: InboxConfig) -> Item:
    """Build the item of an inbox."""
    begun = {BEGUN: True} if config.has_preferences else {}
    return {**config_key(tenant, inbox), _JSON: _config_json(config), **begun}


def to_config(item: Item) -> InboxConfig:
    """Convert the item of an inbox to its configuration."""
    config = msgspec.json.decode(item[_JSON], type=InboxConfig)
    return msgspec.structs.replace(config, has_preferences=item.get(BEGUN, False))


def _config_json(config: InboxConfig) -> str:
    # Whether there are preferences is an attribute of its own, which a new configuration keeps.
    stored = msgspec.structs.replace(config, has_preferences=False)
    return msgspec.json.encode(stored).decode()


def settings_item(key: Item, settings: object) -> Item:
    """Build an item that stores settings as JSON."""
    return {**key, _JSON: msgspec.json.encode(settings).decode()}


_settings_conform: type[InboxSettings] = DynamoInboxSettings


class DynamoNotifications:
    """Stores each inbox's notifications, their delivery progress, and the log of broadcasts."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._tasks = Tasks("broadcasts")

    @property
    def broadcasts_age_ms(self) -> int:
        return BROADCASTS_AGE_MS

    # For listed users.

    async def claim_key(self, tenant: str, inbox: str, key: str, claim: PostKey) -> PostKey:
        item = claim_item(tenant, inbox, key, claim)
        now = {":now": claim.claimed_at}
        try:
            await self._dynamo.put(patterns.CLAIM_POST_KEY, item, _FREE_KEY, now)
        except ConditionFailed as failed:
            assert failed.item is not None, "the key is free unless an item exists"
            return made(PostKey, failed.item)
        return claim

    async def put(self, notification: Notification) -> None:
        try:
            item = notification_item(notification)
            await self._dynamo.put(patterns.PUT_NOTIFICATION, item, IS_FREE)
        except ConditionFailed:
            return  # it is already stored, perhaps even retracted

    async def get(
        self, tenant: str, inbox: str, notification_ids: Sequence[str]
    ) -> list[Notification]:
        wanted = dict.fromkeys(notification_ids)
        found: list[Notification] = []
        for pattern in (patterns.SHOW_NOTIFICATIONS, patterns.FIND_NOTIFICATIONS):
            keys = [body_key(tenant, inbox, notification_id) for notification_id in wanted]
            items = await self._dynamo.batch_get(pattern, keys)
            some = [to_notification(tenant, inbox, item) for item in items]
            for notification in some:
                del wanted[notification.notification_id]
            found += some
        return found

    async def newest(
        self, tenant: str, inbox: str, *, before: str | None, limit: int
    ) -> list[Notification]:
        # Both bounds belong to the range, so one more is read, and `before` is left out.
        items = await self._dynamo.query(
            patterns.LIST_NOTIFICATIONS,
            "#pk = :pk AND #sk BETWEEN :first AND :last",
            {
                ":pk": inbox_partition(tenant, inbox),
                ":first": body_key(tenant, inbox, "")["sk"],
                ":last": body_key(tenant, inbox, before or NEXT_TO)["sk"],
            },
            limit=limit + 1,
            backwards=True,
        )
        found = [to_notification(tenant, inbox, item) for item in items]
        return [one for one in found if one.notification_id != before][:limit]

    async def empty(self, tenant: str, inbox: str, notification_id: str) -> None:
        key = body_key(tenant, inbox, notification_id)
        await self._remove_content(patterns.EMPTY_NOTIFICATION, key)

    async def _remove_content(self, pattern: Pattern, key: Item) -> None:
        try:
            await self._dynamo.update(pattern, key, "REMOVE #box, #box_key", IS_THERE)
        except ConditionFailed:
            return  # the item does not exist, and the update must not create it

    # The log of broadcasts.

    async def append_broadcast(self, broadcast: Broadcast) -> bool:
        try:
            await self._dynamo.put(patterns.APPEND_BROADCAST, broadcast_item(broadcast), IS_FREE)
        except ConditionFailed as failed:
            assert failed.item is not None, "the slot is free unless an item exists"
            if failed.item["mark"] != broadcast.mark:
                return False
        if broadcast.sequence > 1:
            self._tasks.start(self._let_previous_expire(broadcast))
        return True

    async def _let_previous_expire(self, newest: Broadcast) -> None:
        """Set the TTL of the entry before the newest, so that DynamoDB can delete that entry."""
        key = log_key(newest.tenant, newest.inbox, newest.sequence - 1)
        try:
            await self._dynamo.update(patterns.LET_GO, key, "SET #ttl = #due", IS_THERE)
        except ConditionFailed:
            return  # the entry is already deleted
        except StoreUnavailable:
            where = {
                "tenant": newest.tenant,
                "inbox": newest.inbox,
                "sequence": newest.sequence - 1,
            }
            log.warning(
                "a broadcast will not be deleted", extra={"action": "broadcast_stays", **where}
            )

    async def retract_broadcast(self, tenant: str, inbox: str, sequence: int) -> None:
        key = log_key(tenant, inbox, sequence)
        await self._remove_content(patterns.EMPTY_ANNOUNCEMENT, key)

    async def broadcasts(
        self, tenant: str, inbox: str, *, after: int, limit: int
    ) -> list[Broadcast]:
        items = await self._dynamo.query(
            patterns.READ_ANNOUNCEMENTS,
            "#pk = :log AND #sk > :after",
            {":log": log_partition(tenant, inbox), ":after": log_sort(after)},
            limit=limit,
        )
        return [to_broadcast(tenant, inbox, item) for item in items]

    async def last_broadcasts(
        self, tenant: str, inbox: str, *, before: int | None, limit: int
    ) -> list[Broadcast]:
        below = NEXT_TO if before is None else log_sort(before)
        items = await self._dynamo.query(
            patterns.READ_ANNOUNCEMENTS,
            "#pk = :log AND #sk < :below",
            {":log": log_partition(tenant, inbox), ":below": below},
            limit=limit,
            backwards=True,
        )
        return [to_broadcast(tenant, inbox, item) for item in items]

    # Progress.

    async def finish_job(self, tenant: str, inbox: str, notification_id: str, number: int) -> None:
        await self._dynamo.update(
            patterns.FINISH_PORTION,
            portions_key(tenant, inbox, notification_id, number),
            "ADD #done :number SET #ttl = :ttl",
            values={":number": frozenset({number}), ":ttl": portions_ttl(notification_id)},
        )

    async def finished_jobs(self, tenant: str, inbox: str, notification_id: str) -> set[int]:
        items = await self._dynamo.query(
            patterns.READ_PROGRESS,
            IN_RANGE,
            in_range(tenant, inbox, portions_of(notification_id)),
        )
        return {number for item in items for number in item["done"]}

    async def close(self) -> None:
        """Wait for the TTLs that are being set in the background."""
        await self._tasks.finish()


_conforms: type[Notifications] = DynamoNotifications
