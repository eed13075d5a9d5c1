# SPDX-License-Identifier: Apache-2.0
"""Users who get an e-mail about an unread notification, on DynamoDB.

The portions of users are in the partition of the inbox. They expire with the notification, so those
that nobody needs disappear by themselves.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from tidings.model.escalations import Escalation
from tidings.model.ids import UserKey
from tidings.model.notifications import EMAIL_DECIDED, Copy
from tidings.ports.due import Due
from tidings.ports.escalations import Escalations, due_of_escalation, portion_of
from tidings.stores.dynamodb.client.dynamo import BATCH_WRITE_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.inbox import inbox_patterns as patterns
from tidings.stores.dynamodb.inbox.due import begin_at, due_item
from tidings.stores.dynamodb.inbox.items import IS_THERE, copy_key, inbox_partition, to_copy
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

ESCALATION: Final = "e#"
_IS_OPEN: Final = (
    f"{IS_THERE} AND attribute_not_exists(#escalated_at) AND attribute_not_exists(#read_at)"
    " AND attribute_not_exists(#archived_at)"
)
_IS_CLAIMED: Final = "#escalated_at = :now"
_IS_SAME: Final = "#json = :before"
_escalation = msgspec.json.Decoder(Escalation)


class DynamoEscalations:
    """Stores portions of users as items of their inbox, and claims with the copies."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._has_begun = False

    async def put(self, escalations: Sequence[Escalation], now: int) -> None:
        if not self._has_begun:
            await begin_at(self._dynamo, "escalation", now)
            self._has_begun = True
        # The due items come first: a portion without one would never be looked at.
        await self._put([due_item(due_of_escalation(one, now), now) for one in escalations])
        await self._put([escalation_item(one) for one in escalations])

    async def _put(self, items: list[Item]) -> None:
        starts = range(0, len(items), BATCH_WRITE_MAX)
        await gather_bounded(
            partial(
                self._dynamo.batch_write,
                patterns.PUT_ESCALATIONS,
                puts=items[start : start + BATCH_WRITE_MAX],
            )
            for start in starts
        )

    async def get(
        self, tenant: str, inbox: str, notification_id: str, number: int
    ) -> Escalation | None:
        key = _key(tenant, inbox, notification_id, number)
        item = await self._dynamo.get(patterns.READ_ESCALATION, key)
        return None if item is None else to_escalation(item)

    async def replace(self, before: Escalation, after: Escalation, now: int) -> bool:
        await self._put([due_item(due_of_escalation(after, now), now)])
        item, values = escalation_item(after), {":before": _json(before)}
        try:
            await self._dynamo.put(patterns.REPLACE_ESCALATION, item, _IS_SAME, values)
        except ConditionFailed as failed:
            # The first attempt may have been stored, although its answer was lost.
            return failed.item is not None and failed.item["json"] == item["json"]
        return True

    async def drop(self, escalation: Escalation) -> None:
        key, values = _key_of(escalation), {":before": _json(escalation)}
        with suppress(ConditionFailed):
            await self._dynamo.delete(patterns.DROP_ESCALATION, key, _IS_SAME, values)

    async def copies(
        self, users: Sequence[UserKey], inbox: str, notification_id: str
    ) -> Mapping[UserKey, Copy]:
        keys = [copy_key(user, inbox, notification_id) for user in users]
        items = await self._dynamo.batch_get(patterns.READ_COPIES, keys)
        found = {item["pk"]: to_copy(item) for item in items}
        pairs = zip(users, keys, strict=True)
        return {user: found[key["pk"]] for user, key in pairs if key["pk"] in found}

    async def claim(self, user: UserKey, inbox: str, notification_id: str, now: int) -> bool:
        key, values = copy_key(user, inbox, notification_id), {":now": now}
        update = "SET #escalated_at = :now"
        try:
            await self._dynamo.update(patterns.CLAIM_EMAIL, key, update, _IS_OPEN, values)
        except ConditionFailed as failed:
            # The first attempt may have been stored, although its answer was lost.
            is_own = failed.item is not None and failed.item.get("escalated_at") == now
            return failed.is_repeat and is_own
        return True

    async def release(self, user: UserKey, inbox: str, notification_id: str, now: int) -> None:
        key, values = copy_key(user, inbox, notification_id), {":now": now}
        update = "REMOVE #escalated_at"
        with suppress(ConditionFailed):
            await self._dynamo.update(patterns.CLAIM_EMAIL, key, update, _IS_CLAIMED, values)

    async def finish(self, user: UserKey, inbox: str, notification_id: str, now: int) -> None:
        key, values = copy_key(user, inbox, notification_id), {":now": now, ":end": EMAIL_DECIDED}
        update = "SET #escalated_at = :end"
        with suppress(ConditionFailed):
            await self._dynamo.update(patterns.CLAIM_EMAIL, key, update, _IS_CLAIMED, values)


async def drop_overdue(dynamo: Dynamo, due: Due, now: int) -> None:
    """Remove a portion that was due before the tables were restored: nobody gets an e-mail. A
    portion that has got a later time since, with another item, is kept."""
    store = DynamoEscalations(dynamo)
    portion = await store.get(due.tenant, due.subject, *portion_of(due))
    if portion is not None and portion.at <= now:
        await store.drop(portion)


def escalation_item(escalation: Escalation) -> Item:
    """Convert a portion of users to its item."""
    content = {"json": _json(escalation), TTL: ttl_seconds(escalation.expires_at)}
    return {**_key_of(escalation), **content}


def to_escalation(item: Item) -> Escalation:
    """Convert the item of a portion of users to the portion."""
    return _escalation.decode(item["json"])


def _json(escalation: Escalation) -> str:
    return msgspec.json.encode(escalation).decode()


def _key_of(one: Escalation) -> Item:
    return _key(one.tenant, one.inbox, one.notification_id, one.number)


def _key(tenant: str, inbox: str, notification_id: str, number: int) -> Item:
    name = f"{ESCALATION}{notification_id}#{number:05d}"
    return {"pk": inbox_partition(tenant, inbox), "sk": name}


_conforms: type[Escalations] = DynamoEscalations
