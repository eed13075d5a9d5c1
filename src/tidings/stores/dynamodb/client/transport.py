# SPDX-License-Identifier: Apache-2.0
"""Sends requests to DynamoDB: each belongs to an access pattern, is signed, and is retried."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

from tidings.aws import transport
from tidings.aws.signing import Service
from tidings.aws.transport import CONNECTIONS_DEFAULT as CONNECTIONS_DEFAULT
from tidings.aws.transport import Transport as Transport
from tidings.aws.transport import error_code, error_message, find_endpoint
from tidings.metrics import declared
from tidings.model.refusals import StoreUnavailable
from tidings.ports.store import current_requester
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.client.access import Recorder, count_units, units_of, usage_of
from tidings.stores.dynamodb.client.partitions import keys_of
from tidings.stores.dynamodb.client.retrying import (
    Canceled,
    ConditionFailed,
    Conflicted,
    Reason,
    Rejected,
    RequestError,
    RequestScheduler,
    Retrying,
    Throttled,
    Unanswered,
)
from tidings.stores.dynamodb.client.writes import item_from_wire
from tidings.stores.dynamodb.patterns import Pattern

TABLES: Final = Service("dynamodb", "DynamoDB_20120810")
STREAMS: Final = Service("dynamodb", "DynamoDBStreams_20120810")

_THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingError",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)
_CONFLICTED: Final = frozenset({"TransactionConflictException", "ReplicatedWriteConflictException"})

log = logging.getLogger("tidings.dynamodb")

BACKGROUND_MAX: Final = 16
LOG_SECONDS_MIN: Final = 10.0
"""Minimum interval between log messages about requests without an answer."""
_MISTAKES: Final = frozenset({"ValidationException", "ValidationError", "SerializationException"})


def _to_error(status: int, answer: dict[str, Any]) -> RequestError:
    code = error_code(answer)
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(_item(answer))
    if code == "TransactionCanceledException":
        return _canceled(answer.get("CancellationReasons") or [])
    if code in _CONFLICTED:
        return Conflicted(code)
    if code in _THROTTLED:
        return Throttled(code)
    if status >= 500:
        return Unanswered(f"{status} {code}")
    return Rejected(code or str(status), error_message(answer))


def _item(answer: dict[str, Any]) -> dict[str, Any] | None:
    return item_from_wire(answer["Item"]) if answer.get("Item") else None


def _canceled(wire: list[dict[str, Any]]) -> RequestError:
    reasons = [
        Reason("" if each.get("Code") in {None, "None"} else each["Code"], _item(each))
        for each in wire
    ]
    for reason in reasons:
        if reason.code == "ValidationError":
            return Rejected(reason.code, "in a transaction")
    at_fault = [reason for reason in reasons if reason.code]
    if at_fault and all(reason.code in _THROTTLED for reason in at_fault):
        return Throttled(at_fault[0].code)
    return Canceled(reasons)


@asynccontextmanager
async def open_transport(
    *,
    endpoint: str | None,
    region: str,
    clock: Clock,
    connections: int = CONNECTIONS_DEFAULT,
    streams: bool = False,
) -> AsyncIterator[Transport]:
    """Open a pool of connections to the tables or, with `streams`, to their streams.

    Without `endpoint`, this connects to AWS, where streams have a separate endpoint. A custom
    endpoint needs no credentials.

    Raises:
        SetupError: There are no credentials for AWS.
    """
    at = endpoint or await find_endpoint("dynamodbstreams" if streams else "dynamodb", region)
    async with transport.open_transport(
        endpoint=at,
        region=region,
        service=STREAMS if streams else TABLES,
        clock=clock,
        explain=_to_error,
        needs_credentials=endpoint is None,
        connections=connections,
    ) as opened:
        yield opened


class Calls:
    """Sends requests to the tables of one deployment."""

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
        """Set up the calls; users share `connections`, and the server's own requests use additional
        ones."""
        self.retrying = retrying
        self.chance = chance
        self.prefix = prefix
        self.background = asyncio.Semaphore(BACKGROUND_MAX)
        """Limits concurrent requests that no user waits for, so that they do not delay others."""
        self._transport = transport
        self._record = record
        self._scheduler = RequestScheduler(connections, retrying, chance)
        self._logged_at = -LOG_SECONDS_MIN

    async def call(
        self,
        pattern: Pattern,
        request: dict[str, Any],
        *,
        tables: tuple[str, ...] | None = None,
        gives_way: bool = False,
    ) -> dict[str, Any]:
        """Send a request and record its cost.

        The request goes to the pattern's table, unless it names its tables itself.
        """
        if tables is None and "RequestItems" not in request:
            request["TableName"] = self.prefix + pattern.table
            if pattern.index is not None:
                request["IndexName"] = pattern.index
        request["ReturnConsumedCapacity"] = "TOTAL"
        began = monotonic()
        try:
            answer = await self._scheduler.retrying(current_requester()).call(
                lambda deadline: self._send(pattern, request, deadline), gives_way=gives_way
            )
        except (ConditionFailed, Canceled):
            self._note(pattern, tables, request, None)
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
        except StoreUnavailable as unavailable:
            self._warn(pattern, unavailable)
            raise
        finally:
            declared.store_seconds.of[pattern.name].observe(monotonic() - began)
        self._note(pattern, tables, request, answer)
        return answer

    def _warn(self, pattern: Pattern, unavailable: StoreUnavailable) -> None:
        """Log why a request was given up; during an outage, only some of them."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_SECONDS_MIN:
            self._logged_at = now
            log.warning(
                "a request to the store was given up: %r",
                unavailable.__cause__,
                extra={"action": "store_unavailable", "pattern": pattern.name},
            )

    async def pause_before_rest(self, attempt: int) -> None:
        """Wait before repeating the part of a batch that the store did not process.

        Raises:
            StoreUnavailable: No attempt or no retry is left.
        """
        await self._scheduler.retrying(current_requester()).pause_before_rest(attempt)

    async def _send(
        self, pattern: Pattern, request: dict[str, Any], deadline: float
    ) -> dict[str, Any]:
        async with self._scheduler.turn(current_requester(), deadline):
            return await self._transport.send(pattern.operation, request, deadline)

    def _note(
        self,
        pattern: Pattern,
        tables: tuple[str, ...] | None,
        request: dict[str, Any],
        answer: dict[str, Any] | None,
    ) -> None:
        count_units(pattern, request, answer, self.prefix)
        if self._record is not None:
            units, keys = units_of(request, answer), tuple(keys_of(request, self.prefix))
            self._record(usage_of(pattern, tables or pattern.tables, units, keys))
