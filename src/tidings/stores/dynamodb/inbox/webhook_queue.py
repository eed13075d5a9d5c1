# SPDX-License-Identifier: Apache-2.0
"""What webhook endpoints are owed, and the event logs of tenants, in the table of inboxes.

The chats with events that an endpoint is owed are divided into a few partitions, because a tenant
may be active in thousands of chats a second. An item is removed when the endpoint has got
everything. DynamoDB removes items that nobody has looked for in a month.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from zlib import crc32

import msgspec

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.model.webhooks import (
    EVENT_LOG,
    KEPT_MS,
    EventRefusal,
    OwedStream,
    SetAside,
    TenantEvent,
)
from tidings.ports.people import Listed
from tidings.ports.webhooks import TenantEventLog, WebhookQueue
from tidings.ports.world import Clock
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import (
    Canceled,
    ConditionFailed,
    Item,
    gather_bounded,
)
from tidings.stores.dynamodb.client.writes import Put, Update, Write
from tidings.stores.dynamodb.inbox import webhook_patterns as patterns
from tidings.stores.dynamodb.inbox.items import IS_FREE
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

SHARDS: Final = 4
WEBHOOKS: Final = "w#"
"""Prefix of the partitions of webhooks."""
_HEAD: Final = "head"
"""Sort key of the item with the end of a tenant's event log. It sorts after all events."""
_ONCE: Final = "once#"
"""Prefix of the sort keys of items that name a reported fact. They sort after all events, too."""
_OWE: Final = "SET #head = :head, #sent = if_not_exists(#sent, :sent), #ttl = :ttl"
_OWE_EARLIER: Final = "SET #head = if_not_exists(#head, :head), #sent = :sent, #ttl = :ttl"
_IS_LATER: Final = "attribute_not_exists(#head) OR #head < :head"

_decode_refusal = msgspec.json.Decoder(EventRefusal).decode


