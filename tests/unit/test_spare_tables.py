# SPDX-License-Identifier: Apache-2.0
"""Tables that tests use again: the next test finds nothing of the last one in them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.dynamo_tables import REGION
from tests.support.spare_tables import spare_tables
from tidings.assembly.system import SystemClock
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.tables import TABLES

SECONDS_MAX = 60.0
TABLE = next(table for table in TABLES if table.name == "chats")

Request = dict[str, Any]


@pytest.fixture
async def transport(dynamodb_endpoint: str) -> AsyncIterator[Transport]:
    async with open_transport(
        endpoint=dynamodb_endpoint, region=REGION, clock=SystemClock()
    ) as opened:
        yield opened


def item(name: str) -> Request:
    """The key of an item, which is a whole item too."""
    keys = [key for key in (TABLE.partition, TABLE.sort) if key is not None]
    return {key.name: {key.type: name if key.type == "S" else "1"} for key in keys}


def writes(table: str) -> dict[str, Request]:
    """A request of every operation that can create an item."""
    put = {"TableName": table, "Item": item("in a transaction")}
    update = {"TableName": table, "Key": item("updated in a transaction")}
    value = {"UpdateExpression": "SET v = :v", "ExpressionAttributeValues": {":v": {"S": "1"}}}
    return {
        "PutItem": {"TableName": table, "Item": item("put")},
        "UpdateItem": {"TableName": table, "Key": item("updated"), **value},
        "BatchWriteItem": {"RequestItems": {table: [{"PutRequest": {"Item": item("in a batch")}}]}},
        "TransactWriteItems": {"TransactItems": [{"Put": put}, {"Update": {**update, **value}}]},
    }


async def ask(transport: Transport, operation: str, request: Request) -> Request:
    until = asyncio.get_running_loop().time() + SECONDS_MAX
    return await transport.send(operation, request, until)


async def test_whatever_was_written_is_gone(dynamodb_endpoint: str, transport: Transport) -> None:
    async with spare_tables(dynamodb_endpoint) as first:
        table = first + TABLE.name
        for operation, request in writes(table).items():
            await ask(transport, operation, request)
        assert (await ask(transport, "Scan", {"TableName": table}))["Count"] == 5
    async with spare_tables(dynamodb_endpoint) as second:
        assert second == first
        assert (await ask(transport, "Scan", {"TableName": table}))["Count"] == 0


async def test_tables_to_which_a_write_may_still_come_are_not_used_again(
    dynamodb_endpoint: str, transport: Transport
) -> None:
    async with spare_tables(dynamodb_endpoint) as first:
        put = writes(first + TABLE.name)["PutItem"]
        write = asyncio.create_task(ask(transport, "PutItem", put))
        await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
    async with spare_tables(dynamodb_endpoint) as second:
        assert second != first
