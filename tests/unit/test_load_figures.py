# SPDX-License-Identifier: Apache-2.0
"""What a load came to: percentiles, remarks, the table and the chart."""

from array import array
from xml.etree import ElementTree

import msgspec

from tidings.tools.load_chart import ChartLine, Panel, chart, picture
from tidings.tools.load_runs import HEAD, Latency, Result, latency_of, line, merge_samples

SVG = "{http://www.w3.org/2000/svg}"
RESULT = Result(
    pairs=10,
    window=8,
    seconds=2.0,
    sent=4_000,
    delivered=4_000,
    missing=0,
    refused=0,
    latency=Latency(4_000, 1.0, 9.0, 11.0, 12.0),
    load_cpu=0.25,
    server_cpu=0.5,
)


def test_percentiles() -> None:
    found = latency_of(float(number) for number in range(1_000, 0, -1))
    assert found == Latency(1_000, 501.0, 991.0, 1_000.0, 1_000.0)
    assert latency_of([]) == Latency(0, 0.0, 0.0, 0.0, 0.0)
    assert list(merge_samples([array("d", [1.0]), array("d"), array("d", [2.0, 3.0])])) == [1, 2, 3]


def test_a_message_costs_what_the_server_used() -> None:
    assert RESULT.rate == 2_000
    assert RESULT.server_us == 250.0
    elsewhere = msgspec.structs.replace(RESULT, server_cpu=None)
    assert elsewhere.server_us is None
    assert elsewhere.row().count("-") == 2


def test_remarks_tell_what_makes_a_figure_doubtful() -> None:
    assert RESULT.remarks == ""
    doubtful = msgspec.structs.replace(RESULT, load_cpu=0.95, refused=3, missing=2)
    assert doubtful.remarks == "load-bound, 3 refused, 2 MISSING"
    assert line(doubtful.row()).endswith("load-bound, 3 refused, 2 MISSING")


def test_lines_of_the_table_stand_below_each_other() -> None:
    head, row = line(HEAD), line(RESULT.row())
    assert len(head) == len(row)
    for name, cell in (("sent/s", "2,000"), ("p99 ms", "9.0"), ("load", "25%")):
        assert head.index(name) + len(name) == row.index(cell) + len(cell)
    assert line(msgspec.structs.replace(RESULT, window=0).row()).split()[1] == "paced"


def test_the_chart_has_a_line_for_each_window() -> None:
    results = [
        msgspec.structs.replace(RESULT, pairs=pairs, window=window)
        for window in (1, 8)
        for pairs in (1, 10, 1_000)
    ]
    root = ElementTree.fromstring(picture(results, "at <a server>"))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "at <a server>" in texts
    for label in ("window 1", "window 8", "p50, window 1", "p99, window 8", "1,000", "messages/s"):
        assert label in texts
    assert len(list(root.iter(f"{SVG}polyline"))) == 2 + 4
    assert len(list(root.iter(f"{SVG}circle"))) == 3 * (2 + 4)


def test_higher_values_stand_higher_and_inside() -> None:
    for is_logarithmic in (False, True):
        values = {1: 0.4, 2: 30.0, 3: 7_000.0}
        panel = Panel("A panel", "ms", [ChartLine("a", values)], is_logarithmic)
        root = ElementTree.fromstring(chart("Title", "steps", [panel]))
        dots = [
            (float(dot.get("cx", "")), float(dot.get("cy", "")))
            for dot in root.iter(f"{SVG}circle")
        ]
        assert dots == sorted(dots, key=lambda dot: (dot[0], -dot[1]))
        assert all(0 < x < 520 and 50 < y < 270 for x, y in dots)


def test_a_chart_of_nothing_is_a_chart() -> None:
    for is_logarithmic in (False, True):
        panel = Panel("A panel", "ms", [ChartLine("a", {})], is_logarithmic)
        ElementTree.fromstring(chart("Title", "steps", [panel]))
