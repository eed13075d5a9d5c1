# SPDX-License-Identifier: Apache-2.0
"""A client for operators' work that takes hours: it waits where a server would refuse.

Tables that a deployment begins with take only a few writes a second, and grow when they are asked
for more. Nobody waits for an answer here, so being turned away is no reason to stop.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tidings.model.refusals import StoreUnavailable
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.retrying import Budget, Retrying
from tidings.stores.dynamodb.transport import Transport, open_transport
from tidings.stores.dynamodb.trouble import Rejected

ATTEMPTS_MAX: Final = 60
"""Some five minutes without an answer to one request, with pauses of up to ten seconds."""

BackOff = Callable[[int], Awaitable[None]]
"""Waits before another attempt, the longer the more there were."""


class PatientDynamo(Dynamo):
    """Asks again and again, once it has had a first answer. What it is asked must bear that."""

    def __init__(
        self, transport: Transport, chance: Chance, *, prefix: str, back_off: BackOff
    ) -> None:
        super().__init__(transport, Retrying(chance, Budget()), chance, prefix=prefix)
        self._back_off = back_off
        self._has_answered = False

    async def call(
        self,
        pattern: Pattern,
        request: dict[str, Any],
        *,
        tables: tuple[str, ...] | None = None,
        gives_way: bool = False,
    ) -> dict[str, Any]:
        """Send a request until there is an answer.

        Raises:
            StoreUnavailable: It was refused for good, or there never was an answer to anything.
        """
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                answer = await super().call(pattern, request, tables=tables, gives_way=gives_way)
            except StoreUnavailable as unavailable:
                is_final = isinstance(unavailable.__cause__, Rejected) or attempt == ATTEMPTS_MAX
                if is_final or not self._has_answered:
                    raise
                await self._back_off(attempt)
            else:
                self._has_answered = True
                return answer
        raise AssertionError("the last attempt returns or raises")


@asynccontextmanager
async def open_patient(
    *,
    endpoint: str | None,
    region: str,
    prefix: str,
    clock: Clock,
    chance: Chance,
    back_off: BackOff,
) -> AsyncIterator[PatientDynamo]:
    """Open the tables with this prefix: on AWS, or at an endpoint of one's own."""
    async with open_transport(endpoint=endpoint, region=region, clock=clock) as transport:
        yield PatientDynamo(transport, chance, prefix=prefix, back_off=back_off)
