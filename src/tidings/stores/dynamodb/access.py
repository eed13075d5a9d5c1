# SPDX-License-Identifier: Apache-2.0
"""What an access pattern is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

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
