# SPDX-License-Identifier: Apache-2.0
"""Draws the panels of the dashboard from the values in a Prometheus, one picture per row.

Grafana is not needed for this: the panels have the queries, titles and legends of the dashboard
file. A panel without values is left out.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from scripts.observability.dashboard import dashboard
from scripts.services import chromium
from scripts.services.prometheus import PrometheusServer

POINTS: Final = 240
RATE_INTERVAL: Final = "10s"
WIDTH, HEIGHT, COLUMNS = 400, 224, 3
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 30, 70
LINES_MAX: Final = 6
GAP_POINTS: Final = 5
"""Number of missing points from which a line is interrupted."""
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_VARIABLES: Final = {"$__rate_interval": RATE_INTERVAL, "$job": ".*", "$instance": ".*"}
_SHOWN: Final = re.compile(r"\{\{(\w+)\}\}")


class DrawnLine(NamedTuple):
    """A line of a panel."""

    name: str
    points: list[tuple[float, float]]


class DrawnPanel(NamedTuple):
    """A panel with its lines."""

    title: str
    lines: list[DrawnLine]


def draw_dashboard(prometheus: PrometheusServer, start: float, end: float, folder: Path) -> None:
    """Write a picture of each row, from the values between two times, into a folder."""
    for title, panels in _rows(prometheus, start, end):
        name = re.sub("[^a-z]+", "-", title.lower()).strip("-")
        shown = [panel for panel in panels if panel.lines]
        if shown:
            _photograph(
                _svg(title, shown, start, end), len(shown), folder / f"dashboard-{name}.png"
            )


def _rows(
    prometheus: PrometheusServer, start: float, end: float
) -> Iterator[tuple[str, list[DrawnPanel]]]:
    title, panels = "", list[DrawnPanel]()
    for panel in json.loads(dashboard())["panels"]:
        if panel["type"] == "row":
            if title:
                yield title, panels
            title, panels = panel["title"], []
        elif panel["type"] == "timeseries":
            panels.append(_panel(prometheus, panel, start, end))
    yield title, panels


def _panel(prometheus: PrometheusServer, panel: Any, start: float, end: float) -> DrawnPanel:
    lines: list[DrawnLine] = []
    for target in panel["targets"]:
        query = target["expr"]
        for variable, value in _VARIABLES.items():
            query = query.replace(variable, value)
        for labels, points in prometheus.values(query, start, end, (end - start) / POINTS):
            name = _legend(target["legendFormat"], labels)
            known = [(at, value) for at, value in points if value == value]  # without NaN
            if known:
                lines.append(DrawnLine(name.strip(), known))
    lines.sort(key=lambda line: -max(value for _, value in line.points))
    return DrawnPanel(panel["title"], lines[:LINES_MAX])


def _legend(text: str, labels: Mapping[str, str]) -> str:
    return _SHOWN.sub(lambda found: labels.get(found[1], ""), text)


def _svg(title: str, panels: Sequence[DrawnPanel], start: float, end: float) -> str:
    width, height = _size(len(panels))
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
        "font-family='sans-serif' font-size='11'>",
        f"<rect width='{width}' height='{height}' fill='white'/>",
        f"<text x='12' y='22' font-size='16' fill='#222'>{escape(title)}</text>",
    ]
    for number, panel in enumerate(panels):
        row, column = divmod(number, COLUMNS)
        place = f"translate({column * WIDTH} {32 + row * HEIGHT})"
        parts += [f"<g transform='{place}'>", *_drawn(panel, start, end), "</g>"]
    return "\n".join([*parts, "</svg>"])


def _size(panels: int) -> tuple[int, int]:
    return WIDTH * min(panels, COLUMNS), 32 + HEIGHT * -(-panels // COLUMNS)


def _drawn(panel: DrawnPanel, start: float, end: float) -> Iterator[str]:
    highest = max(value for line in panel.lines for _, value in line.points) or 1.0
    right, below = WIDTH - RIGHT, HEIGHT - BOTTOM

    def path(points: Sequence[tuple[float, float]]) -> Iterator[str]:
        before = start
        for at, value in points:
            x = LEFT + (right - LEFT) * (at - start) / (end - start)
            y = below - (below - TOP) * value / highest
            is_near = at - before < GAP_POINTS * (end - start) / POINTS
            yield f"{'L' if is_near else 'M'}{x:.1f} {y:.1f}"
            before = at

    yield f"<text x='{LEFT}' y='20' fill='#222' font-weight='bold'>{escape(panel.title)}</text>"
    for share in (0.0, 0.5, 1.0):
        y = below - (below - TOP) * share
        yield f"<path d='M{LEFT} {y:.1f}H{right}' stroke='#ddd'/>"
        label = f"{highest * share:.3g}"
        yield f"<text x='{LEFT - 5}' y='{y + 4:.1f}' text-anchor='end' fill='#555'>{label}</text>"
    yield f"<text x='{LEFT}' y='{below + 13}' fill='#555'>0 s</text>"
    yield (
        f"<text x='{right}' y='{below + 13}' text-anchor='end' fill='#555'>"
        f"{end - start:.0f} s</text>"
    )
    for number, line in enumerate(panel.lines):
        colour = COLOURS[number % len(COLOURS)]
        drawn = "M" + "".join(path(line.points))[1:]
        yield f"<path d='{drawn}' fill='none' stroke='{colour}' stroke-width='1.5'/>"
        row, column = divmod(number, 2)
        x, y = LEFT + column * 172, below + 28 + row * 14
        yield f"<rect x='{x}' y='{y - 8}' width='9' height='9' fill='{colour}'/>"
        yield f"<text x='{x + 13}' y='{y}' fill='#222'>{escape(line.name[:24])}</text>"


def _photograph(svg: str, panels: int, file: Path) -> None:
    width, height = _size(panels)
    browser = chromium.obtain_headless()
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f"<body style='margin:0'>{svg}</body>")
        command = [
            str(browser),
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/browser",
            f"--window-size={width},{height}",
            f"--screenshot={file.absolute()}",
            page.as_uri(),
        ]
        environment = dict(chromium.environment(browser))
        subprocess.run(command, check=True, capture_output=True, env=environment, timeout=120)
