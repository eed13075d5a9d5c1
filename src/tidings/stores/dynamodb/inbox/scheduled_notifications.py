# SPDX-License-Identifier: Apache-2.0
"""Notifications that wait for their time of delivery, on DynamoDB.

Their delivery jobs are in the partition of the inbox, and are queued from there. They have a TTL of
a day after the time of delivery, so jobs that nobody needs disappear by themselves.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from tidings.ports.bus import Job
from tidings.ports.scheduled_notifications import ScheduledNotifications
from tidings.stores.dynamodb.client.dynamo import BATCH_WRITE_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.inbox import inbox_patterns as patterns
from tidings.stores.dynamodb.inbox.items import (
    IN_RANGE,
    IS_THERE,
    body_key,
    in_range,
    inbox_partition,
)
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

HELD: Final = "h#"
_job = msgspec.json.Decoder(Job)


class DynamoScheduledNotifications:
    """Stores waiting jobs as items of their inbox."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def hold(self, jobs: Sequence[Job]) -> None:
        items = [held_item(job) for job in jobs]
        await gather_bounded(
            partial(self._dynamo.batch_write, patterns.HOLD_JOBS, puts=some)
            for some in _portions(items)
        )

    async def held(
        self, tenant: str, inbox: str, notification_id: str, limit: int
    ) -> Sequence[Job]:
        items = await self._dynamo.query(
            patterns.READ_HELD_JOBS,
            IN_RANGE,
            in_range(tenant, inbox, f"{HELD}{notification_id}#"),
            limit=limit,
        )
        return [to_held_job(item) for item in items]

    async def release(self, jobs: Sequence[Job]) -> None:
        keys = [_held_key(job) for job in jobs]
        await gather_bounded(
            partial(self._dynamo.batch_write, patterns.RELEASE_JOBS, deletes=some)
            for some in _portions(keys)
        )

    async def begin(self, tenant: str, inbox: str, notification_id: str, head: int) -> int | None:
        update = "SET #log_head = if_not_exists(#log_head, :head)"
        item = await self._mark(tenant, inbox, notification_id, update, {":head": head})
        return None if item is None else int(item["log_head"])

    async def finish(self, tenant: str, inbox: str, notification_id: str, sequence: int) -> None:
        update = "SET #sequence = :sequence REMOVE #box, #box_key"
        await self._mark(tenant, inbox, notification_id, update, {":sequence": sequence})

    async def fail(self, tenant: str, inbox: str, notification_id: str) -> None:
        update = "SET #failed = :true"
        await self._mark(tenant, inbox, notification_id, update, {":true": True})

    async def mark_restored(self, tenant: str, inbox: str, notification_id: str) -> None:
        """Mark a notification that was due before the tables were restored."""
        update = "SET #restored = :true"
        await self._mark(tenant, inbox, notification_id, update, {":true": True})

    async def _mark(
        self, tenant: str, inbox: str, notification_id: str, update: str, values: dict[str, Any]
    ) -> Item | None:
        key = body_key(tenant, inbox, notification_id)
        try:
            return await self._dynamo.update(patterns.MARK_SCHEDULED, key, update, IS_THERE, values)
        except ConditionFailed:
            return None  # there is no such notification, and the update must not create it


def held_item(job: Job) -> Item:
    """Convert a waiting job to its item."""
    content = {"json": msgspec.json.encode(job).decode()}
    return {**_held_key(job), **content, TTL: ttl_seconds(job.expires_at)}


def to_held_job(item: Item) -> Job:
    """Convert the item of a waiting job to the job."""
    return _job.decode(item["json"])


def _held_key(job: Job) -> Item:
    name = f"{HELD}{job.notification_id}#{job.number:05d}"
    return {"pk": inbox_partition(job.tenant, job.inbox), "sk": name}


def _portions(items: list[Item]) -> list[list[Item]]:
    starts = range(0, len(items), BATCH_WRITE_MAX)
    return [items[start : start + BATCH_WRITE_MAX] for start in starts]


_conforms: type[ScheduledNotifications] = DynamoScheduledNotifications
