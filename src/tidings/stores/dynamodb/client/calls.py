# SPDX-License-Identifier: Apache-2.0
"""Requests under an access pattern: completed, sent with retries, their cost recorded."""

import asyncio
import logging
from typing import Any, Final

from tidings.model.refusals import StoreUnavailable
from tidings.ports.requesters import current_requester
from tidings.ports.world import Chance
from tidings.stores.dynamodb.client.access import Recorder, units_of, usage_of
from tidings.stores.dynamodb.client.errors import Canceled, ConditionFailed, Rejected
from tidings.stores.dynamodb.client.retrying import RequestScheduler, Retrying
from tidings.stores.dynamodb.client.transport import CONNECTIONS_DEFAULT, Transport
from tidings.stores.dynamodb.patterns import Pattern

log = logging.getLogger("tidings.dynamodb")

BACKGROUND_MAX: Final = 16
_MISTAKES: Final = frozenset({"ValidationException", "ValidationError", "SerializationException"})


class Calls:
    """Sender of requests to the tables of one deployment."""

    def __init__(
        self,
        transport: Transport,
        retrying: Retrying,
        chance: Chance,
        *,
        prefix: str,
        record: Recorder | None = None,
        connections: int = CONNECTIONS_DEFAULT,
    ) -> None:
        """Share `connections` among users; the transport has more for the server's own requests."""
        self.retrying = retrying
        self.chance = chance
        self.prefix = prefix
        self.background = asyncio.Semaphore(BACKGROUND_MAX)
        """Limit for bursts of requests that no user awaits: they must not delay answers."""
        self._transport = transport
        self._record = record
        self._scheduler = RequestScheduler(connections, retrying, chance)

    async def call(
        self,
        pattern: Pattern,
        request: dict[str, Any],
        *,
        tables: tuple[str, ...] | None = None,
        gives_way: bool = False,
    ) -> dict[str, Any]:
        """Send a request to the pattern's table, or to the tables it names, and record its cost."""
        if tables is None and "RequestItems" not in request:
            request["TableName"] = self.prefix + pattern.table
            if pattern.index is not None:
                request["IndexName"] = pattern.index
        request["ReturnConsumedCapacity"] = "TOTAL"
        try:
            answer = await self._scheduler.retrying(current_requester()).call(
                lambda deadline: self._send(pattern, request, deadline), gives_way=gives_way
            )
        except (ConditionFailed, Canceled):
            self._note(pattern, tables, units_of(request, None))
            raise
        except Rejected as rejected:
            if rejected.code in _MISTAKES:
                raise
            log.error(
                "the store refuses requests: %s",
                rejected,
                extra={"action": "store_refuses", "code": rejected.code, "pattern": pattern.name},
            )
            raise StoreUnavailable from rejected
        self._note(pattern, tables, units_of(request, answer))
        return answer

    async def pause_before_rest(self, attempt: int) -> None:
        """Wait before repeating the part of a batch that the store left undone.

        Raises:
            StoreUnavailable: No attempt is left.
        """
        await self._scheduler.retrying(current_requester()).pause_before_rest(attempt)

    async def _send(
        self, pattern: Pattern, request: dict[str, Any], deadline: float
    ) -> dict[str, Any]:
        async with self._scheduler.turn(current_requester(), deadline):
            return await self._transport.send(pattern.operation, request, deadline)

    def _note(self, pattern: Pattern, tables: tuple[str, ...] | None, units: float) -> None:
        if self._record is not None:
            self._record(usage_of(pattern, tables or pattern.tables, units))
