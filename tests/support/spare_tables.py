# SPDX-License-Identifier: Apache-2.0
"""Reuses sets of empty tables, because emptying takes a fifth of the time of creating.

The tables have no streams, and only this process writes to them. Two kinds of tests need the new
tables of `some_tables` instead: tests with a server, which reads the streams, and tests that end
while a request is in progress.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import msgspec

from tests.support.dynamo_tables import drop_tables, make_tables, new_prefix
from tidings.aws.transport import Poster
from tidings.stores.dynamodb.tables import TABLES, Table

Item = dict[str, Any]

_ITEMS_MAX: Final = 200
"""Maximum number of items in one table. A set with more is replaced by a new one, which is
cheaper."""
_BATCH: Final = 25
"""Maximum number of deletions in one request to DynamoDB."""

# DynamoDB Local does not check the signature, but answers only requests with this header.
_HEADERS: Final = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/eu-west-1/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0",
    "Content-Type": "application/x-amz-json-1.0",
}

_WRITES: Final = frozenset(
    {"BatchWriteItem", "DeleteItem", "PutItem", "TransactWriteItems", "UpdateItem"}
)
_TABLE_NAME: Final = re.compile(rb'"(test_[0-9a-f]{12}_\w+)"')
_written: Final = set[str]()
"""Names of tables that this process has written to: the others of a set are still empty."""

_spare: Final = defaultdict[str, list[str]](list)
"""Prefixes of empty tables, by endpoint."""


_post: Final = Poster.post


async def _post_and_note(
    poster: Poster, operation: str, body: bytes, until: float
) -> tuple[int, str | None, bytes]:
    if operation in _WRITES:
        _written.update(name.decode() for name in _TABLE_NAME.findall(body))
    return await _post(poster, operation, body, until)


setattr(Poster, "post", _post_and_note)  # noqa: B010 - the type checker forbids the assignment


@asynccontextmanager
async def spare_tables(endpoint: str) -> AsyncIterator[str]:
    """Yield the prefix of empty tables; on exit, empty them for the next test."""
    if _spare[endpoint]:
        prefix = _spare[endpoint].pop()
    else:
        prefix = new_prefix()
        await make_tables(endpoint, prefix, streams=False)
    is_empty = False
    try:
        yield prefix
        is_empty = await _emptied(endpoint, prefix)
    finally:
        if is_empty:
            _spare[endpoint].append(prefix)
        else:
            await drop_tables(endpoint, prefix)


def forget_tables(endpoint: str) -> None:
    """Forget all tables of an endpoint that was restarted."""
    _spare.pop(endpoint, None)


async def drop_spare(endpoint: str) -> None:
    """Delete all empty tables at an endpoint that outlives the test run."""
    for prefix in _spare.pop(endpoint, []):
        await drop_tables(endpoint, prefix)


async def _emptied(endpoint: str, prefix: str) -> bool:
    """Delete all items; return False if there are too many, or if a request fails."""
    written = [table for table in TABLES if prefix + table.name in _written]
    _written.difference_update(prefix + table.name for table in written)
    async with aiohttp.ClientSession(endpoint, headers=_HEADERS) as http:
        done = await asyncio.gather(*(_empty(http, prefix, table) for table in written))
    return all(done)


async def _empty(http: aiohttp.ClientSession, prefix: str, table: Table) -> bool:
    name = prefix + table.name
    keys = [key.name for key in (table.partition, table.sort) if key is not None]
    names = {f"#{at}": key for at, key in enumerate(keys)}
    found = await _ask(
        http,
        "Scan",
        {
            "TableName": name,
            "ConsistentRead": True,
            "ProjectionExpression": ",".join(names),
            "ExpressionAttributeNames": names,
            "Limit": _ITEMS_MAX,
        },
    )
    if found is None or "LastEvaluatedKey" in found:
        return False
    deletes = [{"DeleteRequest": {"Key": item}} for item in found["Items"]]
    for first in range(0, len(deletes), _BATCH):
        batch = {"RequestItems": {name: deletes[first : first + _BATCH]}}
        answer = await _ask(http, "BatchWriteItem", batch)
        if answer is None or answer.get("UnprocessedItems"):
            return False
    return True


async def _ask(http: aiohttp.ClientSession, operation: str, request: Item) -> Item | None:
    target = {"X-Amz-Target": f"DynamoDB_20120810.{operation}"}
    async with http.post("/", data=msgspec.json.encode(request), headers=target) as answer:
        body: Item = msgspec.json.decode(await answer.read())
        return body if answer.status == 200 else None
