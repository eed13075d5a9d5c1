# SPDX-License-Identifier: Apache-2.0
"""Alarms, dashboard, backup plans and scaling ranges, derived from the declared tables.

The capacity alarm of a table that scales fires near the maximum of its range. It ignores the
current capacity, because scaling keeps the current capacity close to the load on purpose. The alarm
for throttling fires after one minute. The alarms for latency, errors and capacity fire after five
minutes: the server retries failed requests, so only lasting errors matter. There is no alarm for
the size of a chat, because the size is not limited (only a local index would limit it).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidings.stores.dynamodb.client.access import READS
from tidings.stores.dynamodb.patterns import declared
from tidings.stores.dynamodb.tables import TABLES, Range, Table

Statistic = Literal["Sum", "p99"]
Kind = Literal[
    "capacity", "throttling", "read-latency", "write-latency", "read-errors", "write-errors"
]
KINDS: Final[tuple[Kind, ...]] = (
    "capacity",
    "throttling",
    "read-latency",
    "write-latency",
    "read-errors",
    "write-errors",
)

PERIOD_SECONDS: Final = 60
BUSY: Final = 0.8
"""Share of the capacity above which an alarm reports a table as busy."""
ON_DEMAND_UNITS: Final = Range(0, 40_000)
"""Default limit of AWS for an on-demand table, in units per second. An account may have a higher
one."""
SLOW_MS: Final = 100
ERRORS_A_MINUTE: Final = 10
"""Errors of DynamoDB in each of five minutes above which an alarm fires. Single errors are usual,
and are retried."""
DAILY: Final = "cron(0 3 * * ? *)"
"""Every day at 03:00 UTC."""
TARGET_PERCENT: Final = 70
"""Utilization of the provisioned capacity that scaling aims at."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """CloudWatch alarm that fires when the metric exceeds the threshold for `minutes` in a row."""

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
        """Dimensions of the metric other than the table's name."""
        narrowed = {"GlobalSecondaryIndexName": self.index, "Operation": self.operation}
        return {name: value for name, value in narrowed.items() if value is not None}


def alarms(table: Table, operations: Iterable[str]) -> Iterator[Alarm]:
    """Yield all alarms of a table that is used with these operations."""
    for index in (None, *(index.name for index in table.indexes)):
        yield from _capacity(table, index)
        yield from _throttling(table, index)
    for operation in sorted(set(operations)):
        yield from _of_operation(table, operation)


