# SPDX-License-Identifier: Apache-2.0
"""Compares the declared tables with those at an endpoint, and creates or changes tables there.

Nothing here deletes a table or an index. Unlike the store, this module calls DynamoDB through the
SDK: the SDK is slower, but only an operator waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from tidings.model.setup_error import SetupError
from tidings.stores.dynamodb.schema import requests
from tidings.stores.dynamodb.schema.differences import DescribedTable, Difference, differences
from tidings.stores.dynamodb.tables import PITR_DAYS, TABLES, Range, Table

POLL_SECONDS: Final = 0.5
WAIT_SECONDS_MAX: Final = 1_800
"""How long to wait for a change. If building a large index takes longer, the operator repeats the
command."""


class LiveTables:
    """Compares and changes the tables of one deployment at an endpoint."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - the SDK has no types
        prefix: str,
        tables: Sequence[Table] = TABLES,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._tables = tables

    async def find(self, table: Table) -> DescribedTable | None:
        """Return the actual table, or None if it does not exist."""
        name = self._prefix + table.name
        try:
            description = await self._describe(table)
        except self._client.exceptions.ResourceNotFoundException:
            return None
        return DescribedTable(description, await self._ttl(name), await self._pitr(name))

    async def arn(self, table: Table) -> str | None:
        """Return the ARN of the actual table, or None if the table does not exist."""
        try:
            return str((await self._describe(table))["TableArn"])
        except self._client.exceptions.ResourceNotFoundException:
            return None

    async def differences(self) -> list[Difference]:
        """Return everything that is not as declared, table by table."""
        return [difference for table in self._tables for difference in await self._of(table)]

    async def knows_pitr(self) -> bool:
        """Return True if the endpoint supports point-in-time recovery."""
        found = [await self.find(table) for table in self._tables]
        return all(table.pitr is not None for table in found if table is not None)

    async def apply(self, report: Callable[[Difference], None]) -> list[Difference]:
        """Report and fix each curable difference; return the differences that remain."""
        for table in self._tables:
            tried: set[Difference] = set()
            while steps := [step for step in await self._of(table) if step.curable]:
                step = steps[0]
                if step in tried:
                    break  # the change did not fix the difference, so it remains
                tried.add(step)
                report(step)
                if step.kind != "table_missing":
                    await self._wait_until_active(table)
                await self.cure(step)
                await self._wait_until_active(table)
        return await self.differences()

    async def _of(self, table: Table) -> list[Difference]:
        return differences(table, await self.find(table))

    async def _ttl(self, name: str) -> str | None:
        answer = await self._client.describe_time_to_live(TableName=name)
        description = answer["TimeToLiveDescription"]
        is_on = description["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
        return str(description["AttributeName"]) if is_on else None

    async def _pitr(self, name: str) -> int | None:
        try:
            answer = await self._client.describe_continuous_backups(TableName=name)
        except ClientError as error:
            # DynamoDB Local does not support this. Other errors, such as a missing permission,
            # are raised.
            if code_of(error) == "UnknownOperationException":
                return None
            raise
        recovery = answer["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
        if recovery["PointInTimeRecoveryStatus"] != "ENABLED":
            return 0
        return int(recovery.get("RecoveryPeriodInDays", PITR_DAYS))

    async def cure(self, step: Difference) -> None:
        """Request the change that fixes a difference; the change may take a while to complete."""
        table = step.table
        name = self._prefix + table.name
        match step.kind:
            case "table_missing":
                await self._client.create_table(
                    **requests.create_table(table, self._prefix), DeletionProtectionEnabled=True
                )
            case "ttl_off":
                await self._client.update_time_to_live(
                    TableName=name,
                    TimeToLiveSpecification={"Enabled": True, "AttributeName": table.ttl},
                )
            case "pitr_off" | "pitr_short":
                await self._client.update_continuous_backups(
                    TableName=name, PointInTimeRecoverySpecification=requests.recovery(table)
                )
            case _:
                await self._client.update_table(TableName=name, **await self._change(step))

    async def _change(self, step: Difference) -> requests.Request:
        """Return the UpdateTable request for this step."""
        table, index = step.table, step.index
        match step.kind:
            case "mode_wrong":
                return requests.change_mode(table, list(await self._indexes(table)))
            case "capacity_wrong":
                return await self._change_capacity(step)
            case "index_missing":
                assert index is not None, "an index that is missing is named"
                return requests.add_index(table, index)
            case "stream_off":
                return {"StreamSpecification": requests.stream(table)}
            case "protection_off":
                return {"DeletionProtectionEnabled": True}
            case _:
                raise AssertionError(f"{step.kind} cannot be changed in place")

    async def _change_capacity(self, step: Difference) -> requests.Request:
        """Return the request that moves the read and write capacity into their ranges."""
        assert step.table.capacity is not None, "only a provisioned table has a capacity"
        there = await self._describe(step.table)
        if step.index is not None:
            there = (await self._indexes(step.table))[step.index.name]
        now = there["ProvisionedThroughput"]
        throughput = {
            "ReadCapacityUnits": _nearest(step.table.capacity.read, now["ReadCapacityUnits"]),
            "WriteCapacityUnits": _nearest(step.table.capacity.write, now["WriteCapacityUnits"]),
        }
        return requests.change_capacity(step.index, throughput)

    async def _describe(self, table: Table) -> dict[str, Any]:
        answer = await self._client.describe_table(TableName=self._prefix + table.name)
        described: dict[str, Any] = answer["Table"]
        return described

    async def _indexes(self, table: Table) -> dict[str, Any]:
        indexes = (await self._describe(table)).get("GlobalSecondaryIndexes", ())
        return {index["IndexName"]: index for index in indexes}

    async def _wait_until_active(self, table: Table) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while True:
                    if _is_active(await self._describe(table)):
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            name = self._prefix + table.name
            raise SetupError(f"{name} is still being changed: repeat the command") from None


@asynccontextmanager
async def live_tables(
    *,
    endpoint: str | None,
    region: str | None,
    prefix: str,
    tables: Sequence[Table] = TABLES,
) -> AsyncIterator[LiveTables]:
    """Connect to DynamoDB at AWS or at a custom endpoint.

    Raises:
        SetupError: The endpoint cannot be reached, or refuses a request.
    """
    async with aws_client("dynamodb", endpoint=endpoint, region=region) as client:
        yield LiveTables(client, prefix, tables)


@asynccontextmanager
async def aws_client(
    service: str, *, endpoint: str | None, region: str | None
) -> AsyncIterator[Any]:
    """Open the SDK's client of a service; a custom endpoint needs no credentials.

    Raises:
        SetupError: The endpoint cannot be reached, or refuses a request.
    """
    session = get_session()
    try:
        anyone = {}
        if endpoint is not None and await session.get_credentials() is None:
            # The store uses the same access key: DynamoDB Local has separate tables for each key.
            anyone = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        async with session.create_client(
            service, endpoint_url=endpoint, region_name=region, **anyone
        ) as client:
            yield client
    except (ClientError, BotoCoreError) as error:
        name = "DynamoDB" if service == "dynamodb" else service
        raise SetupError(f"{name} at {endpoint or 'AWS'}: {error}") from error


def code_of(error: ClientError) -> str:
    """Return the endpoint's error code."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _is_active(table: dict[str, Any]) -> bool:
    indexes = table.get("GlobalSecondaryIndexes", ())
    return table["TableStatus"] == "ACTIVE" and all(
        index.get("IndexStatus", "ACTIVE") == "ACTIVE" for index in indexes
    )


def _nearest(allowed: Range, units: int) -> int:
    return min(max(units, allowed.least), allowed.most)
