# SPDX-License-Identifier: Apache-2.0
"""A stand-in for DynamoDB: tables in memory that answer after 5 ms, as DynamoDB does.

Unlike DynamoDB Local, it answers many requests at the same time. It runs as a separate process
(`python -m bench.stand_in PORT`), and supports the operations that the server uses. Its streams are
empty. It counts write units by table and by operation.
"""

import asyncio
import bisect
import http.client
import itertools
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
import uvloop
from aiohttp import web

from bench.expressions import condition, update
from scripts.services import json_protocol
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import item_from_wire, item_to_wire
from tidings.stores.dynamodb.tables import TABLES

ANSWER_SECONDS: Final = 0.005
"""Approximate response time of DynamoDB within a region."""
COUNTED: Final = "/units"

_PARTITIONS: Final = {table.name: table.partition.name for table in TABLES}
_SORTS: Final = {table.name: table.sort.name if table.sort else "" for table in TABLES}
_SORTS_OF_INDEXES: Final = {
    index.name: index.sort.name if index.sort else "" for table in TABLES for index in table.indexes
}
_RANGE: Final = re.compile(r"(?:BETWEEN (:\w+) AND (:\w+)|>=? (:\w+)|<=? (:\w+))$")
_TYPE: Final = "com.amazonaws.dynamodb.v20120810#"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_Request = dict[str, Any]


class StandIn(ServiceProcess):
    """The process of the stand-in, and the units that it has counted."""

    name: ClassVar[str] = "the stand-in for DynamoDB"

    @property
    def address(self) -> str:
        """The endpoint for clients."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Return the command that runs this module."""
        return [sys.executable, "-m", __name__, str(self.port)]

    def environment(self) -> dict[str, str]:
        """Return the environment variable with which Python finds this module and its packages."""
        return {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}

    def answers(self) -> bool:
        """Return whether the stand-in lists its tables."""
        return json_protocol.answers(self.port, "DynamoDB_20120810.ListTables", {})

    def units(self) -> Counter[str]:
        """Return the write units so far, by operation and table, such as `PutItem messages`."""
        connection = http.client.HTTPConnection(HOST, self.port)
        try:
            connection.request("GET", COUNTED)
            return Counter(_decode(connection.getresponse().read()))
        finally:
            connection.close()


