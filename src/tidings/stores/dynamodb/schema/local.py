# SPDX-License-Identifier: Apache-2.0
"""The declared tables on an engine of this machine, made when a server starts.

Whoever tries the engine out should not need a second command. On AWS the tables are an operator's
to make, and a server has no right to.
"""

import logging
from typing import Any

from tidings.model.refusals import StoreUnavailable
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.retrying import Budget, Retrying
from tidings.stores.dynamodb.schema.requests import create_table
from tidings.stores.dynamodb.tables import TABLES, Table
from tidings.stores.dynamodb.transport import Transport, open_transport
from tidings.stores.dynamodb.trouble import Rejected

log = logging.getLogger("tidings.dynamodb")


async def make_missing(
    *, endpoint: str, region: str, prefix: str, clock: Clock, chance: Chance
) -> None:
    """Make those tables that are not there; what is there is left as it is.

    Raises:
        StoreUnavailable: The engine cannot be reached, or declines.
    """
    async with open_transport(endpoint=endpoint, region=region, clock=clock) as transport:
        making = _Making(transport, Retrying(chance, Budget()), prefix)
        made = [table.name for table in TABLES if await making.make(table)]
    if made:
        log.info(
            "made tables that were missing: %s",
            ", ".join(made),
            extra={"action": "tables_made", "prefix": prefix},
        )


class _Making:
    def __init__(self, transport: Transport, retrying: Retrying, prefix: str) -> None:
        self._transport = transport
        self._retrying = retrying
        self._prefix = prefix

    async def make(self, table: Table) -> bool:
        """Make it; False if it is there."""
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
