# SPDX-License-Identifier: Apache-2.0
"""Draw results of load tests as SVG charts, without a library: panels side by side, with lines."""

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Final

import msgspec

from tidings.tools.load_runs import Result

WIDTH: Final = 520
HEIGHT: Final = 340
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 56, 78
TITLE_HEIGHT: Final = 30
LEGEND_HEIGHT: Final = 18
LEGEND_COLUMNS: Final = 2
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
FONT: Final = "font-family='system-ui, sans-serif'"


class ChartLine(msgspec.Struct, frozen=True):
    """A line through the values at the steps of the horizontal axis.

    Steps without a value are left out.
    """

    name: str
    values: dict[int, float]
    colour: int = 0
    is_dashed: bool = False


class Panel(msgspec.Struct, frozen=True):
    """One pair of axes, with its lines."""

    title: str
    unit: str
    lines: Sequence[ChartLine]
    is_logarithmic: bool = False


def chart(title: str, steps_are: str, panels: Sequence[Panel]) -> str:
    """Return the chart as SVG; `steps_are` labels the horizontal axis."""
    rows = max(-(-len(panel.lines) // LEGEND_COLUMNS) for panel in panels)
    width, height = WIDTH * len(panels), TITLE_HEIGHT + HEIGHT + rows * LEGEND_HEIGHT
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' {FONT} font-size='12'>",
        f"<rect width='{width}' height='{height}' fill='white'/>",
        _text(width / 2, 22, title, size=15),
    ]
    for number, panel in enumerate(panels):
        parts += [
            f"<g transform='translate({number * WIDTH} {TITLE_HEIGHT})'>",
            *_panel(panel, steps_are),
        ]
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, steps_are: str) -> list[str]:
    steps = sorted({step for line in panel.lines for step in line.values})
    scale = _Scale(panel, steps)
    parts = [
        _text(WIDTH / 2, 20, panel.title, size=13),
        _text(14, TOP - 12, panel.unit, anchor="start", colour="#555"),
        _text(WIDTH / 2, HEIGHT - BOTTOM + 36, steps_are, colour="#555"),
    ]
    for mark in scale.marks:
        y = scale.y(mark)
        parts.append(f"<path d='M{LEFT} {y:.1f}H{WIDTH - RIGHT}' stroke='#ddd' fill='none'/>")
        parts.append(_text(LEFT - 6, y + 4, f"{mark:,g}", anchor="end", colour="#555"))
    below = HEIGHT - BOTTOM + 18
    parts += [_text(scale.x(step), below, f"{step:,}", colour="#555") for step in steps]
    for number, line in enumerate(panel.lines):
        parts += _line(line, scale, number)
    return parts


def _line(line: ChartLine, scale: "_Scale", number: int) -> list[str]:
    colour = COLOURS[line.colour % len(COLOURS)]
    points = [(scale.x(step), scale.y(value)) for step, value in sorted(line.values.items())]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = " stroke-dasharray='5 4'" if line.is_dashed else ""
    parts = [
        f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'{dashes}/>",
        *(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in points),
    ]
    row, column = divmod(number, LEGEND_COLUMNS)
    x, y = LEFT + column * 220, HEIGHT - 22 + row * LEGEND_HEIGHT
    parts.append(f"<path d='M{x} {y}h22' stroke='{colour}' stroke-width='2'{dashes}/>")
    parts.append(_text(x + 28, y + 4, line.name, anchor="start"))
    return parts


class _Scale:
    """Maps steps (evenly spaced) and values (linear or logarithmic) to coordinates."""

    def __init__(self, panel: Panel, steps: Sequence[int]) -> None:
        values = [value for line in panel.lines for value in line.values.values()]
        self._steps = {step: position for position, step in enumerate(steps)}
        self._is_logarithmic = panel.is_logarithmic
        self.marks = _magnitudes(values) if panel.is_logarithmic else _even_marks(values)
        self._low, self._high = self._size(self.marks[0]), self._size(self.marks[-1])

    def x(self, step: int) -> float:
        room = WIDTH - LEFT - RIGHT
        return LEFT + room * (self._steps[step] + 0.5) / max(len(self._steps), 1)

    def y(self, value: float) -> float:
        share = (self._size(value) - self._low) / (self._high - self._low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def _size(self, value: float) -> float:
        return math.log10(max(value, 1e-3)) if self._is_logarithmic else value


def _even_marks(values: Sequence[float]) -> list[float]:
    """Return evenly spaced round marks, from zero to the highest value or above."""
    highest = max(values, default=0) or 1
    magnitude = 10 ** math.floor(math.log10(highest / 4))
    step = next(size * magnitude for size in (1, 2, 5, 10) if highest / (size * magnitude) <= 8)
    return [step * number for number in range(math.ceil(highest / step) + 1)]


def _magnitudes(values: Sequence[float]) -> list[float]:
    """Return the powers of ten that enclose all values."""
    sizes = [max(value, 1e-3) for value in values] or [1.0]
    low, high = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _text(
    x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12, colour: str = "#222"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' "
        f"fill='{colour}'>{escape(text)}</text>"
    )


TITLE = "Durable 1:1 messages"


def picture(results: Sequence[Result], title: str = TITLE) -> str:
    """Return a chart of throughput and latency, with a line for each window.

    A window is the number of messages that a sender has on the way at once.
    """
    windows = sorted({result.window for result in results})

    def line(name: str, window: int, value: Callable[[Result], float], dashed: bool) -> ChartLine:
        values = {result.pairs: value(result) for result in results if result.window == window}
        return ChartLine(f"{name}window {window}", values, windows.index(window), dashed)

    rates = [line("", window, lambda result: result.rate, False) for window in windows]
    latencies = [
        percentile
        for window in windows
        for percentile in (
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
