# SPDX-License-Identifier: Apache-2.0
"""Generates the tables of docs/reference/metrics.md from the declaration of the metrics."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tidings.metrics.counts import INTERNAL
from tidings.metrics.meters import METRICS, Metric

PAGE: Final = Path("docs/reference/metrics.md")
_BLOCK: Final = re.compile(
    r"(<!-- generated: (metrics|internal) -->\n).*?(<!-- end -->)", re.DOTALL
)


def filled_in(page: str) -> str:
    """Return the page with its generated parts written anew."""
    parts = {"metrics": _metrics(), "internal": _internal()}
    assert {name for _, name, _ in _BLOCK.findall(page)} == parts.keys()
    return _BLOCK.sub(lambda found: f"{found[1]}{parts[found[2]]}\n{found[3]}", page)


def by_question() -> Iterator[tuple[str, list[Metric]]]:
    """Yield each question with the metrics that answer it, in the order of the declaration."""
    for question in dict.fromkeys(metric.question for metric in METRICS.values()):
        yield question, [one for one in METRICS.values() if one.question == question]


def _metrics() -> str:
    sections = []
    for question, metrics in by_question():
        rows = [(_name(one), one.kind, one.source, _help(one)) for one in metrics]
        table = _table(("Metric", "Type", "Emitted by", "Meaning"), rows)
        sections.append(f"### {question}\n\n{table}")
    return "\n\n".join(sections)


def _name(metric: Metric) -> str:
    labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
    return f"`{metric.name}{labels}`"


def _help(metric: Metric) -> str:
    return f"{metric.help} Only with {metric.needs}." if metric.needs else metric.help


def _internal() -> str:
    rows = [
        (f"`{part}`", f"`{event}`", meaning)
        for part, events in INTERNAL.items()
        for event, meaning in events.items()
    ]
    return _table(("part", "event", "Counts"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(line) for line in (head, *rows)]
    rule = "|" + "---|" * len(head)
    return "\n".join([f"| {lines[0]} |", rule, *(f"| {line} |" for line in lines[1:])])
