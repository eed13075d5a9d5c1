# SPDX-License-Identifier: Apache-2.0
"""Tables in memory that take as long to answer as DynamoDB: enough of them to append to a log.

A condition is taken for "the item does not exist yet", which is what all conditions of the requests
of an append come to.
"""

import asyncio
import re
from typing import Any, Final

import msgspec

from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.client.writes import item_from_wire
from tidings.stores.dynamodb.tables import TABLES

ANSWER_SECONDS: Final = 0.005
"""About what DynamoDB needs within a region."""

_RANGE: Final = re.compile(r"(?:BETWEEN (:\w+) AND (:\w+)|(<=|>) (:\w+))$")
_KEYS: Final = {
    table.name: tuple(key.name for key in (table.partition, table.sort) if key is not None)
    for table in TABLES
}

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_Key = tuple[Any, ...]


class StandIn:
    """A transport to tables in memory, which several clients may share."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._tables: dict[str, dict[_Key, Item]] = {name: {} for name in _KEYS}

    async def send(self, operation: str, request: dict[str, Any], _until: float) -> dict[str, Any]:
        """Answer a request after a while."""
        request = _decode(_encode(request))  # bytes are text on the wire
        await asyncio.sleep(ANSWER_SECONDS)
        match operation:
            case "PutItem":
                return self._put(request)
            case "TransactWriteItems":
                for write in request["TransactItems"]:
                    ((_, inner),) = write.items()
                    if "Item" in inner:
                        self._put(inner)
                return {}
            case "GetItem":
                table, key = self._table(request), self._key(request, request["Key"])
                return {"Item": table[key]} if key in table else {}
            case "Query":
                return self._query(request)
            case "BatchGetItem":
                return {"Responses": {}}
            case _:
                return {"Attributes": {}}

    def _table(self, request: dict[str, Any]) -> dict[_Key, Item]:
        return self._tables[request["TableName"].removeprefix(self._prefix)]

    def _key(self, request: dict[str, Any], wire: Item) -> _Key:
        names = _KEYS[request["TableName"].removeprefix(self._prefix)]
        key = item_from_wire({name: wire[name] for name in names})
        return tuple(key[name] for name in names)

    def _put(self, request: dict[str, Any]) -> dict[str, Any]:
        table, item = self._table(request), request["Item"]
        key = self._key(request, item)
        if "ConditionExpression" in request and key in table:
            raise ConditionFailed(item_from_wire(table[key]))
        table[key] = item
        units = -(-_size(item_from_wire(item)) // 1024)
        return {"ConsumedCapacity": {"CapacityUnits": units}}

    def _query(self, request: dict[str, Any]) -> dict[str, Any]:
        values = item_from_wire(request["ExpressionAttributeValues"])
        partition = next(iter(values.values()))
        found = sorted(
            (key, item) for key, item in self._table(request).items() if key[0] == partition
        )
        if bound := _RANGE.search(request["KeyConditionExpression"]):
            first, last, sign, place = bound.groups()
            low = values[first] if first else values[place] + 1 if sign == ">" else 0
            high = values[last] if last else values[place] if sign == "<=" else float("inf")
            found = [(key, item) for key, item in found if low <= key[1] <= high]
        if not request.get("ScanIndexForward", True):
            found.reverse()
        found = found[: request.get("Limit")]
        return {"Items": [item for _, item in found], "Count": len(found)}


def _size(value: Any) -> int:
    """What DynamoDB takes for the size of an item."""
    match value:
        case dict():
            return sum(len(name) + _size(one) for name, one in value.items())
        case list():
            return 3 + sum(1 + _size(one) for one in value)
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case _:
            return 8
