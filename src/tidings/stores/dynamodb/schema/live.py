# SPDX-License-Identifier: Apache-2.0
"""The declared tables against a live endpoint: looking, creating, changing in place.

Nothing here deletes. It speaks to the control plane only, with the SDK as it comes: an operator
waits for it, nobody else does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from tidings.stores.dynamodb.schema import requests
from tidings.stores.dynamodb.schema.differences import DescribedTable, Difference, differences
from tidings.stores.dynamodb.tables import TABLES, Range, Table


class SchemaRefused(Exception):
    """The endpoint would not do it, and why; for the operator."""


POLL_SECONDS: Final = 0.5
WAIT_SECONDS_MAX: Final = 1_800
"""An index over many items takes its time; the command can be given again."""


class LiveTables:
    """The tables of one deployment, as an endpoint has them."""

    def __init__(self, client: Any, prefix: str) -> None:  # noqa: ANN401 - the SDK has no types
        self._client = client
        self._prefix = prefix

    async def find(self, table: Table) -> DescribedTable | None:
        """The table as it is; None if there is none."""
        name = self._prefix + table.name
        try:
            description = await self._describe(table)
        except self._client.exceptions.ResourceNotFoundException:
            return None
        return DescribedTable(description, await self._ttl(name), await self._pitr(name))

    async def differences(self) -> list[Difference]:
        """Everything that is not as declared, table by table."""
        return [one for table in TABLES for one in differences(table, await self.find(table))]

    async def knows_pitr(self) -> bool:
        """Whether the endpoint can tell about point-in-time recovery at all."""
        found = [await self.find(table) for table in TABLES]
        return all(one.pitr is not None for one in found if one is not None)

    async def apply(self, told: Callable[[Difference], None]) -> list[Difference]:
        """Put right what can be put right in place, each step told; returns what is left."""
        for table in TABLES:
            tried: set[Difference] = set()
            while steps := [one for one in await self._of(table) if one.curable]:
                step = steps[0]
                if step in tried:
                    break  # it did not help: it stays among what is left
                tried.add(step)
                told(step)
                if step.kind != "table_missing":
                    await self._wait_until_active(table)
                await self.cure(step)
                await self._wait_until_active(table)
        return await self.differences()

    async def _of(self, table: Table) -> list[Difference]:
        return differences(table, await self.find(table))

    async def _ttl(self, name: str) -> str | None:
        answer = await self._client.describe_time_to_live(TableName=name)
        told = answer["TimeToLiveDescription"]
        is_on = told["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
        return str(told["AttributeName"]) if is_on else None

    async def _pitr(self, name: str) -> bool | None:
        try:
            answer = await self._client.describe_continuous_backups(TableName=name)
        except ClientError as error:
            # DynamoDB Local has none. An account that merely forbids it is refused as usual.
            if code_of(error) == "UnknownOperationException":
                return None
            raise
        backups = answer["ContinuousBackupsDescription"]
        status = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
        return bool(status == "ENABLED")

    async def cure(self, step: Difference) -> None:
        """Ask for one change; it may take a while until it is made."""
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
            case "pitr_off":
                await self._client.update_continuous_backups(
                    TableName=name,
                    PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
                )
            case _:
                await self._client.update_table(TableName=name, **await self._change(step))

    async def _change(self, step: Difference) -> requests.Request:
        """What UpdateTable has to change for this step."""
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
        """The nearest capacity within the range: what scaling has chosen inside it stays."""
        assert step.table.capacity is not None, "only what is provisioned has a capacity"
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
            raise SchemaRefused(f"{name} is still being changed: give the command again") from None


@asynccontextmanager
async def live_tables(
    *, endpoint: str | None, region: str | None, prefix: str
) -> AsyncIterator[LiveTables]:
    """Speak to AWS, or to an endpoint of one's own, which needs no credentials.

    Raises:
        SchemaRefused: It cannot be reached, or declines.
    """
    session = get_session()
    try:
        anyone = {}
        if endpoint is not None and await session.get_credentials() is None:
            # The same as the store's: DynamoDB Local keeps apart what others have made.
            anyone = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        async with session.create_client(
            "dynamodb", endpoint_url=endpoint, region_name=region, **anyone
        ) as client:
            yield LiveTables(client, prefix)
    except (ClientError, BotoCoreError) as error:
        raise SchemaRefused(f"DynamoDB at {endpoint or 'AWS'}: {error}") from error


def code_of(error: ClientError) -> str:
    """The name the endpoint gave to what went wrong."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _is_active(table: dict[str, Any]) -> bool:
    indexes = table.get("GlobalSecondaryIndexes", ())
    return table["TableStatus"] == "ACTIVE" and all(
        index.get("IndexStatus", "ACTIVE") == "ACTIVE" for index in indexes
    )


def _nearest(allowed: Range, units: int) -> int:
    return min(max(units, allowed.least), allowed.most)
