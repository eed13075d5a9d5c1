# SPDX-License-Identifier: Apache-2.0
"""Writes a snapshot of the metrics as OpenMetrics text, with `prometheus_client`."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from tidings.metrics.meters import Series

UNITS: Final = ("seconds", "bytes")

_process: Final = ProcessCollector(registry=None)


def render(series: Sequence[Series]) -> bytes:
    """Return the text of these metrics, and of the metrics of the process itself.

    This takes some ten milliseconds, so it is called in a thread.
    """
    registry = CollectorRegistry()
    registry.register(_Snapshot(series))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


class _Snapshot(Collector):
    def __init__(self, series: Sequence[Series]) -> None:
        self._series = series

    def collect(self) -> Iterator[Metric]:
        yield from map(_family, self._series)
        yield from _process.collect()


def _family(series: Series) -> Metric:
    metric = series.metric
    unit = next((unit for unit in UNITS if metric.name.endswith(f"_{unit}")), "")
    match metric.kind:
        case "counter":
            counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, value in series.values.items():
                counter.add_metric(labels, value)
            return counter
        case "gauge":
            gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels, unit=unit)
            for labels, value in series.values.items():
                gauge.add_metric(labels, value)
            return gauge
        case "histogram":
            family = HistogramMetricFamily(
                metric.name, metric.help, labels=metric.labels, unit=unit
            )
            bounds = [*map(str, metric.bounds), "+Inf"]
            for labels, (counts, total) in series.histograms.items():
                buckets = list(zip(bounds, accumulate(counts), strict=True))
                family.add_metric(labels, buckets, total)
            return family
