# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages on DynamoDB, in the table of inboxes.

The messages of a user are a partition, with one item each. Another item of the partition lists
which of them count towards the limit. When it is full, those that do not count any more are removed
from it. Therefore nothing has to be written to it when a message is sent.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from tidings.model.ids import UserKey
from tidings.model.scheduled import SETTLE_MS, USER_SCHEDULED_MAX, Scheduled
from tidings.ports.due import ScheduledMessages, due_of
from tidings.ports.people import Listed
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.inbox import due_patterns as patterns
from tidings.stores.dynamodb.inbox.due import due_key
from tidings.stores.dynamodb.inbox.items import IS_FREE, made, plain
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

_COUNTED: Final = " counted"
"""Sort key of the item that lists the messages that count towards the limit. It sorts before all
ids."""
_SHORT: Final = 16
"""Number of characters of an id in that item, which is then never larger than a unit."""
_COUNT: Final = (
    "SET #counted = list_append(if_not_exists(#counted, :none), :ids), #counted_at = :now"
)
_MAY_COUNT: Final = (
    "attribute_not_exists(#counted) OR (size(#counted) < :most AND NOT contains(#counted, :id))"
)
_IS_THE_SAME: Final = "#counted = :before"
_IS_AS_BEFORE: Final = "#state = :pending AND #updated_at = :before"
_MAY_FIRE: Final = "#send_at = :at AND (#state = :pending OR #state = :firing)"
_IS_OPEN: Final = "#state = :pending OR #state = :firing"
_OPEN: Final = {":pending": "pending", ":firing": "firing"}


