# SPDX-License-Identifier: Apache-2.0
"""Creates a set of tables for a test, under a unique prefix, and opens stores on them."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

from tests.support.ready_credentials import LOCAL
from tidings.assembly.system import SystemChance, SystemClock
from tidings.aws.transport import Unsent
from tidings.ports.world import Failpoints, NoFailpoints
from tidings.stores.dynamodb.client.access import Recorder
from tidings.stores.dynamodb.client.retrying import Item, Rejected, Unanswered
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.schema.requests import create_table
from tidings.stores.dynamodb.store import DynamoStore, open_store
from tidings.stores.dynamodb.tables import TABLES, Table

REGION: Final = "eu-west-1"

# DynamoDB Local accepts any credentials. Without any, the SDK searches the network for some, which
# may take seconds.
os.environ.setdefault("AWS_ACCESS_KEY_ID", LOCAL)
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", LOCAL)
_SECONDS_MAX: Final = 60.0

made = 0
"""Number of tables that this test run has created, deleted or not."""
made_with_streams = 0
"""Number of sets of tables with streams among them."""


def new_prefix() -> str:
    """Return a prefix that no other test uses."""
    return f"test_{uuid4().hex[:12]}_"


async def make_tables(
    endpoint: str, prefix: str, *, streams: bool = True, tables: Sequence[Table] = TABLES
) -> None:
    """Create declared tables. TTL stays off, because tests set their own time.

    Only servers read the streams. In DynamoDB Local they are expensive: each request for a table
    with a stream searches the records of all older streams, even of deleted tables.
    """
    async with open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        for table in tables:
            wanted = table if streams else replace(table, stream=None)
            request = create_table(wanted, prefix)
            await _ask(transport, "CreateTable", request, until, "ResourceInUseException")
    global made, made_with_streams
    made += len(tables)
    made_with_streams += streams


async def _ask(
    transport: Transport, operation: str, request: Item, until: float, done: str
) -> None:
    """Send a request; repeat it if it times out, as it may on a busy machine.

    A repeated request may be refused with the code `done`: the first was carried out after all.
    """
    is_repeat = False
    while True:
        try:
            await transport.send(operation, request, until)
        except (Unanswered, Unsent):
            if asyncio.get_running_loop().time() > until:
                raise
            is_repeat = True
        except Rejected as rejected:
            if is_repeat and rejected.code == done:
                return
            raise
        else:
            return


async def drop_tables(
    endpoint: str, prefix: str, *, protected: bool = False, tables: Sequence[Table] = TABLES
) -> None:
    """Delete the tables, as far as they exist; errors are ignored.

    A table that stays is harmless if no other gets its name, unless it has a TTL: with too many of
    those, DynamoDB Local does not complete new indexes.
    """
    async with open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        for table in tables:
            name = {"TableName": prefix + table.name}
            with suppress(Unanswered, Rejected):
                if protected:
                    unprotected = {**name, "DeletionProtectionEnabled": False}
                    await transport.send("UpdateTable", unprotected, until)
                await _ask(transport, "DeleteTable", name, until, "ResourceNotFoundException")


@asynccontextmanager
async def some_tables(endpoint: str, *, streams: bool = True) -> AsyncIterator[str]:
    """Create new tables, yield their prefix, and delete them on exit."""
    prefix = new_prefix()
    try:
        await make_tables(endpoint, prefix, streams=streams)
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
    """Open a store on the tables with this prefix; several open stores act as several processes."""
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
