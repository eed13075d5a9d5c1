# SPDX-License-Identifier: Apache-2.0
"""A set of tables for one test, under a prefix of its own, and stores on it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final
from uuid import uuid4

from tidings.assembly.system import SystemChance, SystemClock
from tidings.ports.world import Failpoints, NoFailpoints
from tidings.stores.dynamodb.client.access import Recorder
from tidings.stores.dynamodb.client.retrying import Item, Rejected, Unanswered
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.schema.requests import create_table
from tidings.stores.dynamodb.store import DynamoStore, open_store
from tidings.stores.dynamodb.tables import TABLES

REGION: Final = "eu-west-1"

# DynamoDB Local takes any. Without some the SDK asks the network for them, which may take seconds.
os.environ.setdefault("AWS_ACCESS_KEY_ID", "local")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "local")
_SECONDS_MAX: Final = 60.0

made = 0
"""Tables that this run has made, deleted or not."""


def new_prefix() -> str:
    """A prefix that no other test has."""
    return f"test_{uuid4().hex[:12]}_"


async def make_tables(endpoint: str, prefix: str) -> None:
    """Make every declared table, all at once; TTL stays off: tests have a time of their own."""
    async with open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        for table in TABLES:
            await _make(transport, create_table(table, prefix), until)
    global made
    made += len(TABLES)


async def _make(transport: Transport, request: Item, until: float) -> None:
    """On a busy machine it may take longer than a request may: then it is asked again."""
    is_repeat = False
    while True:
        try:
            await transport.send("CreateTable", request, until)
        except Unanswered:
            if asyncio.get_running_loop().time() > until:
                raise
            is_repeat = True
        except Rejected as rejected:
            if is_repeat and rejected.code == "ResourceInUseException":
                return
            raise
        else:
            return


async def drop_tables(endpoint: str, prefix: str, *, protected: bool = False) -> None:
    """Delete them again, as far as they are there; one that stays is in nobody's way.

    Except for those that were made as they are for real: DynamoDB Local has hands for a few tables
    with TTL, and beyond that finishes no new index.
    """
    async with open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        for table in TABLES:
            name = {"TableName": prefix + table.name}
            with suppress(Unanswered, Rejected):
                if protected:
                    unprotected = {**name, "DeletionProtectionEnabled": False}
                    await transport.send("UpdateTable", unprotected, until)
                await transport.send("DeleteTable", name, until)


@asynccontextmanager
async def some_tables(endpoint: str) -> AsyncIterator[str]:
    """Tables for a while; gives their prefix."""
    prefix = new_prefix()
    try:
        await make_tables(endpoint, prefix)
        yield prefix
    finally:
        await drop_tables(endpoint, prefix)


def open_tables(
    endpoint: str,
    prefix: str,
    *,
    failpoints: Failpoints = NoFailpoints(),  # noqa: B008 - it has no state
    writes_heads: bool = True,
    record: Recorder | None = None,
) -> AbstractAsyncContextManager[DynamoStore]:
    """A store on the tables with this prefix; several at once are several processes."""
    return open_store(
        endpoint=endpoint,
        region=REGION,
        prefix=prefix,
        clock=SystemClock(),
        chance=SystemChance(),
        failpoints=failpoints,
        writes_heads=writes_heads,
        record=record,
    )
