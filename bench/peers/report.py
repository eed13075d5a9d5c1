# SPDX-License-Identifier: Apache-2.0
"""Computes medians and ratios of the runs, and prints them as tables of text."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bench.peers.catalog import NOTHING, OURS
from bench.peers.outcome import PAIRS, Outcome

_WIDTHS: Final = (-29, 10, 17, 8, 15, 8, 6, 6, 10, 15)

ALONE: Final = (OURS.who, NOTHING.who)
NOTE: Final = """\
µs: processor time of the server and its database for one message or, in a group, one delivery.
"ours/its": our µs / its µs, the middle of the rounds, and the lowest and the highest of them.
"core", "load": how busy the server's core and the load's core were because of them."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one server under one load."""

    who: str
    rates: list[float]
    costs_us: list[float]
    p99_ms: float
    server_cpu: float
    load_cpu: float
    ratios: list[float]
    """In each round, our processor time divided by this server's; none for our server and for the
    load alone."""

    @property
    def rate(self) -> float:
        """Median of the messages or deliveries per second."""
        return statistics.median(self.rates)

    @property
    def cost_us(self) -> float:
        """Median of the processor time."""
        return statistics.median(self.costs_us)

    @property
    def ratio(self) -> float | None:
        """Median of the ratios."""
        return statistics.median(self.ratios) if self.ratios else None


def rows(outcomes: Sequence[Outcome], kind: str, shape: str) -> list[Row]:
    """Return a row for each server, in the order of the first round."""
    chosen = [run for run in outcomes if (run.kind, run.shape) == (kind, shape)]
    ours = {run.round: run.cost_us for run in chosen if run.who == OURS.who}
    found = []
    for who in dict.fromkeys(run.who for run in chosen):
        runs = [run for run in chosen if run.who == who]
        found.append(
            Row(
                who=who,
                rates=[run.rate for run in runs],
                costs_us=[run.cost_us for run in runs],
                p99_ms=_median(lambda run: run.latency.p99, runs),
                server_cpu=_median(lambda run: run.server_cpu, runs),
                load_cpu=_median(lambda run: run.load_cpu, runs),
                ratios=[ours[run.round] / run.cost_us for run in runs if who not in ALONE],
            )
        )
    return found


def table(kind: str, found: Sequence[Row]) -> str:
    """Return the table of one load."""
    unit = "msg" if kind == PAIRS else "dlv"
    head = ("", f"{unit}/s", "lowest-highest", "µs", "lowest-highest", "p99 ms", "core", "load",
            "ours/its", "lowest-highest")  # fmt: skip
    return "\n".join([line(head, _WIDTHS), *(line(_cells(row), _WIDTHS) for row in found)])


def progress(outcome: Outcome) -> str:
    """Return a line about one run."""
    cpu = " + ".join(f"{name} {used:.2f}" for name, used in outcome.cpu_seconds.items())
    return (
        f"  {outcome.round + 1} {outcome.who:29} {outcome.kind:5} {outcome.shape:10}"
        f" {outcome.rate:9,.0f}/s {outcome.cost_us:7.1f} µs  CPU s: {cpu}"
        f"  others {outcome.others:.0%}  {outcome.remarks}"
    ).rstrip()


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line of a table; a negative width is that of a text."""
    return "  ".join(
        cell.ljust(-width) if width < 0 else cell.rjust(width)
        for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.who,
        f"{row.rate:,.0f}",
        f"{min(row.rates):,.0f}-{max(row.rates):,.0f}",
        f"{row.cost_us:.1f}",
        f"{min(row.costs_us):.1f}-{max(row.costs_us):.1f}",
        f"{row.p99_ms:.0f}",
        f"{row.server_cpu:.0%}",
        f"{row.load_cpu:.0%}",
        "" if row.ratio is None else f"{row.ratio:.3f}",
        "" if row.ratio is None else f"{min(row.ratios):.3f}-{max(row.ratios):.3f}",
    )


def _median(what: Callable[[Outcome], float], runs: Sequence[Outcome]) -> float:
    return statistics.median(map(what, runs))
