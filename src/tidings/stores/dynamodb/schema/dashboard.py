# SPDX-License-Identifier: Apache-2.0
"""A CloudWatch dashboard for the declared tables: a row of three graphs for each table."""

from collections.abc import Sequence
from typing import Any, Final

from tidings.stores.dynamodb.schema.alarms import PERIOD_SECONDS, SLOW_MS
from tidings.stores.dynamodb.tables import Table

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
