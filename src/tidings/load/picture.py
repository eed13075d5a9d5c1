# SPDX-License-Identifier: Apache-2.0
"""The chart of a set of runs: throughput and latency over the number of pairs."""

from collections.abc import Callable, Sequence

from tidings.load.chart import Line, Panel, chart
from tidings.load.results import Result

TITLE = "Durable 1:1 messages"


def picture(results: Sequence[Result], title: str = TITLE) -> str:
    """SVG; one line for each window."""
    windows = sorted({result.window for result in results})

    def line(name: str, window: int, value: Callable[[Result], float], dashed: bool) -> Line:
        values = {result.pairs: value(result) for result in results if result.window == window}
        return Line(f"{name}window {window}", values, windows.index(window), dashed)

    rates = [line("", window, lambda result: result.rate, False) for window in windows]
    latencies = [
        each
        for window in windows
        for each in (
            line("p50, ", window, lambda result: result.latency.p50, False),
            line("p99, ", window, lambda result: result.latency.p99, True),
        )
    ]
    return chart(
        title,
        "pairs",
        [
            Panel("Throughput", "messages/s", rates),
            Panel("Time to the answer", "ms", latencies, is_logarithmic=True),
        ],
    )