class DynamoScheduled:
    """Stores scheduled messages. DynamoDB removes those that have expired."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def add(self, message: Scheduled) -> Scheduled | None:
        if not await self.count(message):
            return await self.get(message.user_id, message.scheduled_id)
        try:
            await self._dynamo.put(patterns.KEEP_SCHEDULED, scheduled_item(message), IS_FREE)
        except ConditionFailed as failed:
            assert failed.item is not None, "the condition failed because the item exists"
            return to_scheduled(failed.item)
        return message

    async def count(self, message: Scheduled) -> bool:
        """Count the message towards the limit of its author; return False if the limit is
        reached."""
        short, now = message.scheduled_id[:_SHORT], message.updated_at
        values = {
            ":none": [], ":ids": [short], ":id": short, ":now": now, ":most": USER_SCHEDULED_MAX
        }  # fmt: skip
        key = {"pk": scheduled_partition(message.user_id), "sk": _COUNTED}
        for _ in range(3):
            try:
                await self._dynamo.update(patterns.COUNT_SCHEDULED, key, _COUNT, _MAY_COUNT, values)
            except ConditionFailed as failed:
                assert failed.item is not None, "without the item, the condition holds"
                if short in failed.item["counted"]:
                    return True
                if not await self._recount(message.user_id, failed.item, now):
                    return False
            else:
                return True
        return False

    async def _recount(self, user: UserKey, counted: Item, now: int) -> bool:
        """Remove the messages that no longer count towards the limit; return False if all still
        count.

        An id without a message counts while the request that stores the message may still run.
        """
        where, values = "#pk = :user", {":user": scheduled_partition(user)}
        items = await self._dynamo.query(patterns.RECOUNT_SCHEDULED, where, values)
        states = {item["sk"][:_SHORT]: item["state"] for item in items if item["sk"] != _COUNTED}
        absent = "" if counted["counted_at"] + SETTLE_MS <= now else "pending"
        counts = [
            short
            for short in counted["counted"]
            if states.get(short, absent) in ("pending", "firing")
        ]
        if len(counts) == len(counted["counted"]):
            return False
        key = {"pk": scheduled_partition(user), "sk": _COUNTED}
        changed = {":counts": counts, ":before": counted["counted"]}
        with suppress(ConditionFailed):  # another request has done so
            await self._dynamo.update(
                patterns.COUNT_SCHEDULED, key, "SET #counted = :counts", _IS_THE_SAME, changed
            )
        return True

    async def get(self, user: UserKey, scheduled_id: str) -> Scheduled | None:
        item = await self._dynamo.get(patterns.READ_SCHEDULED, _key(user, scheduled_id))
        return to_scheduled(item) if item else None

    async def page(
        self, user: UserKey, *, after: str | None, limit: int, now: int
    ) -> Listed[Scheduled]:
        items = await self._dynamo.query(
            patterns.LIST_SCHEDULED,
            "#pk = :user AND #sk > :after",
            {":user": scheduled_partition(user), ":after": after or _COUNTED},
            limit=limit,
        )
        messages = [to_scheduled(item) for item in items]
        end = messages[-1].scheduled_id if len(messages) == limit else None
        return Listed([message for message in messages if message.is_listed(now)], end)

    async def replace(self, before: Scheduled, after: Scheduled) -> bool:
        values = {":pending": "pending", ":before": before.updated_at}
        return await self._put(after, _IS_AS_BEFORE, values)

    async def fire(self, user: UserKey, scheduled_id: str, send_at: int) -> Scheduled | None:
        update, values = "SET #state = :firing", {":at": send_at, **_OPEN}
        key = _key(user, scheduled_id)
        try:
            item = await self._dynamo.update(
                patterns.FIRE_SCHEDULED, key, update, _MAY_FIRE, values
            )
        except ConditionFailed as failed:
            return to_scheduled(failed.item) if failed.item else None
        return to_scheduled(item)

    async def finish(self, message: Scheduled) -> None:
        await self._put(message, _IS_OPEN, _OPEN)

    async def names(self, user: UserKey, limit: int) -> list[str]:
        # The item that counts the messages is among them, so that it is removed too.
        where, values = "#pk = :user", {":user": scheduled_partition(user)}
        items = await self._dynamo.query(patterns.LIST_SCHEDULED, where, values, limit=limit)
        return [item["sk"] for item in items]

    async def forget(self, user: UserKey, names: Sequence[str]) -> None:
        keys = [_key(user, name) for name in names]
        for name in names:
            message = None if name == _COUNTED else await self.get(user, name)
            if message is not None:
                keys.insert(0, due_key(due_of(message), message.send_at))
        await self._dynamo.batch_write(patterns.FORGET_SCHEDULED, deletes=keys)

    async def _put(self, message: Scheduled, condition: str, values: Item) -> bool:
        try:
            await self._dynamo.put(
                patterns.KEEP_SCHEDULED, scheduled_item(message), condition, values
            )
        except ConditionFailed:
            return False
        return True


def scheduled_item(message: Scheduled) -> Item:
    """Convert a scheduled message to its item."""
    item = {
        **_key(message.user_id, message.scheduled_id),
        **plain(message, "user_id", "scheduled_id", "state"),
        "state": message.state,
    }
    if message.mentions:
        item["mentions"] = list(message.mentions)
    if message.attachments:
        item["attachments"] = list(message.attachments)
    if message.expires_at is not None:
        item[TTL] = ttl_seconds(message.expires_at)
    return item


def to_scheduled(item: Item) -> Scheduled:
    """Convert a stored item to a scheduled message."""
    user = UserKey(item["pk"].removeprefix("s#"))
    message = made(Scheduled, item, user_id=user, scheduled_id=item["sk"])
    return msgspec.structs.replace(
        message, mentions=tuple(message.mentions), attachments=tuple(message.attachments)
    )


def is_scheduled(item: Item) -> bool:
    """Return True if an item in the table of inboxes is a scheduled message."""
    place: str = item["pk"]
    return place.startswith("s#") and item["sk"] != _COUNTED


def scheduled_partition(user: UserKey) -> str:
    """Return the partition of a user's scheduled messages."""
    return f"s#{user}"


def _key(user: UserKey, scheduled_id: str) -> Item:
    return {"pk": scheduled_partition(user), "sk": scheduled_id}


_conforms: type[ScheduledMessages] = DynamoScheduled
