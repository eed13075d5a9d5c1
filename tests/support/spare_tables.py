# SPDX-License-Identifier: Apache-2.0
"""Reuses sets of empty tables, because emptying takes a fifth of the time of creating.

A stream also contains earlier changes. For a server, which reads them, the few tables with a stream
are therefore created anew. A set to which a write was cancelled is not used again, because the
write may come after the deletion. Tests that end while a server is writing need the new tables of
`some_tables`, all of them.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec

from tests.support.dynamo_tables import drop_tables, make_tables, new_prefix
from tests.support.noted_writes import Item, is_write_cancelled, take_noted
from tidings.stores.dynamodb.tables import TABLES, Table

_ITEMS_MAX: Final = 200
"""Maximum number of items in one table. One with more is replaced by a new one, which is
cheaper."""
_BATCH: Final = 25
"""Maximum number of deletions in one request to DynamoDB."""

# DynamoDB Local does not check the signature, but answers only requests with this header.
_HEADERS: Final = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/eu-west-1/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0",
    "Content-Type": "application/x-amz-json-1.0",
}

STREAMED: Final = tuple(table for table in TABLES if table.stream)
OTHERS: Final = tuple(table for table in TABLES if not table.stream)

_spare: Final = defaultdict[str, list[str]](list)
"""Prefixes of sets of empty tables, by endpoint."""
_spare_without: Final = defaultdict[str, list[str]](list)
"""Prefixes of sets that lack the tables with a stream."""


@asynccontextmanager
async def spare_tables(
    endpoint: str, *, streams: bool = False, is_shared: bool = False
) -> AsyncIterator[str]:
    """Yield the prefix of empty tables; on exit, empty them for the next test.

    Without streams, only this process may write to the tables, unless `is_shared` is true.
    """
    prefix = await (_taken_with_streams if streams else _taken)(endpoint)
    is_empty = False
    try:
        yield prefix
        noted = take_noted(prefix)
        if is_write_cancelled(prefix):
            return
        if streams:
            await drop_tables(endpoint, prefix, tables=STREAMED)
        if streams or is_shared:
            await _search_and_empty(endpoint, prefix, OTHERS if streams else TABLES)
        else:
            await _delete_noted(endpoint, prefix, noted)
        is_empty = True
    finally:
        if is_empty:
            (_spare_without if streams else _spare)[endpoint].append(prefix)
        else:
            await drop_tables(endpoint, prefix)


async def _taken(endpoint: str) -> str:
    """Take a set whose tables have no streams, or create one."""
    if _spare[endpoint]:
        return _spare[endpoint].pop()
    prefix, has_others = _without_streamed(endpoint)
    tables = STREAMED if has_others else TABLES
    await make_tables(endpoint, prefix, streams=False, tables=tables)
    return prefix


async def _taken_with_streams(endpoint: str) -> str:
    """Take a set, and create its tables with streams."""
    prefix, has_others = _without_streamed(endpoint)
    if not has_others and _spare[endpoint]:
        prefix, has_others = _spare[endpoint].pop(), True
        await drop_tables(endpoint, prefix, tables=STREAMED)
    await make_tables(endpoint, prefix, tables=STREAMED if has_others else TABLES)
    return prefix


def _without_streamed(endpoint: str) -> tuple[str, bool]:
    """Take a set that lacks the tables with a stream; return its prefix and True, or a new one."""
    spare = _spare_without[endpoint]
    return (spare.pop(), True) if spare else (new_prefix(), False)


def forget_tables(endpoint: str) -> None:
    """Forget all tables of an endpoint that was restarted."""
    for spare in (_spare, _spare_without):
        spare.pop(endpoint, None)


async def drop_spare(endpoint: str) -> None:
    """Delete all empty tables at an endpoint that outlives the test run."""
    for spare in (_spare, _spare_without):
        for prefix in spare.pop(endpoint, []):
            await drop_tables(endpoint, prefix)


async def _delete_noted(endpoint: str, prefix: str, noted: dict[str, list[Item]]) -> None:
    """Delete the items with these keys; replace tables that have too many, or whose request
    fails."""
    full = {name for name, keys in noted.items() if len(keys) > _ITEMS_MAX}
    deletes = [
        (name, {"DeleteRequest": {"Key": key}})
        for name in noted.keys() - full
        for key in noted[name]
    ]
    async with aiohttp.ClientSession(endpoint, headers=_HEADERS) as http:
        for first in range(0, len(deletes), _BATCH):
            by_table = defaultdict[str, list[Item]](list)
            for name, delete in deletes[first : first + _BATCH]:
                by_table[name].append(delete)
            answer = await _ask(http, "BatchWriteItem", {"RequestItems": by_table})
            if answer is None or answer.get("UnprocessedItems"):
                full.update(by_table)
    await _replace(endpoint, prefix, [table for table in TABLES if prefix + table.name in full])


async def _search_and_empty(endpoint: str, prefix: str, tables: Sequence[Table]) -> None:
    """Delete all items; replace tables that have too many."""
    async with aiohttp.ClientSession(endpoint, headers=_HEADERS) as http:
        done = await asyncio.gather(*(_empty(http, prefix, table) for table in tables))
    pairs = zip(tables, done, strict=True)
    await _replace(endpoint, prefix, [table for table, is_empty in pairs if not is_empty])


async def _replace(endpoint: str, prefix: str, full: Sequence[Table]) -> None:
    if full:
        await drop_tables(endpoint, prefix, tables=full)
        await make_tables(endpoint, prefix, streams=False, tables=full)


async def _empty(http: aiohttp.ClientSession, prefix: str, table: Table) -> bool:
    """Delete all items; return False if there are too many, or if a request fails."""
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
