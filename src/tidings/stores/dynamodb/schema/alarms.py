# SPDX-License-Identifier: Apache-2.0
"""Alarms, backup plans and scaling ranges of each table, as values.

Thresholds follow from the declaration: a table that scales warns near the end of its range, not
near its current capacity, which scaling keeps close to the load on purpose. Throttling and latency
warn immediately. No alarm watches the size of a chat: DynamoDB limits a collection of items only if
there is a local index, and has no metric for it otherwise.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tidings.stores.dynamodb.client.access import READS
from tidings.stores.dynamodb.patterns import declared
from tidings.stores.dynamodb.tables import TABLES, Range, Table

Statistic = Literal["Sum", "p99"]
Kind = Literal["capacity", "throttling", "read-latency", "write-latency"]
KINDS: Final[tuple[Kind, ...]] = ("capacity", "throttling", "read-latency", "write-latency")

PERIOD_SECONDS: Final = 60
BUSY: Final = 0.8
"""Share of the capacity above which a table is busy."""
ON_DEMAND_UNITS: Final = Range(0, 40_000)
"""Units per second of an on-demand table, unless the account's quota was raised."""
SLOW_MS: Final = 100


@dataclass(frozen=True, slots=True)
class Alarm:
    """CloudWatch alarm: the metric is above the threshold for some minutes in a row."""

    kind: Kind
    name: str
    says: str
    table: Table
    metric: str
    statistic: Statistic
    threshold: int
    minutes: int = 1
    index: str | None = None
    operation: str | None = None

    @property
    def dimensions(self) -> dict[str, str]:
        """Dimensions of the metric besides the table."""
        narrowed = {"GlobalSecondaryIndexName": self.index, "Operation": self.operation}
        return {name: value for name, value in narrowed.items() if value is not None}


def alarms(table: Table, operations: Iterable[str]) -> Iterator[Alarm]:
    """Yield all alarms of a table that is used with these operations."""
    for index in (None, *(index.name for index in table.indexes)):
        yield from _capacity(table, index)
        yield from _throttling(table, index)
    for operation in sorted(set(operations)):
        yield Alarm(
            kind="read-latency" if operation in READS else "write-latency",
            name=f"{table.name}-{operation}-slow",
            says=f"{operation} on {table.name}: 1 % of requests take more than {SLOW_MS} ms",
            table=table,
            metric="SuccessfulRequestLatency",
            statistic="p99",
            threshold=SLOW_MS,
            minutes=5,
            operation=operation,
        )


def _capacity(table: Table, index: str | None) -> Iterator[Alarm]:
    read, write = (
        (table.capacity.read, table.capacity.write)
        if table.capacity
        else (ON_DEMAND_UNITS, ON_DEMAND_UNITS)
    )
    subject = _subject(table, index)
    for what, units in (("Read", read), ("Write", write)):
        yield Alarm(
            kind="capacity",
            name=f"{index or table.name}-{what.lower()}s-busy",
            says=f"{subject} uses more than {BUSY:.0%} of its {what.lower()} capacity",
            table=table,
            metric=f"Consumed{what}CapacityUnits",
            statistic="Sum",
            threshold=round(BUSY * units.most * PERIOD_SECONDS),
            minutes=5,
            index=index,
        )


def _throttling(table: Table, index: str | None) -> Iterator[Alarm]:
    for what in ("Read", "Write"):
        yield Alarm(
            kind="throttling",
            name=f"{index or table.name}-{what.lower()}s-throttled",
            says=f"{_subject(table, index)} throttles {what.lower()}s",
            table=table,
            metric=f"{what}ThrottleEvents",
            statistic="Sum",
            threshold=0,
            index=index,
        )


def _subject(table: Table, index: str | None) -> str:
    return f"{index} of {table.name}" if index else table.name


def all_alarms() -> Iterator[Alarm]:
    """Yield the alarms of all tables; scans, which only operators do, may be slow."""
    for table in TABLES:
        yield from alarms(
            table,
            (
                pattern.operation
                for pattern in declared()
                if table.name in pattern.tables and pattern.operation != "Scan"
            ),
        )


DAILY: Final = "cron(0 3 * * ? *)"
"""Every day at 03:00 UTC."""


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """Tables whose daily backups are kept for the same number of days."""

    days: int
    tables: tuple[Table, ...]

    @property
    def name(self) -> str:
        """Unique within the deployment."""
        return f"daily-kept-{self.days}-days"


def backup_plans() -> Iterator[BackupPlan]:
    """Yield one plan for each number of days, the longest first."""
    for days in sorted({t.backup_days for t in TABLES if t.backup_days}, reverse=True):
        yield BackupPlan(days, tuple(table for table in TABLES if table.backup_days == days))


TARGET_PERCENT: Final = 70
"""Utilization of the provisioned capacity that scaling aims at."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """Read or write capacity that scales, of a table or of one of its indexes."""

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
        """Name of the dimension in Application Auto Scaling."""
        return f"dynamodb:{'index' if self.index else 'table'}:{self.what}CapacityUnits"

    @property
    def metric(self) -> str:
        """Metric that the scaling follows."""
        return f"DynamoDB{self.what}CapacityUtilization"


def all_scaled() -> Iterator[Scaled]:
    """Yield every capacity that scales."""
    for table in TABLES:
        if table.capacity is None:
            continue
        for index in (None, *(index.name for index in table.indexes)):
            yield Scaled(table, index, "Read", table.capacity.read)
            yield Scaled(table, index, "Write", table.capacity.write)
