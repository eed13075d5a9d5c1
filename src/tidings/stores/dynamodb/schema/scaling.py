# SPDX-License-Identifier: Apache-2.0
"""What scales in a provisioned table, as values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tidings.stores.dynamodb.tables import TABLES, Range, Table

TARGET_PERCENT: Final = 70
"""How busy scaling keeps what is provisioned."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """Reads or writes, of a table or of one of its indexes."""

    table: Table
    index: str | None
    what: Literal["Read", "Write"]
    range: Range

    @property
    def name(self) -> str:
        """Unique within the deployment."""
        return f"{self.index or self.table.name}-{self.what.lower()}s"

    @property
    def dimension(self) -> str:
        """What Application Auto Scaling calls it."""
        return f"dynamodb:{'index' if self.index else 'table'}:{self.what}CapacityUnits"

    @property
    def metric(self) -> str:
        """By what it is judged."""
        return f"DynamoDB{self.what}CapacityUtilization"


def all_scaled() -> Iterator[Scaled]:
    """Everything that scales."""
    for table in TABLES:
        if table.capacity is None:
            continue
        for index in (None, *(index.name for index in table.indexes)):
            yield Scaled(table, index, "Read", table.capacity.read)
            yield Scaled(table, index, "Write", table.capacity.write)
