# SPDX-License-Identifier: Apache-2.0
"""Requests to DynamoDB as they leave, to compare them with what is declared."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tidings.stores.dynamodb.client.transport import Transport


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it left: what it asked of which tables, and how strongly it read."""

    operation: str
    tables: frozenset[str]
    index: str | None
    strong: bool


class Wire:
    """Every request to the tables with one prefix, whoever made it."""

    def __init__(self, prefix: str) -> None:
        self.sent: set[Request] = set()
        self._prefix = prefix

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch for a while."""
        send = Transport.send

        async def watch(
            transport: Transport, operation: str, request: dict[str, Any], until: float
        ) -> dict[str, Any]:
            self._note(operation, request)
            return await send(transport, operation, request, until)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Transport, "send", watch)
            yield

    def _note(self, operation: str, request: dict[str, Any]) -> None:
        tables, strong = [request.get("TableName", "")], bool(request.get("ConsistentRead"))
        if items := request.get("RequestItems"):
            tables = list(items)
            if operation == "BatchGetItem":
                strong = any(one.get("ConsistentRead") for one in items.values())
        elif items := request.get("TransactItems"):
            tables = [next(iter(one.values()))["TableName"] for one in items]
        names = frozenset(table.removeprefix(self._prefix) for table in tables)
        self.sent.add(Request(operation, names, request.get("IndexName"), strong))
