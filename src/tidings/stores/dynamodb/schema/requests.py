# SPDX-License-Identifier: Apache-2.0
"""Builds the requests that create and change the declared tables, and creates missing tables."""

import logging
from typing import Any

from tidings.model.refusals import StoreUnavailable
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.client.retrying import Budget, Rejected, Retrying
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.tables import (
    PITR_DAYS,
    TABLES,
    Index,
    Provisioned,
    Table,
    TableKey,
)

Request = dict[str, Any]

log = logging.getLogger("tidings.dynamodb")


def create_table(table: Table, prefix: str) -> Request:
    """Return the request for a new table; TTL and point-in-time recovery need further requests."""
    request: Request = {
        "TableName": prefix + table.name,
        "AttributeDefinitions": attributes(table),
        "KeySchema": key_schema(table.partition, table.sort),
        **billing(table.capacity),
    }
    if table.indexes:
        request["GlobalSecondaryIndexes"] = [index(table, wanted) for wanted in table.indexes]
    if table.stream:
        request["StreamSpecification"] = stream(table)
    return request


def attributes(table: Table) -> list[dict[str, str]]:
    """Return the types of all attributes in the keys of the table and its indexes."""
    keys = [table.partition, table.sort]
    for index in table.indexes:
        keys += [index.partition, index.sort]
    types = {key.name: key.type for key in keys if key is not None}
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in sorted(types.items())]


def key_schema(partition: TableKey, sort: TableKey | None) -> list[dict[str, str]]:
    """Return a primary key in the format of a request."""
    keys = [{"AttributeName": partition.name, "KeyType": "HASH"}]
    if sort is not None:
        keys.append({"AttributeName": sort.name, "KeyType": "RANGE"})
    return keys


def index(table: Table, index: Index) -> Request:
    """Return the description of an index, with its own capacity if the table is provisioned."""
    request: Request = {
        "IndexName": index.name,
        "KeySchema": key_schema(index.partition, index.sort),
        "Projection": {"ProjectionType": index.projection},
    }
    if table.capacity is not None:
        request["ProvisionedThroughput"] = throughput(table.capacity)
    return request


def billing(capacity: Provisioned | None) -> Request:
    """Return the billing mode and, if it is provisioned, the capacity."""
    if capacity is None:
        return {"BillingMode": "PAY_PER_REQUEST"}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": throughput(capacity)}


def throughput(capacity: Provisioned) -> dict[str, int]:
    """Return the initial capacity, which scaling changes later."""
    return {
        "ReadCapacityUnits": capacity.read.least,
        "WriteCapacityUnits": capacity.write.least,
    }


def stream(table: Table) -> Request:
    """Return the setting that switches the table's stream on."""
    return {"StreamEnabled": True, "StreamViewType": table.stream}


def recovery(table: Table) -> Request:
    """Return the setting of point-in-time recovery."""
    if not table.pitr:
        return {"PointInTimeRecoveryEnabled": False}
    return {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": PITR_DAYS}


def change_mode(table: Table, indexes: list[str]) -> Request:
    """Return the request that changes the billing mode of a table and its existing indexes."""
    request = billing(table.capacity)
    if table.capacity is not None and indexes:
        request["GlobalSecondaryIndexUpdates"] = [
            _index_capacity(name, throughput(table.capacity)) for name in indexes
        ]
    return request


def change_capacity(index: Index | None, throughput: dict[str, int]) -> Request:
    """Return the request that changes the capacity of an index or, without one, of the table."""
    if index is None:
        return {"ProvisionedThroughput": throughput}
    return {"GlobalSecondaryIndexUpdates": [_index_capacity(index.name, throughput)]}


def add_index(table: Table, added: Index) -> Request:
    """Return the request that adds an index to an existing table."""
    return {
        "AttributeDefinitions": attributes(table),
        "GlobalSecondaryIndexUpdates": [{"Create": index(table, added)}],
    }


def _index_capacity(name: str, throughput: dict[str, int]) -> Request:
    return {"Update": {"IndexName": name, "ProvisionedThroughput": throughput}}


async def make_missing(
    *, endpoint: str, region: str, prefix: str, clock: Clock, chance: Chance
) -> None:
    """Create the tables that are missing; existing tables are not changed.

    Raises:
        StoreUnavailable: The engine cannot be reached, or refuses a request.
    """
    async with open_transport(endpoint=endpoint, region=region, clock=clock) as transport:
        making = _Making(transport, Retrying(chance, Budget()), prefix)
        made = [table.name for table in TABLES if await making.make(table)]
    if made:
        log.info(
            "created missing tables: %s",
            ", ".join(made),
            extra={"action": "tables_made", "prefix": prefix},
        )


class _Making:
    def __init__(self, transport: Transport, retrying: Retrying, prefix: str) -> None:
        self._transport = transport
        self._retrying = retrying
        self._prefix = prefix

    async def make(self, table: Table) -> bool:
        """Create a table; return False if it already exists."""
        request = {**create_table(table, self._prefix), "DeletionProtectionEnabled": True}
        try:
            await self._ask("CreateTable", request)
            if table.ttl is not None:
                ttl = {"Enabled": True, "AttributeName": table.ttl}
                name = self._prefix + table.name
                await self._ask(
                    "UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": ttl}
                )
        except Rejected as rejected:
            if rejected.code == "ResourceInUseException":
                return False
            raise StoreUnavailable from rejected
        return True

    async def _ask(self, operation: str, request: dict[str, Any]) -> None:
        await self._retrying.call(
            lambda until: self._transport.send(operation, request, until),
        )
