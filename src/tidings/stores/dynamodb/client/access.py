# SPDX-License-Identifier: Apache-2.0
"""Access patterns, and records of the capacity that each request used.

Metrics and the tests of costs and access patterns use these records.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from tidings.metrics import declared

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
    """Declaration of one way in which requests use the tables."""

    name: str
    operation: Operation
    tables: tuple[str, ...]
    """The one table, or all tables that a transaction or a batch may touch."""
    serves: str
    """Purpose of the requests, in the words of the glossary."""
    index: str | None = None
    strong: bool = False
    """True if reads are strongly consistent: they see every write that was answered before."""
    relaxed: tuple[str, ...] = ()
    """Tables that are read with eventual consistency although the batch is strong."""
    deletes: tuple[str, ...] = ()
    """Tables from which a transaction may delete items."""

    @property
    def table(self) -> str:
        """The only table of the pattern."""
        (table,) = self.tables
        return table


def of_module(names: Iterable[object]) -> tuple[Pattern, ...]:
    """Return the patterns among the values of a module, in order."""
    return tuple(value for value in names if isinstance(value, Pattern))


class Usage(msgspec.Struct, frozen=True):
    """Cost of one request that the store carried out, or whose condition failed."""

    pattern: Pattern
    tables: tuple[str, ...]
    """Tables that the request touched, without the prefix."""
    index: str | None
    operation: str
    consistent: bool
    read_units: float
    write_units: float
    keys: tuple[tuple[str, str], ...] = ()
    """Table or index, and partition key, of each item or query in the request."""
    requests: int = 1


Recorder = Callable[[Usage], None]


def usage_of(
    pattern: Pattern,
    tables: tuple[str, ...],
    units: float,
    keys: tuple[tuple[str, str], ...] = (),
) -> Usage:
    """Build the usage record of a request for which these units were billed."""
    writes = pattern.operation not in READS
    return Usage(
        pattern=pattern,
        tables=tables,
        index=pattern.index,
        operation=pattern.operation,
        consistent=pattern.strong,
        read_units=0.0 if writes else units,
        write_units=units if writes else 0.0,
        keys=keys,
    )


def count_units(
    pattern: Pattern, request: dict[str, Any], answer: dict[str, Any] | None, prefix: str
) -> None:
    """Count the billed units of a request by table; for a failed condition, count what `units_of`
    assumes.

    A failed transaction is counted for its first table, because the error names none.
    """
    kind = "read" if pattern.operation in READS else "write"
    consumed = answer.get("ConsumedCapacity") if answer is not None else None
    if not consumed:
        declared.capacity_units.counts[pattern.tables[0], kind] += units_of(request, answer)
        return
    for table in [consumed] if isinstance(consumed, dict) else consumed:
        name = table.get("TableName", pattern.tables[0]).removeprefix(prefix)
        declared.capacity_units.counts[name, kind] += table["CapacityUnits"]


def units_of(request: dict[str, Any], answer: dict[str, Any] | None) -> float:
    """Return the billed units of a request; `answer` is None if its condition failed.

    A failed condition is billed by the size of the stored item, but the error does not report this
    size. The function therefore assumes one unit, or two for each write in a transaction. This is
    right except for our largest items. A successful transaction counts at least two units for each
    write, because DynamoDB Local reports too few if several writes are in one table.
    """
    least = 2.0 * len(request.get("TransactItems", ()))
    if answer is None:
        return least or 1.0
    consumed = answer.get("ConsumedCapacity", ())
    tables = [consumed] if isinstance(consumed, dict) else consumed
    return max(least, float(sum(table["CapacityUnits"] for table in tables)))
