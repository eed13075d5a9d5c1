# SPDX-License-Identifier: Apache-2.0
"""Notes the keys of all items that this process writes to tables of tests.

They are deleted after a test without a search for them, which would take a request for each table.
A write that was cancelled may be carried out later than that: it is noted to which table it goes.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tidings.aws.transport import Poster
from tidings.stores.dynamodb.tables import TABLES

Item = dict[str, Any]

KEYS: Final = {
    table.name: tuple(key.name for key in (table.partition, table.sort) if key is not None)
    for table in TABLES
}
_TABLE: Final = re.compile(r"test_[0-9a-f]{12}_(\w+)")

_noted: Final = defaultdict[str, dict[tuple[str, ...], Item]](dict)
"""Keys by the name of the table, each with its text first."""

_cancelled: Final = set[str]()
"""Names of tables to which a write was cancelled before it was answered."""

_post: Final = Poster.post


async def _post_and_note(
    poster: Poster, operation: str, body: bytes, until: float
) -> tuple[int, str | None, bytes]:
    names = _note(operation, body) if operation in _WRITTEN else set()
    try:
        return await _post(poster, operation, body, until)
    except asyncio.CancelledError:
        _cancelled.update(names)
        raise


setattr(Poster, "post", _post_and_note)  # noqa: B010 - the type checker forbids the assignment


def take_noted(prefix: str) -> dict[str, list[Item]]:
    """Return the keys that were written to each table with this prefix, and forget them."""
    names = [prefix + table.name for table in TABLES]
    return {name: list(_noted.pop(name).values()) for name in names if name in _noted}


def is_write_cancelled(prefix: str) -> bool:
    """Return whether a write to a table with this prefix was cancelled, and forget it."""
    found = {name for name in _cancelled if name.startswith(prefix)}
    _cancelled.difference_update(found)
    return bool(found)


def _note(operation: str, body: bytes) -> set[str]:
    """Note the keys of a request; return the names of its tables."""
    names = set()
    for name, item in _WRITTEN[operation](msgspec.json.decode(body)):
        if (table := _TABLE.fullmatch(name)) is not None:
            key = {one: item[one] for one in KEYS[table[1]]}
            _noted[name][tuple(map(str, key.values()))] = key
            names.add(name)
    return names


def _in_item(request: Item) -> Iterator[tuple[str, Item]]:
    yield request["TableName"], request.get("Item") or request["Key"]


def _in_transaction(request: Item) -> Iterator[tuple[str, Item]]:
    for write in request["TransactItems"]:
        for kind in ("Put", "Update"):
            if kind in write:
                yield from _in_item(write[kind])


def _in_batch(request: Item) -> Iterator[tuple[str, Item]]:
    for name, writes in request["RequestItems"].items():
        for write in writes:
            if "PutRequest" in write:
                yield name, write["PutRequest"]["Item"]


_WRITTEN: Final = {
    "PutItem": _in_item,
    "UpdateItem": _in_item,
    "TransactWriteItems": _in_transaction,
    "BatchWriteItem": _in_batch,
}