class Refused(Exception):
    """A refused request, which changes nothing."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.answer = {"__type": _TYPE + code, **more}


class Planned(NamedTuple):
    """A checked write: the item before it, and the item after it."""

    table: str
    old: Item | None
    new: Item | None

    def units(self) -> int:
        """Return the write units: one for each kilobyte of the larger of the two items."""
        return max(1, *(-(-size(item) // 1024) for item in (self.old, self.new) if item))


class Table:
    """The items of a table by partition, in the order of their sort keys."""

    def __init__(self, partition: str, sort: str) -> None:
        self._names = partition, sort
        self._order: defaultdict[Any, list[Any]] = defaultdict(list)
        self._items: dict[tuple[Any, Any], Item] = {}

    def key(self, item: Item) -> tuple[Any, Any]:
        partition, sort = self._names
        return item[partition], item.get(sort)

    def get(self, key: Item) -> Item | None:
        return self._items.get(self.key(key))

    def put(self, item: Item) -> None:
        partition, sort = self.key(item)
        if (partition, sort) not in self._items:
            bisect.insort(self._order[partition], sort)
        self._items[partition, sort] = item

    def delete(self, item: Item) -> None:
        partition, sort = self.key(item)
        if self._items.pop((partition, sort), None) is not None:
            self._order[partition].remove(sort)

    def between(self, partition: Any, low: Any, high: Any, *, is_backwards: bool) -> Iterator[Item]:
        """Return the items of a partition between two sort keys, in order; None means no bound."""
        order = self._order.get(partition, [])
        start = 0 if low is None else bisect.bisect_left(order, low)
        end = len(order) if high is None else bisect.bisect_right(order, high)
        places = range(end - 1, start - 1, -1) if is_backwards else range(start, end)
        return (self._items[partition, order[place]] for place in places)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())


class Tables:
    """All tables in memory."""

    def __init__(self) -> None:
        self._tables = {name: Table(_PARTITIONS[name], _SORTS[name]) for name in _PARTITIONS}
        self._names: dict[str, str] = {}
        self.units: Counter[str] = Counter()

    def answer(self, operation: str, request: _Request) -> dict[str, Any]:
        """Carry out a request.

        Raises:
            Refused: A condition is not met, or the operation is not supported.
        """
        match operation:
            case "PutItem" | "UpdateItem" | "DeleteItem":
                return self._write(operation, request)
            case "TransactWriteItems":
                return self._transact(request)
            case "BatchWriteItem":
                return self._batch_write(request)
            case "GetItem":
                found = self._table(request["TableName"]).get(item_from_wire(request["Key"]))
                return {"Item": item_to_wire(found)} if found else {}
            case "BatchGetItem":
                return self._batch_get(request)
            case "Query":
                return self._query(request)
            case "Scan":
                return self._scan(request)
            case "ListTables":
                return {"TableNames": list(self._tables)}
            case "CreateTable":
                raise Refused("ResourceInUseException")
            case "DescribeTable":
                return {"Table": {"LatestStreamArn": request["TableName"]}}
            case "DescribeStream":
                return {"StreamDescription": {"Shards": []}}
            case _:
                raise Refused("UnknownOperationException", message=operation)

    def _name(self, name: str) -> str:
        """Return the declared name of a table, without the deployment's prefix."""
        if name not in self._names:
            fitting = (known for known in self._tables if name.endswith(known))
            self._names[name] = max(fitting, key=len)
        return self._names[name]

    def _table(self, name: str) -> Table:
        return self._tables[self._name(name)]

    # Writes.

    def _write(self, operation: str, request: _Request) -> dict[str, Any]:
        planned = self._plan(request)
        units = self._carry_out(operation, [planned], 1)
        attributes = item_to_wire(planned.new or {})
        return {"Attributes": attributes, "ConsumedCapacity": {"CapacityUnits": units}}

    def _plan(self, request: _Request) -> Planned:
        table = self._table(request["TableName"])
        put = item_from_wire(request["Item"]) if "Item" in request else None
        key = put or item_from_wire(request["Key"])
        old = table.get(key)
        values = item_from_wire(request.get("ExpressionAttributeValues", {}))
        if not condition(request.get("ConditionExpression", ""))(old or {}, values):
            shown = {"Item": item_to_wire(old)} if old else {}
            raise Refused("ConditionalCheckFailedException", **shown)
        new = put
        if "UpdateExpression" in request:
            new = update(request["UpdateExpression"])(old or key, values)
        return Planned(self._name(request["TableName"]), old, new)

    def _carry_out(self, operation: str, writes: Iterable[Planned], price: int) -> int:
        total = 0
        for write in writes:
            units = price * write.units()
            self.units[f"{operation} {write.table}"] += units
            total += units
            if write.new is not None:
                self._tables[write.table].put(write.new)
            elif write.old is not None:
                self._tables[write.table].delete(write.old)
        return total

    def _transact(self, request: _Request) -> dict[str, Any]:
        planned: list[Planned] = []
        reasons: list[dict[str, Any]] = []
        for write in request["TransactItems"]:
            ((_, inner),) = write.items()
            try:
                planned.append(self._plan(inner))
                reasons.append({"Code": "None"})
            except Refused as refused:
                item = {"Item": refused.answer["Item"]} if "Item" in refused.answer else {}
                reasons.append({"Code": "ConditionalCheckFailed", **item})
        if len(planned) < len(reasons):
            raise Refused("TransactionCanceledException", CancellationReasons=reasons)
        units = self._carry_out("TransactWriteItems", planned, 2)
        return {"ConsumedCapacity": [{"CapacityUnits": units}]}

    def _batch_write(self, request: _Request) -> dict[str, Any]:
        planned = [
            self._plan({"TableName": name, **inner})
            for name, writes in request["RequestItems"].items()
            for write in writes
            for inner in write.values()
        ]
        units = self._carry_out("BatchWriteItem", planned, 1)
        return {"ConsumedCapacity": [{"CapacityUnits": units}]}

    # Reads.

    def _batch_get(self, request: _Request) -> dict[str, Any]:
        found: dict[str, list[Any]] = {}
        for name, asked in request["RequestItems"].items():
            items = map(self._table(name).get, map(item_from_wire, asked["Keys"]))
            found[name] = [item_to_wire(item) for item in items if item]
        return {"Responses": found, "ConsumedCapacity": []}

    def _query(self, request: _Request) -> dict[str, Any]:
        values = item_from_wire(request["ExpressionAttributeValues"])
        found = list(itertools.islice(self._in_range(request, values), request.get("Limit")))
        only = condition(request.get("FilterExpression", ""))
        shown = [item for item in found if only(item, values)]
        return {
            "Items": [item_to_wire(item) for item in shown],
            "Count": len(shown),
            "ScannedCount": len(found),
            "ConsumedCapacity": {"CapacityUnits": 0},
        }

    def _scan(self, request: _Request) -> dict[str, Any]:
        values = item_from_wire(request.get("ExpressionAttributeValues", {}))
        only = condition(request.get("FilterExpression", ""))
        table = () if request.get("Segment") else self._table(request["TableName"])
        return {"Items": [item_to_wire(item) for item in table if only(item, values)]}

    def _in_range(self, request: _Request, values: Item) -> Iterator[Item]:
        text, is_backwards = (
            request["KeyConditionExpression"],
            not request.get("ScanIndexForward", True),
        )
        where, table = condition(text), self._table(request["TableName"])
        if index := request.get("IndexName"):
            found = sorted(table, key=lambda item: item.get(_SORTS_OF_INDEXES[index], ""))
            return (item for item in found if where(item, values))
        low = high = None
        if bound := _RANGE.search(text):
            first, last, least, most = map(values.get, bound.groups())
            low, high = first or least, last or most
        # The first value of a key condition is always that of the partition.
        partition = next(iter(values.values()))
        found_items = table.between(partition, low, high, is_backwards=is_backwards)
        return (item for item in found_items if where(item, values))


def size(value: Any) -> int:
    """Return the size of an item as DynamoDB computes it."""
    match value:
        case dict():
            return sum(len(name) + size(one) for name, one in value.items())
        case list():
            return 3 + sum(1 + size(one) for one in value)
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case _:
            return 8


async def _serve(port: int) -> None:
    tables = Tables()

    async def answer(request: web.Request) -> web.Response:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        asked = _decode(await request.read())
        await asyncio.sleep(ANSWER_SECONDS)
        try:
            status, said = 200, tables.answer(operation, asked)
        except Refused as refused:
            status, said = 400, refused.answer
        return web.Response(status=status, body=_encode(said))

    async def counted(_request: web.Request) -> web.Response:
        return web.Response(body=_encode(tables.units))

    app = web.Application()
    app.router.add_post("/", answer)
    app.router.add_get(COUNTED, counted)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
