# SPDX-License-Identifier: Apache-2.0
"""Reads metrics as Prometheus does."""

from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tidings.metrics.meters import METRICS

Values = dict[tuple[str, frozenset[tuple[str, Any]]], float]
"""The value of every sample, by name and labels."""


def families_of(text: str) -> dict[str, Metric]:
    """Return the families of a text in the format of OpenMetrics; fail if it is not well formed."""
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return {family.name: family for family in families}


def values_of(text: str) -> Values:
    """Return the value of every sample of such a text."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families_of(text).values()
        for sample in family.samples
    }


def without_values(values: Values) -> set[str]:
    """Return the declared metrics of which there is no sample."""
    shown = {name for name, _ in values}
    return {
        metric.name
        for metric in METRICS.values()
        if (f"{metric.name}_count" if metric.kind == "histogram" else metric.name) not in shown
    }
