# SPDX-License-Identifier: Apache-2.0
"""The transport to DynamoDB: its endpoint, and the translation of its error answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tidings.aws import transport
from tidings.aws.errors import NoCredentials
from tidings.aws.signing import Service
from tidings.aws.transport import CONNECTIONS_DEFAULT as CONNECTIONS_DEFAULT
from tidings.aws.transport import Transport as Transport
from tidings.aws.transport import error_code, error_message, find_endpoint
from tidings.model.setup_error import SetupError
from tidings.ports.world import Clock
from tidings.stores.dynamodb.client.errors import (
    Canceled,
    ConditionFailed,
    Conflicted,
    Reason,
    Rejected,
    RequestError,
    Throttled,
    Unanswered,
)
from tidings.stores.dynamodb.client.writes import item_from_wire

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

    Without `endpoint` it connects to AWS, where streams have a separate endpoint. A given endpoint
    needs no credentials.

    Raises:
        SetupError: There are no credentials for AWS.
    """
    at = endpoint or await find_endpoint("dynamodbstreams" if streams else "dynamodb", region)
    try:
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
    except NoCredentials as none:
        raise SetupError(str(none)) from none