class DynamoWebhookQueue:
    """Stores one item for each chat with events that an endpoint has not taken yet."""

    is_fed_by_log = False

    def __init__(self, dynamo: Dynamo, clock: Clock) -> None:
        self._dynamo = dynamo
        self._clock = clock

    async def owe(self, place: str, owed: OwedStream) -> None:
        key, values = _owed_key(place, owed.stream), _owed_values(owed, self._clock.now())
        stored: Item | None
        try:
            stored = await self._dynamo.update(patterns.OWE_EVENTS, key, _OWE, _IS_LATER, values)
        except ConditionFailed as failed:
            stored = failed.item
        if stored is not None and stored["sent"] <= owed.sent:
            return
        # The row may be removed just now, so all its values are stored.
        update, is_ahead = _OWE_EARLIER, "attribute_not_exists(#sent) OR #sent > :sent"
        with suppress(ConditionFailed):
            await self._dynamo.update(patterns.OWE_EVENTS, key, update, is_ahead, values)

    async def owed(self, place: str, after: str, limit: int) -> list[OwedStream]:
        shards = range(SHARDS)
        found = await gather_bounded(
            partial(self._shard, place, shard, after, limit) for shard in shards
        )
        streams = [_to_owed(item) for items in found for item in items]
        return sorted(streams, key=lambda owed: owed.stream)[:limit]

    async def _shard(self, place: str, shard: int, after: str, limit: int) -> list[Item]:
        where, values = "#pk = :pk AND #sk > :after", {":after": after or " "}
        values[":pk"] = _owed_partition(place, shard)
        return await self._dynamo.query(patterns.LIST_OWED, where, values, limit=limit)

    async def advance(self, place: str, reached: OwedStream, began: int = 0) -> None:
        key = _owed_key(place, reached.stream)
        values = {":sent": reached.sent, ":began": began}
        if reached.sent >= reached.head:
            try:
                is_all = "attribute_not_exists(#head) OR (#head <= :sent AND #sent >= :began)"
                await self._dynamo.delete(patterns.FINISH_OWED, key, is_all, values)
            except ConditionFailed:
                pass
            else:
                return
        with suppress(ConditionFailed):
            update, is_behind = "SET #sent = :sent", "#sent < :sent AND #sent >= :began"
            await self._dynamo.update(patterns.ADVANCE_OWED, key, update, is_behind, values)

    async def refuse(self, place: str, stream: str, refusal: EventRefusal) -> None:
        key, values = _owed_key(place, stream), {":refusal": msgspec.json.encode(refusal).decode()}
        update, is_owed = "SET #refusal = :refusal", "attribute_exists(#head)"
        with suppress(ConditionFailed):
            await self._dynamo.update(patterns.REFUSE_OWED, key, update, is_owed, values)

    async def unfinished(self) -> list[tuple[str, str]]:
        return []

    async def set_aside(self, place: str, aside: SetAside) -> None:
        key = _aside_key(place, aside.stream, aside.sequence)
        values = msgspec.structs.asdict(aside)
        ttl = {TTL: ttl_seconds(aside.at + KEPT_MS)}
        await self._dynamo.put(patterns.SET_EVENT_ASIDE, {**key, **values, **ttl})

    async def aside(self, place: str, after: str | None, limit: int) -> Listed[SetAside]:
        first = " "
        if after is not None:
            stream, _, sequence = after.rpartition(".")
            first = _aside_key(place, stream, int(sequence))["sk"]
        values = {":pk": _aside_partition(place), ":after": first}
        where = "#pk = :pk AND #sk > :after"
        items = await self._dynamo.query(patterns.LIST_EVENTS_ASIDE, where, values, limit=limit + 1)
        names = SetAside.__struct_fields__
        rows = [SetAside(**{name: item[name] for name in names}) for item in items]
        return Listed(rows[:limit], rows[limit - 1].delivery_id if len(rows) > limit else None)

    async def remove(self, place: str, limit: int) -> int:
        partitions = [_owed_partition(place, shard) for shard in range(SHARDS)]
        found = await gather_bounded(
            partial(self._rows, name, limit) for name in (*partitions, _aside_partition(place))
        )
        keys = [{"pk": item["pk"], "sk": item["sk"]} for items in found for item in items]
        await self._dynamo.batch_write(patterns.FORGET_OWED, deletes=keys)
        return len(keys)

    async def _rows(self, partition: str, limit: int) -> list[Item]:
        values = {":pk": partition}
        return await self._dynamo.query(patterns.LIST_OWED, "#pk = :pk", values, limit=limit)

    async def take_back(self, place: str, delivery_id: str) -> None:
        stream, _, sequence = delivery_id.rpartition(".")
        key = _aside_key(place, stream, int(sequence))
        await self._dynamo.delete(patterns.TAKE_EVENT_BACK, key)


class DynamoTenantEventLog:
    """Stores an item for each event, and one with the end of each log.

    Each append moves the end forward, so that no event appears before one that was already read. An
    event that is appended once has a second item, with the name of the fact that it reports.
    """

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def append(
        self,
        tenant: str,
        kind: str,
        data: Mapping[str, object],
        now: int,
        places: Sequence[str],
        once: str | None = None,
    ) -> TenantEvent | None:
        async for _ in self._dynamo.retrying.attempts(limits.SLOT_ATTEMPTS_MAX):
            end = await self._dynamo.get(patterns.READ_LAST_EVENT, _event_key(tenant, None))
            last = end["last"] if end is not None else 0
            event = TenantEvent(
                tenant=tenant, sequence=max(last + 1, now), type=kind, at=now, data=dict(data)
            )
            claims = [] if once is None else [_claim(event, once)]
            try:
                writes = [*claims, *_event_writes(event, last, places)]
                await self._dynamo.transact(patterns.APPEND_TENANT_EVENT, writes)
            except Canceled as canceled:
                if claims and canceled.reasons[0].is_condition:
                    return None
                continue
            return event
        raise StoreUnavailable

    async def get(self, tenant: str, sequence: int) -> TenantEvent | None:
        found = await self.after(tenant, sequence - 1)
        return found if found is not None and found.sequence == sequence else None

    async def after(self, tenant: str, sequence: int) -> TenantEvent | None:
        items = await self._dynamo.query(
            patterns.READ_TENANT_EVENT,
            "#pk = :pk AND #sk BETWEEN :first AND :last",
            {
                ":pk": _events_of(tenant),
                ":first": _event_key(tenant, sequence + 1)["sk"],
                ":last": "9" * 16,
            },
            limit=1,
        )
        return _to_event(tenant, items[0]) if items else None

    async def remove(self, tenant: str, limit: int) -> int:
        values = {":pk": _events_of(tenant)}
        items = await self._dynamo.query(patterns.LIST_OWED, "#pk = :pk", values, limit=limit)
        keys = [{"pk": item["pk"], "sk": item["sk"]} for item in items]
        await self._dynamo.batch_write(patterns.FORGET_OWED, deletes=keys)
        return len(keys)


