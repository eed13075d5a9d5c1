# SPDX-License-Identifier: Apache-2.0
"""Meters that count and time in plain memory, and a snapshot of all of them.

A meter costs the code that uses it one addition in a dictionary or a list. Everything else is done
when somebody reads the metrics. Values that exist anyway, such as the depth of a queue, are not
counted twice: their owner reports how to read them.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
"""Values of the labels of a series, in the order of the declaration."""
Key = Hashable
"""What a series is counted under: its labels, or the only label. A meter may use other keys if it
has a function that converts them to labels."""

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of a duration."""
LATE_SECONDS: Final = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0)
"""Upper bounds for durations that are seconds at best."""
AMOUNTS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0)
"""Upper bounds of the buckets of a number of things."""


class Histogram:
    """Counts values by size: in each bucket those up to its bound, and in the last all others."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value. Clocks that differ can make it negative: then it counts as zero, because
        Prometheus takes a total that shrinks for a restart of the process."""
        self.counts[bisect_left(self._bounds, value)] += 1
        if value > 0:
            self.total += value


class Histograms(dict[Key, Histogram]):
    """The histograms of a metric, one per key. A histogram is made when it is first used."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds

    def __missing__(self, key: Key) -> Histogram:
        made = self[key] = Histogram(self.bounds)
        return made


def _as_labels(key: Any) -> Labels:  # noqa: ANN401 - a key of any meter
    return key if isinstance(key, tuple) else (str(key),)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Metric:
    """A declared metric, with its values in this process."""

    name: str
    kind: Kind
    help: str
    labels: Labels
    question: str
    """The question of an operator that this metric helps to answer."""
    source: str
    """The part of the server that emits it."""
    needs: str
    """What must be configured for the metric to have values; empty for nothing."""
    bounds: tuple[float, ...]
    counts: defaultdict[Key, float] = field(init=False)
    """Values of a counter."""
    of: Histograms = field(init=False)
    """Histograms of a histogram."""
    to_labels: Callable[[Any], Labels] = _as_labels

    def __post_init__(self) -> None:
        self.counts = defaultdict(float if self.kind == "gauge" else int)
        self.of = Histograms(self.bounds)
        if not self.labels and self.kind == "counter":
            self.counts[()] = 0
        if not self.labels and self.kind == "histogram":
            self.of[()]


Reading = tuple[Metric, Key, float]
"""A value of one series of a metric."""
T = TypeVar("T")

METRICS: Final[dict[str, Metric]] = {}
"""All declared metrics, by name, in the order of their declaration."""

_reporters: Final[WeakKeyDictionary[Any, list[Callable[[Any], Iterable[Reading]]]]] = (
    WeakKeyDictionary()
)


def declare(
    name: str,
    kind: Kind,
    help: str,
    *labels: str,
    question: str,
    source: str,
    needs: str = "",
    bounds: tuple[float, ...] = SECONDS,
    starts: tuple[str, ...] = (),
) -> Metric:
    """Declare a metric. The modules that emit it import it from where it is declared.

    The values of its only label in `starts` are shown from the start, because Prometheus does not
    see the first increase of a series that did not exist before.
    """
    assert name not in METRICS, f"{name} is declared twice"
    metric = Metric(name, kind, help, labels, question, source, needs, bounds)
    METRICS[name] = metric
    for value in starts:
        if kind == "histogram":
            metric.of[value]
        else:
            metric.counts[value] = 0
    return metric


def report(owner: T, read: Callable[[T], Iterable[Reading]]) -> None:
    """Add the values that `read` returns to the metrics, for as long as the owner exists.

    Values of several owners for one series are added up. `read` must not refer to the owner.
    """
    _reporters.setdefault(owner, []).append(read)


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one metric at one moment, by labels."""

    metric: Metric
    values: Mapping[Labels, float]
    histograms: Mapping[Labels, tuple[list[int], float]]
    """For each histogram, the number of values in each bucket, and their total."""


def snapshot() -> list[Series]:
    """Return the current values of all metrics.

    This runs on the event loop, so that no value changes meanwhile. It takes less than a
    millisecond, and about one more for each thousand sockets.
    """
    reported: dict[str, dict[Key, float]] = defaultdict(lambda: defaultdict(float))
    for owner, reads in list(_reporters.items()):
        for read in reads:
            for metric, key, value in read(owner):
                reported[metric.name][key] += value
    return [_series(metric, reported.get(metric.name, {})) for metric in METRICS.values()]


def _series(metric: Metric, reported: Mapping[Key, float]) -> Series:
    values: dict[Labels, float] = defaultdict(float)
    for found in (metric.counts, reported):
        for key, value in found.items():
            values[metric.to_labels(key)] += value
    histograms = {
        metric.to_labels(key): (list(each.counts), each.total) for key, each in metric.of.items()
    }
    return Series(metric, values, histograms)


Packed = list[tuple[str, list[tuple[Labels, float]], list[tuple[Labels, tuple[list[int], float]]]]]
"""The values of all metrics of a process, by name, without their declarations."""


def pack(series: Iterable[Series]) -> Packed:
    """Return the values of metrics in a form that another process of the same version can read."""
    return [
        (one.metric.name, list(one.values.items()), list(one.histograms.items())) for one in series
    ]


def add_up(own: Iterable[Series], others: Iterable[Packed]) -> list[Series]:
    """Add the values of other processes to those of this one."""
    added = {one.metric.name: one for one in own}
    for packed in others:
        for name, values, histograms in packed:
            added[name] = _added(added[name], values, histograms)
    return list(added.values())


def lasting(ended: Iterable[Packed]) -> Packed:
    """Add up the values of processes that have ended, without gauges, which describe a moment.

    Prometheus takes a total that shrinks for a restart, so these values are still added.
    """
    counted = [Series(one, {}, {}) for one in METRICS.values() if one.kind != "gauge"]
    names = {one.metric.name for one in counted}
    values = [[one for one in packed if one[0] in names] for packed in ended]
    return pack(add_up(counted, values))


def _added(
    series: Series,
    values: Iterable[tuple[Labels, float]],
    histograms: Iterable[tuple[Labels, tuple[list[int], float]]],
) -> Series:
    summed, joined = dict(series.values), dict(series.histograms)
    for labels, value in values:
        summed[labels] = summed.get(labels, 0) + value
    for labels, (counts, total) in histograms:
        before, sum_before = joined.get(labels, ([0] * len(counts), 0.0))
        both = [one + other for one, other in zip(before, counts, strict=True)]
        joined[labels] = both, sum_before + total
    return Series(series.metric, summed, joined)
