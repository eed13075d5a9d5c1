# SPDX-License-Identifier: Apache-2.0
"""Compares a deployment at AWS with its declaration: tables, scaling, alarms and backups."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tidings.stores.dynamodb.schema.backups import Backups
from tidings.stores.dynamodb.schema.differences import Difference
from tidings.stores.dynamodb.schema.live import LiveTables, aws_client
from tidings.stores.dynamodb.schema.services import Alarms, Scaling, ServiceDifference
from tidings.stores.dynamodb.tables import CapacityMode, tables_in

AnyDifference = Difference | ServiceDifference

_ROUNDS: Final = 3
"""Rounds of corrections: a backup plan needs its vault, and a selection of tables needs its
plan."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options that an operator chooses for a deployment."""

    capacity: CapacityMode = "on-demand"
    alarm_topic: str | None = None
    """ARN of the SNS topic that alarms notify."""
    backup_role: str | None = None
    """ARN of the role with which AWS Backup reads the tables."""
    tables_only: bool = False


class LiveDeployment:
    """Compares and corrects the tables of a deployment at AWS, with scaling, alarms and backups."""

    def __init__(
        self, tables: LiveTables, services: tuple[Any, Any, Any] | None, prefix: str, wishes: Wishes
    ) -> None:
        """Set up the comparison; `services` are the clients of scaling, CloudWatch and backups, or
        None to leave these services out."""
        self.tables = tables
        self.services = services
        self._prefix = prefix
        self._wishes = wishes

    async def differences(self) -> list[AnyDifference]:
        """Return everything that is not as declared."""
        return [*await self.tables.differences(), *await self._in_services()]

    async def apply(self, report: Callable[[AnyDifference], None]) -> list[AnyDifference]:
        """Report and correct each difference that can be corrected; return those that remain."""
        left = await self.tables.apply(report)
        for _ in range(_ROUNDS):
            curable = [(one, one.cure) for one in await self._in_services() if one.cure]
            if not curable:
                break
            for difference, cure in curable:
                report(difference)
                await cure()
        return [*left, *await self._in_services()]

    async def _in_services(self) -> list[ServiceDifference]:
        if self.services is None:
            return []
        scaling, cloudwatch, backup = self.services
        tables, wishes = tables_in(self._wishes.capacity), self._wishes
        arns = {table.name: arn for table in tables if (arn := await self.tables.arn(table))}
        return [
            *await Scaling(scaling, self._prefix, tables).differences(),
            *await Alarms(cloudwatch, self._prefix, tables, wishes.alarm_topic).differences(),
            *await Backups(backup, self._prefix, arns, wishes.backup_role).differences(),
        ]


@asynccontextmanager
async def open_deployment(
    *, endpoint: str | None, region: str | None, prefix: str, wishes: Wishes
) -> AsyncIterator[LiveDeployment]:
    """Connect to AWS, or to the tables alone if the endpoint is custom.

    Raises:
        SetupError: A service cannot be reached, or refuses a request.
    """
    async with AsyncExitStack() as stack:

        async def client(service: str) -> Any:  # noqa: ANN401 - the SDK has no types
            opened = aws_client(service, endpoint=endpoint, region=region)
            return await stack.enter_async_context(opened)

        tables = LiveTables(await client("dynamodb"), prefix, tables_in(wishes.capacity))
        services = None
        if endpoint is None and not wishes.tables_only:
            names = ("application-autoscaling", "cloudwatch", "backup")
            services = (await client(names[0]), await client(names[1]), await client(names[2]))
        yield LiveDeployment(tables, services, prefix, wishes)