def _claim(event: TenantEvent, once: str) -> Put:
    ttl = {TTL: ttl_seconds(event.at + KEPT_MS)}
    return Put("inbox", {"pk": _events_of(event.tenant), "sk": _ONCE + once, **ttl}, IS_FREE)


def _event_writes(event: TenantEvent, last: int, places: Sequence[str]) -> list[Write]:
    is_last, before = "attribute_not_exists(#last)", dict[str, int]()
    if last:
        is_last, before = "#last = :before", {":before": last}
    ttl = {TTL: ttl_seconds(event.at + KEPT_MS)}
    facts = {"type": event.type, "at": event.at, "data": msgspec.json.encode(event.data).decode()}
    owed = OwedStream(EVENT_LOG, event.sequence - 1, event.sequence)
    values = _owed_values(owed, event.at)
    end = {**_event_key(event.tenant, None), "last": event.sequence}
    return [
        Put("inbox", end, is_last, before),
        Put("inbox", {**_event_key(event.tenant, event.sequence), **facts, **ttl}, IS_FREE),
        *(Update("inbox", _owed_key(place, EVENT_LOG), _OWE, "", values) for place in places),
    ]


def _owed_values(owed: OwedStream, now: int) -> dict[str, int]:
    return {":head": owed.head, ":sent": owed.sent, ":ttl": ttl_seconds(now + KEPT_MS)}


def _to_owed(item: Item) -> OwedStream:
    refusal = _decode_refusal(item["refusal"]) if "refusal" in item else None
    return OwedStream(item["sk"], item["sent"], item["head"], refusal)


def _to_event(tenant: str, item: Item) -> TenantEvent:
    data = msgspec.json.decode(item["data"], type=dict[str, object])
    return TenantEvent(
        tenant=tenant, sequence=int(item["sk"]), type=item["type"], at=item["at"], data=data
    )


def _owed_partition(place: str, shard: int) -> str:
    return f"{WEBHOOKS}{place}#{shard}"


def _owed_key(place: str, stream: str) -> Item:
    shard = crc32(stream.encode()) % SHARDS
    return {"pk": _owed_partition(place, shard), "sk": stream}


def _aside_partition(place: str) -> str:
    return f"{WEBHOOKS}{place}#aside"


def _aside_key(place: str, stream: str, sequence: int) -> Item:
    return {"pk": _aside_partition(place), "sk": f"{stream}.{sequence:016d}"}


def _events_of(tenant: str) -> str:
    return f"{WEBHOOKS}{tenant}#events"


def _event_key(tenant: str, sequence: int | None) -> Item:
    name = _HEAD if sequence is None else f"{sequence:016d}"
    return {"pk": _events_of(tenant), "sk": name}


_conforms: tuple[type[WebhookQueue], type[TenantEventLog]] = (
    DynamoWebhookQueue,
    DynamoTenantEventLog,
)
