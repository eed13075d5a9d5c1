# SPDX-License-Identifier: Apache-2.0
"""Tables behind a line that loses answers, and on which transactions get in each other's way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.dynamo_tables import REGION
from tests.support.spare_tables import spare_tables
from tidings.assembly.system import SystemChance, SystemClock
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Budget, Canceled, Reason, Retrying, Unanswered
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.identity.sessions import DynamoRevocations

WRITES = {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}


class LosesAnswers:
    """The real transport; the answer to each write is lost the first time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.loses = False
        self.lost = 0
        self.conflicts = 0
        """So many transactions meet another one."""
        self._seen: list[dict[str, Any]] = []

    async def send(self, operation: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        if self.conflicts and operation == "TransactWriteItems":
            self.conflicts -= 1
            raise Canceled([Reason("TransactionConflict", None) for _ in request["TransactItems"]])
        is_first = not any(request is one for one in self._seen)
        self._seen.append(request)
        try:
            return await self._transport.send(operation, request, until)
        finally:
            if self.loses and is_first and operation in WRITES:
                self.lost += 1
                raise Unanswered("lost")


class Place:
    """Tables, a client of them, and what it was used for."""

    def __init__(self, transport: Transport, prefix: str) -> None:
        self.used: list[Usage] = []
        self.transport = LosesAnswers(transport)
        chance = SystemChance()
        self.dynamo = Dynamo(
            self.transport,  # type: ignore[arg-type]
            Retrying(chance, Budget()),
            chance,
            prefix=prefix,
            record=self.used.append,
        )
        self.revocations = DynamoRevocations(self.dynamo)

    def patterns(self) -> list[str]:
        """What it was used for since the last time."""
        names = [one.pattern.name for one in self.used]
        self.used.clear()
        return names


@asynccontextmanager
async def own_tables(endpoint: str) -> AsyncIterator[tuple[Transport, str]]:
    """A line to tables that nobody else uses meanwhile, and their prefix."""
    async with (
        spare_tables(endpoint) as prefix,
        open_transport(endpoint=endpoint, region=REGION, clock=SystemClock()) as transport,
    ):
        yield transport, prefix


@asynccontextmanager
async def a_place(endpoint: str) -> AsyncIterator[Place]:
    """Tables that nobody else uses meanwhile."""
    async with own_tables(endpoint) as (transport, prefix):
        yield Place(transport, prefix)
