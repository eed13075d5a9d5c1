# SPDX-License-Identifier: Apache-2.0
"""Prints the table of results: the medians of each server's runs, and the ratio of our server to
the other."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bench.peers.ours import WHO as OURS
from bench.peers.outcome import Outcome

_WIDTHS: Final = (-48, 9, 17, 10, 8, 8, 7, 6, 8, 8)

_NOTE: Final = """\
"ours is": our median rate / the peer's. "by CPU": the peer's processor time for one of them / ours,
which others on the machine disturb less. "core", "load": how busy each of the two was."""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Ratio of our server to one variant of the other server."""

    peer: str
    by_rate: float
    """Median rate of our server, divided by that of the other server."""
    by_cpu: float
    """CPU time per message of the other server, divided by that of our server. This ratio is valid
    even on a busy machine."""


def rate_of(contest: str) -> Callable[[Outcome], float]:
    """Return the rate that is compared: messages per second or, in a group, deliveries per
    second."""
    return _sent_rate if contest == "1:1" else _delivered_rate


def table(contest: str, outcomes: Sequence[Outcome]) -> str:
    """Return the table of results, with our server in the first row."""
    unit = "msg" if contest == "1:1" else "dlv"
    head = ("", f"{unit}/s", "lowest-highest", f"CPU µs/{unit}", "p50 ms", "p99 ms", "core", "load",
            "ours is", "by CPU")  # fmt: skip
    found = {ratio.peer: ratio for ratio in ratios(contest, outcomes)}
    lines = [_line(head)]
    for who, runs in _by_name(outcomes).items():
        ratio = found.get(who)
        against = ("", "") if ratio is None else (f"{ratio.by_rate:.1f} x", f"{ratio.by_cpu:.1f} x")
        lines.append(_line((*_cells(contest, who, runs), *against)))
    return "\n".join([*lines, _NOTE])


def ratios(contest: str, outcomes: Sequence[Outcome]) -> list[Ratio]:
    """Return the ratio of our server to each variant of the other server."""
    rate, named = rate_of(contest), _by_name(outcomes)
    ours = named.pop(OURS, [])
    return [
        Ratio(
            peer=who,
            by_rate=_median(rate, ours) / _median(rate, runs),
            by_cpu=_median(_cost(rate), runs) / _median(_cost(rate), ours),
        )
        for who, runs in named.items()
    ]


def progress(contest: str, outcome: Outcome) -> str:
    """Return a line about one run."""
    rows = outcome.rows
    archive = f"  archive rows {rows.found:,} of {rows.expected:,}" if rows else ""
    cpu = " + ".join(f"{name} {used:.1f}" for name, used in outcome.cpu_seconds.items())
    return (
        f"  {outcome.who:48} {rate_of(contest)(outcome):10,.0f}/s  CPU s: {cpu}"
        f"  others {outcome.others:.0%}{archive}  {outcome.remarks}"
    ).rstrip()


def _cells(contest: str, who: str, runs: Sequence[Outcome]) -> tuple[str, ...]:
    rate = rate_of(contest)
    return (
        who,
        f"{_median(rate, runs):,.0f}",
        f"{min(map(rate, runs)):,.0f}-{max(map(rate, runs)):,.0f}",
        f"{_median(_cost(rate), runs):.1f}",
        f"{_median(lambda run: run.latency.p50, runs):.1f}",
        f"{_median(lambda run: run.latency.p99, runs):.1f}",
        f"{_median(lambda run: run.server_cpu, runs):.0%}",
        f"{_median(lambda run: run.load_cpu, runs):.0%}",
    )


def _cost(rate: Callable[[Outcome], float]) -> Callable[[Outcome], float]:
    return lambda run: run.server_cpu / rate(run) * 1e6


def _median(what: Callable[[Outcome], float], runs: Sequence[Outcome]) -> float:
    return statistics.median(map(what, runs))


def _by_name(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    named: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        named.setdefault(outcome.who, []).append(outcome)
    return named


def _line(cells: Sequence[str]) -> str:
    return "  ".join(
        cell.ljust(-width) if width < 0 else cell.rjust(width)
        for cell, width in zip(cells, _WIDTHS, strict=True)
    ).rstrip()


def _sent_rate(outcome: Outcome) -> float:
    return outcome.sent_rate


def _delivered_rate(outcome: Outcome) -> float:
    return outcome.delivered_rate
