# SPDX-License-Identifier: Apache-2.0
"""The audit trail on DynamoDB: one partition per tenant and month, and an index over all tenants.

The index spreads each month over several partitions, because one partition accepts only a thousand
small items per second.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from heapq import merge
from typing import Any, Final
from zlib import crc32

import msgspec

from tidings.model import limits
from tidings.ports.audit import Act, AuditEntry, AuditLog, AuditPosition
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.identity import identity_patterns as patterns
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

SHARDS: Final = 4
"""Number of partitions for one month in the index."""
PAGE_ITEMS: Final = 500
DEPLOYMENT: Final = "*"
"""Replaces the tenant in entries about the whole deployment; no tenant id has this character."""

_acts = msgspec.json.Decoder(tuple[Act, ...])


class DynamoAuditLog:
    """Stores audit entries; each is written once, and completed once with its outcome."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def append(self, entry: AuditEntry) -> None:
        with suppress(ConditionFailed):  # written by our own earlier attempt, whose answer was lost
            await self._dynamo.put(
                patterns.APPEND_AUDIT, audit_item(entry), "attribute_not_exists(#pk)"
            )

    async def complete(self, entry: AuditEntry) -> None:
        update, values = "SET #outcome = :outcome, #acts = :acts", _completed(entry)
        if entry.code is not None:
            update, values = f"{update}, #code = :code", {**values, ":code": entry.code}
        with suppress(ConditionFailed):
            await self._dynamo.update(
                patterns.COMPLETE_AUDIT,
                _key(entry),
                update,
                "attribute_exists(#pk) AND attribute_not_exists(#outcome)",
                values,
            )

    async def page(
        self, tenant: str | None, *, since: int, before: AuditPosition, limit: int
    ) -> list[AuditEntry]:
        found: list[Item] = []
        for month in months_down(since, before[0]):
            wanted = limit - len(found)
            if tenant is None:
                found += await self._newest_of_all(month, before, wanted)
            else:
                found += await self._newest(_partition(tenant, month), before, wanted)
            if len(found) >= limit:
                break
        return [entry for item in found if (entry := to_entry(item)).at >= since]

    async def _newest(self, partition: str, before: AuditPosition, limit: int) -> list[Item]:
        return await self._dynamo.query(
            patterns.READ_AUDIT,
            "#pk = :pk AND #sk < :before",
            {":pk": partition, ":before": _name(before)},
            limit=limit,
            backwards=True,
        )

    async def _newest_of_all(self, month: str, before: AuditPosition, limit: int) -> list[Item]:
        shards = await gather_bounded(
            partial(self._newest_of_shard, shard, before, limit) for shard in _shards_of(month)
        )
        found = [item for items in shards for item in items]
        return sorted(found, key=_sort_key, reverse=True)[:limit]

    async def _newest_of_shard(self, shard: str, before: AuditPosition, limit: int) -> list[Item]:
        return await self._dynamo.query(
            patterns.READ_ALL_AUDIT,
            "#month = :month AND #sk < :before",
            {":month": shard, ":before": _name(before)},
            limit=limit,
            backwards=True,
        )

    async def oldest_first(self, since: int, until: int) -> AsyncIterator[list[AuditEntry]]:
        """Yield the entries between two times in pages, oldest first.

        The deployment must be stopped, because the index may lack entries that were just written.
        """
        for month in reversed(list(months_down(since, until))):
            after = _name((since, ""))
            while after:
                shards = await gather_bounded(
                    partial(self._shard_after, shard, after) for shard in _shards_of(month)
                )
                # A shard that filled its page may have more items after that page. Only items up
                # to the earliest end of such a page can be yielded in order now.
                ends = [_sort_key(items[-1]) for items in shards if len(items) == PAGE_ITEMS]
                last = min(ends, default="")
                merged = merge(*shards, key=_sort_key)
                items = [item for item in merged if not last or item["sk"] <= last]
                yield [to_entry(item) for item in items]
                after = last

    async def _shard_after(self, shard: str, after: str) -> list[Item]:
        return await self._dynamo.query(
            patterns.READ_ALL_AUDIT,
            "#month = :month AND #sk > :after",
            {":month": shard, ":after": after},
            limit=PAGE_ITEMS,
        )


def audit_item(entry: AuditEntry) -> Item:
    """Convert an audit entry to its item."""
    rest: Item = {
        "actor": entry.actor,
        "actor_id": entry.actor_id,
        "action": entry.action,
        "fields": list(entry.fields),
        "acts": _json(entry.acts),
        "outcome": entry.outcome,
        "code": entry.code,
    }
    month = _month(entry.at)
    return {
        **_key(entry),
        **{name: value for name, value in rest.items() if value is not None},
        "month": f"{month}#{crc32(entry.entry_id.encode()) % SHARDS}",
        TTL: ttl_seconds(entry.at + limits.AUDIT_MS),
    }


def to_entry(item: Item) -> AuditEntry:
    """Convert a stored item to an `AuditEntry`."""
    tenant, _, _ = item["pk"].partition("#")
    at, _, entry_id = item["sk"].partition("#")
    return AuditEntry(
        at=int(at),
        entry_id=entry_id,
        tenant="" if tenant == DEPLOYMENT else tenant,
        actor=item["actor"],
        actor_id=item.get("actor_id"),
        action=item["action"],
        fields=tuple(item["fields"]),
        acts=_acts.decode(item["acts"]),
        outcome=item.get("outcome"),
        code=item.get("code"),
    )


def months_down(since: int, until: int) -> Iterator[str]:
    """Yield the months between two times, the last month first."""
    first, month = _month(since), _month(until)
    while month >= first:
        yield month
        year, number = int(month[:4]), int(month[5:])
        month = f"{year:04}-{number - 1:02}" if number > 1 else f"{year - 1:04}-12"


def _completed(entry: AuditEntry) -> dict[str, Any]:
    return {":outcome": entry.outcome, ":acts": _json(entry.acts)}


def _key(entry: AuditEntry) -> Item:
    return {"pk": _partition(entry.tenant, _month(entry.at)), "sk": _name(entry.position)}


def _partition(tenant: str, month: str) -> str:
    return f"{tenant or DEPLOYMENT}#{month}"


def _shards_of(month: str) -> list[str]:
    return [f"{month}#{shard}" for shard in range(SHARDS)]


def _name(position: AuditPosition) -> str:
    at, entry_id = position
    return f"{at:015d}#{entry_id}"


def _sort_key(item: Item) -> str:
    name: str = item["sk"]
    return name


def _month(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_conforms: type[AuditLog] = DynamoAuditLog
