# SPDX-License-Identifier: Apache-2.0
"""Result of a run, as a value and as a line of a table."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

LOAD_BOUND: Final = 0.9
"""Share of a core above which the load itself is the limit, so that rates are a lower bound."""


class Latency(msgspec.Struct, frozen=True):
    """Percentiles of the time to the answer, in milliseconds."""

    count: int
    p50: float
    p99: float
    p999: float
    max: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one run."""

    pairs: int
    window: int
    """Unanswered sends that each user keeps open; 0 for a run at a given rate."""
    seconds: float
    sent: int
    """Messages that were acknowledged as durable."""
    delivered: int
    missing: int
    """Messages acknowledged to their sender that never reached the other user of the pair."""
    refused: int
    """Sends that were refused and had to be repeated."""
    latency: Latency
    load_cpu: float
    """Share of a core that the load took."""
    server_cpu: float | None = None
    """Share of a core that the server took; None if it runs on another machine."""

    @property
    def rate(self) -> float:
        """Acknowledged messages per second."""
        return self.sent / self.seconds

    @property
    def server_us(self) -> float | None:
        """CPU time of the server per message, in microseconds."""
        if self.server_cpu is None or not self.sent:
            return None
        return self.server_cpu * self.seconds / self.sent * 1e6

    @property
    def remarks(self) -> str:
        """Reasons to read the figures with care; empty if there are none."""
        remarks = []
        if self.load_cpu > LOAD_BOUND:
            remarks.append("load-bound")
        if self.refused:
            remarks.append(f"{self.refused} refused")
        if self.missing:
            remarks.append(f"{self.missing} MISSING")
        return ", ".join(remarks)

    def row(self) -> list[str]:
        """Return the cells of this result, in the columns of `HEAD`."""
        return [
            str(self.pairs),
            str(self.window) if self.window else "paced",
            f"{self.rate:,.0f}",
            f"{self.delivered / self.seconds:,.0f}",
            "-" if self.server_us is None else f"{self.server_us:.1f}",
            f"{self.latency.p50:.1f}",
            f"{self.latency.p99:.1f}",
            f"{self.latency.max:.1f}",
            "-" if self.server_cpu is None else f"{self.server_cpu:.0%}",
            f"{self.load_cpu:.0%}",
            self.remarks,
        ]


HEAD: Final = (
    "pairs", "window", "sent/s", "delivered/s", "µs/sent", "p50 ms", "p99 ms", "max ms",
    "server", "load", "",
)  # fmt: skip
_WIDTHS: Final = (6, 6, 8, 11, 7, 8, 8, 8, 6, 5)


def latency_of(samples_ms: Iterable[float]) -> Latency:
    """Compute the percentiles of some samples."""
    ordered = sorted(samples_ms)
    if not ordered:
        return Latency(0, 0.0, 0.0, 0.0, 0.0)
    p50, p99, p999 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99, 0.999))
    return Latency(len(ordered), p50, p99, p999, ordered[-1])


def together(parts: Iterable["array[float]"]) -> "array[float]":
    """Concatenate samples."""
    everything = array("d")
    for part in parts:
        everything.extend(part)
    return everything


def line(row: Sequence[str]) -> str:
    """Format one line of the table of results."""
    cells = [cell.rjust(width) for cell, width in zip(row, _WIDTHS, strict=False)]
    return "  ".join([*cells, row[-1]]).rstrip()
