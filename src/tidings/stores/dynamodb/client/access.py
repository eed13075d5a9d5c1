# SPDX-License-Identifier: Apache-2.0
"""What each request used, told to whoever wants to know: metrics, tests of cost and patterns."""

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
"""The operations that change nothing."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way in which the tables are used."""

    name: str
    operation: Operation
    tables: tuple[str, ...]
    """One, except for a transaction: all that it may touch."""
    serves: str
    """What it is for, in words of the product."""
    index: str | None = None
    strong: bool = False
    """Reads see every write that was answered before them."""
    deletes: tuple[str, ...] = ()
    """Of a transaction: the tables in which it may delete."""

    @property
    def table(self) -> str:
        """The table of a pattern that has just one."""
        (table,) = self.tables
        return table


def of_module(names: Iterable[object]) -> tuple[Pattern, ...]:
    """The patterns among the values of a module, in its order."""
    return tuple(one for one in names if isinstance(one, Pattern))


class Usage(msgspec.Struct, frozen=True):
    """One request that the store carried out or whose condition it found not to hold."""

    pattern: Pattern
    tables: tuple[str, ...]
    """Which tables it touched, without the prefix."""
    index: str | None
    operation: str
    consistent: bool
    read_units: float
    write_units: float
    requests: int = 1


Recorder = Callable[[Usage], None]


def usage_of(pattern: Pattern, tables: tuple[str, ...], units: float) -> Usage:
    """What a request used, by the units it was billed."""
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
    """The units a request was billed, by its answer; None: its condition did not hold.

    Then the answer does not say. It is billed by the size of what stands there: one unit, or two
    for each write of a transaction, which is right for all but our largest items. So much a
    transaction costs at least in any case, although DynamoDB Local says less of those that write
    several items of one table.
    """
    least = 2.0 * len(request.get("TransactItems", ()))
    if answer is None:
        return least or 1.0
    consumed = answer.get("ConsumedCapacity", ())
    tables = [consumed] if isinstance(consumed, dict) else consumed
    return max(least, float(sum(table["CapacityUnits"] for table in tables)))
