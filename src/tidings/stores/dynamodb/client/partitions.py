# SPDX-License-Identifier: Apache-2.0
"""Records the load of each partition key, to find hot keys.

DynamoDB gives one partition key 3,000 read and 1,000 write units per second, however large the
table is. A write unit counts as three read units, so that one figure compares all keys.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidings.ports.world import Clock
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.tables import TABLES

WRITE_WEIGHT: Final = 3
PARTITION_UNITS_MAX: Final = 3_000
"""Weighted units that DynamoDB gives one partition key per second."""
HOT_UNITS: Final = PARTITION_UNITS_MAX * 2 // 3
"""Weighted units per second from which a key is hot; at one and a half times this load, DynamoDB
throttles it."""


@dataclass(frozen=True, slots=True)
class KeyLoad:
    """The largest load of one partition key in a second."""

    table: str
    key: str
    units: float
    """Weighted units per second."""

    @property
    def is_hot(self) -> bool:
        """Whether the load is near the limit of DynamoDB."""
        return self.units >= HOT_UNITS


_PARTITIONS: Final = {table.name: table.partition.name for table in TABLES} | {
    index.name: index.partition.name for table in TABLES for index in table.indexes
}


class PartitionLoad:
    """Adds up the units of each partition key, second by second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._now: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._most: dict[tuple[str, str], float] = {}

    def __call__(self, usage: Usage) -> None:
        """Count a request: its units are spread evenly over the keys that it names."""
        second = self._clock.now() // 1_000
        if second != self._second:
            self._close()
            self._second = second
        weighted = usage.read_units + WRITE_WEIGHT * usage.write_units
        for key in usage.keys:
            self._now[key] += weighted / len(usage.keys)

    def busiest(self, count: int) -> list[KeyLoad]:
        """Return the keys with the largest loads, busiest first."""
        self._close()
        ranked = sorted(self._most.items(), key=lambda item: (-item[1], item[0]))
        return [KeyLoad(table, key, units) for (table, key), units in ranked[:count]]

    def _close(self) -> None:
        for key, units in self._now.items():
            self._most[key] = max(units, self._most.get(key, 0.0))
        self._now.clear()


def keys_of(request: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the table or index and the partition key of each item or query in a request."""
    for action in request.get("TransactItems", ()):
        for part in action.values():
            yield from keys_of(part, prefix)
    for table, items in request.get("RequestItems", {}).items():
        for item in items["Keys"] if isinstance(items, dict) else items:
            change = item.get("PutRequest") or item.get("DeleteRequest") or {"Key": item}
            yield from keys_of({"TableName": table, **change}, prefix)
    if "TableName" in request:
        place = request.get("IndexName") or request["TableName"].removeprefix(prefix)
        if (key := _key(request, _PARTITIONS[place])) is not None:
            yield place, key


def _key(request: Mapping[str, Any], name: str) -> str | None:
    item = request.get("Key") or request.get("Item") or {}
    if name in item:
        return str(next(iter(item[name].values())))
    for condition in request.get("KeyConditionExpression", "").split(" AND "):
        left, _, right = condition.partition(" = ")
        if left.removeprefix("#") == name and right:
            return str(next(iter(request["ExpressionAttributeValues"][right].values())))
    return None