def _of_operation(table: Table, operation: str) -> Iterator[Alarm]:
    is_read = operation in READS
    yield Alarm(
        kind="read-latency" if is_read else "write-latency",
        name=f"{table.name}-{operation}-slow",
        says=f"{operation} on {table.name}: 1 % of requests take more than {SLOW_MS} ms",
        table=table,
        metric="SuccessfulRequestLatency",
        statistic="p99",
        threshold=SLOW_MS,
        minutes=5,
        operation=operation,
    )
    yield Alarm(
        kind="read-errors" if is_read else "write-errors",
        name=f"{table.name}-{operation}-errors",
        says=f"{operation} on {table.name}: over {ERRORS_A_MINUTE} errors of DynamoDB a minute",
        table=table,
        metric="SystemErrors",
        statistic="Sum",
        threshold=ERRORS_A_MINUTE,
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


def all_alarms(tables: Sequence[Table] = TABLES) -> Iterator[Alarm]:
    """Yield the alarms of all tables.

    Scans have no alarms, because only operators use them.
    """
    for table in tables:
        yield from alarms(
            table,
            (
                pattern.operation
                for pattern in declared()
                if table.name in pattern.tables and pattern.operation != "Scan"
            ),
        )


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """The tables whose daily backups are kept for the same number of days."""

    days: int
    tables: tuple[Table, ...]

    @property
    def name(self) -> str:
        """Name of the plan, unique within the deployment."""
        return f"daily-kept-{self.days}-days"


def backup_plans() -> Iterator[BackupPlan]:
    """Yield one plan for each number of days, starting with the longest."""
    for days in sorted({t.backup_days for t in TABLES if t.backup_days}, reverse=True):
        yield BackupPlan(days, tuple(table for table in TABLES if table.backup_days == days))


@dataclass(frozen=True, slots=True)
class Scaled:
    """The read or write capacity of a table or index, which scales within a range."""

    table: Table
    index: str | None
    what: Literal["Read", "Write"]
    range: Range

    @property
    def name(self) -> str:
        """Name of this capacity, unique within the deployment."""
        return f"{self.index or self.table.name}-{self.what.lower()}s"

    @property
    def dimension(self) -> str:
        """Name of the dimension in Application Auto Scaling."""
        return f"dynamodb:{'index' if self.index else 'table'}:{self.what}CapacityUnits"

    @property
    def metric(self) -> str:
        """Metric that the scaling follows."""
        return f"DynamoDB{self.what}CapacityUtilization"


def all_scaled(tables: Sequence[Table]) -> Iterator[Scaled]:
    """Yield every capacity that scales."""
    for table in tables:
        if table.capacity is None:
            continue
        for index in (None, *(index.name for index in table.indexes)):
            yield Scaled(table, index, "Read", table.capacity.read)
            yield Scaled(table, index, "Write", table.capacity.write)


Widget = dict[str, Any]
WIDTH: Final = 8
"""Columns of one graph; a dashboard has 24."""
HEIGHT: Final = 5
_NAMESPACE: Final = "AWS/DynamoDB"


def dashboard(tables: Sequence[Table], prefix: str, region: str) -> dict[str, Any]:
    """Return the body of the dashboard; a template passes parameters as `prefix` and `region`."""
    widgets: list[Widget] = []
    for row, table in enumerate(tables):
        graphs = (_units(table, prefix), _refused(table, prefix), _latency(table, prefix))
        for column, properties in enumerate(graphs):
            place = {"x": column * WIDTH, "y": row * HEIGHT, "width": WIDTH, "height": HEIGHT}
            shown = {"region": region, "period": PERIOD_SECONDS, "view": "timeSeries", **properties}
            widgets.append({"type": "metric", **place, "properties": shown})
    return {"widgets": widgets}


def _units(table: Table, prefix: str) -> dict[str, Any]:
    metrics = []
    for index in (None, *(index.name for index in table.indexes)):
        where = ["TableName", prefix + table.name]
        if index:
            where += ["GlobalSecondaryIndexName", index]
        metrics += [
            [_NAMESPACE, f"Consumed{what}CapacityUnits", *where] for what in ("Read", "Write")
        ]
    return {"title": f"{table.name}: units a minute", "stat": "Sum", "metrics": metrics}


def _refused(table: Table, prefix: str) -> dict[str, Any]:
    name = prefix + table.name
    metrics: list[list[Any]] = [
        [_NAMESPACE, metric, "TableName", name]
        for metric in ("ReadThrottleEvents", "WriteThrottleEvents", "TimeToLiveDeletedItemCount")
    ]
    metrics.append([_by_operation("SystemErrors", name, "Sum")])
    return {"title": f"{table.name}: throttled, failed, expired", "stat": "Sum", "metrics": metrics}


def _latency(table: Table, prefix: str) -> dict[str, Any]:
    found = _by_operation("SuccessfulRequestLatency", prefix + table.name, "p99")
    limit = {"horizontal": [{"label": "alarm", "value": SLOW_MS}]}
    return {"title": f"{table.name}: p99 in ms", "metrics": [[found]], "annotations": limit}


def _by_operation(metric: str, name: str, statistic: str) -> dict[str, str]:
    """Return an expression that finds the metric of every operation that was used."""
    where = f'{{{_NAMESPACE},TableName,Operation}} MetricName="{metric}" TableName="{name}"'
    return {"expression": f"SEARCH('{where}', '{statistic}', {PERIOD_SECONDS})"}
