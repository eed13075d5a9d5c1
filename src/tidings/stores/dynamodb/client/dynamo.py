# SPDX-License-Identifier: Apache-2.0
"""The DynamoDB client: callers give the declared access pattern of each request.

Items have plain Python values. In expressions, attributes are written as `#name` and values as
`:name`. The client reads all pages of a result
and repeats the unprocessed parts of batches.
"""

import itertools
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.client.access import Recorder
from tidings.stores.dynamodb.client.retrying import OWN_CONNECTIONS, Budget, Item, Retrying
from tidings.stores.dynamodb.client.transport import CONNECTIONS_DEFAULT, Calls, open_transport
from tidings.stores.dynamodb.client.writes import (
    Delete,
    Values,
    Write,
    expressions,
    item_from_wire,
    item_to_wire,
)
from tidings.stores.dynamodb.patterns import Pattern

BATCH_GET_MAX: Final = 100
BATCH_WRITE_MAX: Final = 25
TRANSACT_MAX: Final = 100


class Filtered(NamedTuple):
    """The items that match a filter, and the number of items to which the filter was applied."""

    items: list[Item]
    looked_at: int


class Dynamo(Calls):
    """Reads and writes the items in all tables of one deployment."""

    async def get(self, pattern: Pattern, key: Item) -> Item | None:
        """Return one item, or None if it does not exist."""
        answer = await self.call(pattern, {"Key": item_to_wire(key), **_consistency(pattern)})
        return item_from_wire(answer["Item"]) if "Item" in answer else None

    async def put(
        self,
        pattern: Pattern,
        item: Item,
        condition: str = "",
        values: Values | None = None,
        *,
        gives_way: bool = False,
    ) -> None:
        """Write a whole item.

        Raises:
            ConditionFailed: The condition does not hold; the exception carries the stored item.
            Conflicted: A transaction has locked the item, and `gives_way` is set.
        """
        request = {"Item": item_to_wire(item), **expressions(values, condition=condition)}
        await self.call(pattern, request, gives_way=gives_way)

    async def update(
        self,
        pattern: Pattern,
        key: Item,
        update: str,
        condition: str = "",
        values: Values | None = None,
    ) -> Item:
        """Change an item and return its new state.

        The update must be safe to repeat.

        Raises:
            ConditionFailed: The condition does not hold; the exception carries the stored item.
        """
        answer = await self.call(
            pattern,
            {
                "Key": item_to_wire(key),
                "ReturnValues": "ALL_NEW",
                **expressions(values, condition=condition, update=update),
            },
        )
        return item_from_wire(answer["Attributes"])

    async def delete(
        self, pattern: Pattern, key: Item, condition: str = "", values: Values | None = None
    ) -> None:
        """Delete an item.

        Raises:
            ConditionFailed: The condition does not hold; the exception carries the stored item.
        """
        guarded = expressions(values, condition=condition)
        await self.call(pattern, {"Key": item_to_wire(key), **guarded})

    async def query(
        self,
        pattern: Pattern,
        where: str,
        values: Mapping[str, Any],
        *,
        only: str = "",
        shown: str = "",
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[Item]:
        """Return items in the order of their sort keys, filtered by the condition `only`.

        `shown` names the attributes to return, such as `#sender, #number`; by default all. DynamoDB
        applies a limit before the filter. With `only`, further pages are therefore read until there
        are at least `limit` items that match, and there may be more of them.
        """
        request: dict[str, Any] = {
            **expressions(values, where=where, only=only, shown=shown),
            **_consistency(pattern),
            "ScanIndexForward": not backwards,
        }
        items: list[Item] = []
        while limit is None or len(items) < limit:
            if limit is not None and not only:
                request["Limit"] = limit - len(items)
            answer = await self.call(pattern, request)
            items += [item_from_wire(item) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        return items

    async def count(
        self, pattern: Pattern, where: str, values: Mapping[str, Any], *, only: str = ""
    ) -> int:
        """Count items without fetching them."""
        request: dict[str, Any] = {
            **expressions(values, where=where, only=only),
            **_consistency(pattern),
            "Select": "COUNT",
        }
        total = 0
        while True:
            answer = await self.call(pattern, request)
            total += int(answer["Count"])
            if "LastEvaluatedKey" not in answer:
                return total
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def filtered(
        self, pattern: Pattern, where: str, values: Mapping[str, Any], *, only: str, shown: str
    ) -> Filtered:
        """Return the items that `query` would return with the filter `only`, and the number of
        items to which the filter was applied."""
        request: dict[str, Any] = {
            **expressions(values, where=where, only=only, shown=shown),
            **_consistency(pattern),
        }
        found = Filtered([], 0)
        while True:
            answer = await self.call(pattern, request)
            items = [item_from_wire(item) for item in answer["Items"]]
            found = Filtered(found.items + items, found.looked_at + int(answer["ScannedCount"]))
            if "LastEvaluatedKey" not in answer:
                return found
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def scan(
        self, pattern: Pattern, segment: int, segments: int, page_items: int, only: str = "",
        values: Values | None = None,
    ) -> AsyncIterator[list[Item]]:  # fmt: skip
        """Yield one segment of a whole table in pages; for operators, never to serve a user."""
        request: dict[str, Any] = {
            **expressions(values, only=only),
            **_consistency(pattern),
            "Segment": segment,
            "TotalSegments": segments,
            "Limit": page_items,
        }
        while True:
            answer = await self.call(pattern, request)
            yield [item_from_wire(item) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def batch_get(self, pattern: Pattern, keys: Iterable[Item]) -> list[Item]:
        """Return the items with these keys that exist, in no particular order."""
        wire = [item_to_wire(key) for key in keys]
        items: list[Item] = []
        for start in range(0, len(wire), BATCH_GET_MAX):
            items += await self._batch_get(pattern, wire[start : start + BATCH_GET_MAX])
        return items

    async def batch_get_all(
        self, pattern: Pattern, keys: Mapping[str, Sequence[Item]]
    ) -> dict[str, list[Item]]:
        """Return the items with these keys that exist, from several tables in one request."""
        assert sum(map(len, keys.values())) <= BATCH_GET_MAX, "they do not fit one request"
        assert set(keys) <= set(pattern.tables), f"{pattern.name} does not declare {set(keys)}"
        asked: dict[str, Any] = {
            self.prefix + table: {
                "Keys": [item_to_wire(key) for key in some],
                **({} if table in pattern.relaxed else _consistency(pattern)),
            }
            for table, some in keys.items()
            if some
        }
        found: dict[str, list[Item]] = {table: [] for table in keys}
        for attempt in itertools.count(1):
            answer = await self.call(pattern, {"RequestItems": asked}, tables=tuple(keys))
            for name, items in answer["Responses"].items():
                found[name.removeprefix(self.prefix)] += map(item_from_wire, items)
            asked = answer.get("UnprocessedKeys", {})
            if not asked:
                break
            await self.pause_before_rest(attempt)
        return found

    async def _batch_get(self, pattern: Pattern, keys: list[Any]) -> list[Item]:
        name = self.prefix + pattern.table
        items: list[Item] = []
        for attempt in itertools.count(1):
            answer = await self.call(
                pattern, {"RequestItems": {name: {"Keys": keys, **_consistency(pattern)}}}
            )
            items += [item_from_wire(item) for item in answer["Responses"].get(name, ())]
            keys = answer.get("UnprocessedKeys", {}).get(name, {}).get("Keys", [])
            if not keys:
                break
            await self.pause_before_rest(attempt)
        return items

    async def batch_write(
        self, pattern: Pattern, *, puts: Iterable[Item] = (), deletes: Iterable[Item] = ()
    ) -> None:
        """Write and delete many items, not in a transaction; an error may leave some written."""
        requests: list[Any] = [{"PutRequest": {"Item": item_to_wire(item)}} for item in puts]
        requests += [{"DeleteRequest": {"Key": item_to_wire(key)}} for key in deletes]
        for start in range(0, len(requests), BATCH_WRITE_MAX):
            await self._batch_write(pattern, requests[start : start + BATCH_WRITE_MAX])

    async def _batch_write(self, pattern: Pattern, requests: list[Any]) -> None:
        name = self.prefix + pattern.table
        for attempt in itertools.count(1):
            answer = await self.call(pattern, {"RequestItems": {name: requests}})
            requests = answer.get("UnprocessedItems", {}).get(name, [])
            if not requests:
                break
            await self.pause_before_rest(attempt)

    async def transact(self, pattern: Pattern, writes: Sequence[Write]) -> None:
        """Carry out all of the writes or none; retries within this call never write twice.

        Raises:
            Canceled: Nothing was written; the exception carries a reason for each write.
        """
        assert len(writes) <= TRANSACT_MAX, f"{len(writes)} writes do not fit one transaction"
        tables = tuple(dict.fromkeys(write.table for write in writes))
        assert set(tables) <= set(pattern.tables), f"{pattern.name} does not declare {tables}"
        deleting = {write.table for write in writes if isinstance(write, Delete)}
        assert deleting <= set(pattern.deletes), f"{pattern.name} does not delete in {deleting}"
        request = {
            "TransactItems": [write.to_wire(self.prefix + write.table) for write in writes],
            "ClientRequestToken": self.chance.token(16).hex(),
        }
        await self.call(pattern, request, tables=tables)


def _consistency(pattern: Pattern) -> dict[str, bool]:
    return {"ConsistentRead": True} if pattern.strong else {}


@asynccontextmanager
async def open_client(
    *,
    endpoint: str | None,
    region: str,
    prefix: str,
    clock: Clock,
    chance: Chance,
    connections: int = CONNECTIONS_DEFAULT,
    record: Recorder | None = None,
) -> AsyncIterator[Dynamo]:
    """Open the tables with this prefix, on AWS or at the given endpoint."""
    all_connections = connections + sum(OWN_CONNECTIONS.values())
    async with open_transport(
        endpoint=endpoint, region=region, clock=clock, connections=all_connections
    ) as transport:
        yield Dynamo(
            transport,
            Retrying(chance, Budget()),
            chance,
            prefix=prefix,
            record=record,
            connections=connections,
        )
