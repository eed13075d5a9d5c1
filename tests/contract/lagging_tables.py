# SPDX-License-Identifier: Apache-2.0
"""Tables with replicas that lag, as those of DynamoDB may. Those of DynamoDB Local never do."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from tests.contract.lossy_tables import own_tables
from tests.support.noted_writes import KEYS
from tidings.stores.dynamodb.client import dynamo
from tidings.stores.dynamodb.client.access import READS
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.transport import Transport

_SECONDS_MAX: Final = 60.0
_PREFIX: Final = re.compile(r"test_[0-9a-f]{12}_")


class Replica:
    """The real transport to some tables, and a replica of them: a second set of tables.

    The replica answers each read that is not strongly consistent, and each read of an index. It
    lacks the last write, or while it is held, all writes since then.
    """

    def __init__(self, transport: Transport, prefix: str) -> None:
        self._transport = transport
        self._prefix = prefix
        self._is_held = False
        self._missing: dict[str, tuple[str, Item]] = {}
        """Name of the table and key of each item that the replica has not taken over."""
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def opened(self, **_: object) -> AsyncIterator["Replica"]:
        """Stand in for `open_transport`, so that all stores see the same replica."""
        yield self

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Let the replica take over all writes, and then none for a while."""
        await self._take_over()
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    async def send(self, operation: str, request: Item, until: float) -> Item:
        if operation == "BatchGetItem":
            return await self._batch_get(request, until)
        if operation in READS:
            is_strong = request.get("ConsistentRead") and "IndexName" not in request
            return await (self._transport.send if is_strong else self._relaxed)(
                operation, request, until
            )
        if not self._is_held:
            await self._take_over()
        try:
            return await self._transport.send(operation, request, until)
        finally:
            for table, key in _written(request):
                self._missing[f"{table}{key}"] = table, key

    async def _relaxed(self, operation: str, request: Item, until: float) -> Item:
        found = _PREFIX.search(str(request))
        assert found is not None, request
        answer = await self._transport.send(operation, _renamed(request, self._prefix), until)
        renamed: Item = _renamed(answer, found[0])
        return renamed

    async def _batch_get(self, request: Item, until: float) -> Item:
        asked = request["RequestItems"]
        answers = []
        for send, is_strong in ((self._transport.send, True), (self._relaxed, False)):
            some = {
                name: keys
                for name, keys in asked.items()
                if is_strong is ("ConsistentRead" in keys)
            }
            if some:
                one = {**request, "RequestItems": some}
                answers.append(await send("BatchGetItem", one, until))
        return {
            "Responses": {k: v for answer in answers for k, v in answer["Responses"].items()},
            "UnprocessedKeys": {
                k: v for answer in answers for k, v in answer.get("UnprocessedKeys", {}).items()
            },
            "ConsumedCapacity": [one for answer in answers for one in answer["ConsumedCapacity"]],
        }

    async def _take_over(self) -> None:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        async with self._turn:
            while self._missing:
                _, (table, key) = self._missing.popitem()
                read = {"TableName": table, "Key": key, "ConsistentRead": True}
                found = await self._transport.send("GetItem", read, until)
                copy = {"TableName": _renamed(table, self._prefix)}
                if "Item" in found:
                    put = {**copy, "Item": found["Item"]}
                    await self._transport.send("PutItem", put, until)
                else:
                    await self._transport.send("DeleteItem", {**copy, "Key": key}, until)


def _written(request: Item) -> Iterator[tuple[str, Item]]:
    """Yield the name of the table and the key of each item that a request may write."""
    for write in request.get("TransactItems", ()):
        for part in write.values():
            yield from _written(part)
    for name, writes in request.get("RequestItems", {}).items():
        for write in writes:
            part = write.get("PutRequest") or write["DeleteRequest"]
            yield from _written({"TableName": name, **part})
    if "TableName" in request:
        name = request["TableName"]
        item = request.get("Item") or request["Key"]
        yield name, {one: item[one] for one in KEYS[_PREFIX.sub("", name)]}


def _renamed(value: Any, prefix: str) -> Any:
    """Return the value with another prefix in all names of tables."""
    if isinstance(value, str):
        return _PREFIX.sub(prefix, value)
    if isinstance(value, list):
        return [_renamed(one, prefix) for one in value]
    if isinstance(value, dict):
        return {_renamed(name, prefix): _renamed(one, prefix) for name, one in value.items()}
    return value


@asynccontextmanager
async def lagging_tables(endpoint: str) -> AsyncIterator[Replica]:
    """A replica for the one set of tables on which stores are opened meanwhile."""
    async with own_tables(endpoint) as (transport, prefix):
        replica = Replica(transport, prefix)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dynamo, "open_transport", replica.opened)
            yield replica
