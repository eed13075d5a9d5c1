# SPDX-License-Identifier: Apache-2.0
"""Access patterns, and the record of the capacity that each request used.

Metrics and the tests of cost and patterns read these records.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

Operation = Literal[
    "GetItem",
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "Query",
    "BatchGetItem",
    "BatchWriteItem",
    "TransactWriteItems",
    "Scan",
]
READS: Final = frozenset({"GetItem", "Query", "BatchGetItem", "Scan"})
"""Operations that change nothing."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One declared way of using the tables."""

    name: str
    operation: Operation
    tables: tuple[str, ...]
    """The one table, or all tables that a transaction may touch."""
    serves: str
    """Purpose, in words of the product."""
    index: str | None = None
    strong: bool = False
    """True if reads see every write that was answered before them."""
    deletes: tuple[str, ...] = ()
    """Tables in which a transaction may delete."""

    @property
    def table(self) -> str:
        """The only table of the pattern."""
        (table,) = self.tables
        return table


def of_module(names: Iterable[object]) -> tuple[Pattern, ...]:
    """Return the patterns among the values of a module, in order."""
    return tuple(value for value in names if isinstance(value, Pattern))


class Usage(msgspec.Struct, frozen=True):
    """Cost of one request that the store carried out or whose condition failed."""

    pattern: Pattern
    tables: tuple[str, ...]
    """Tables that the request touched, without the prefix."""
    index: str | None
    operation: str
    consistent: bool
    read_units: float
    write_units: float
    requests: int = 1


Recorder = Callable[[Usage], None]


def usage_of(pattern: Pattern, tables: tuple[str, ...], units: float) -> Usage:
    """Return the usage of a request that was billed these units."""
    writes = pattern.operation not in READS
    return Usage(
        pattern=pattern,
        tables=tables,
        index=pattern.index,
        operation=pattern.operation,
        consistent=pattern.strong,
        read_units=0.0 if writes else units,
        write_units=units if writes else 0.0,
    )


def units_of(request: dict[str, Any], answer: dict[str, Any] | None) -> float:
    """Return the billed units of a request, from its answer; None: its condition failed.

    A failed condition is billed by the size of the stored item, which the refusal does not report:
    this assumes one unit, or two for each write of a transaction, which is right for all but our
    largest items. It is also the least that a transaction costs, although DynamoDB Local reports
    less for a transaction that writes several items of one table.
    """
    least = 2.0 * len(request.get("TransactItems", ()))
    if answer is None:
        return least or 1.0
    consumed = answer.get("ConsumedCapacity", ())
    tables = [consumed] if isinstance(consumed, dict) else consumed
    return max(least, float(sum(table["CapacityUnits"] for table in tables)))
