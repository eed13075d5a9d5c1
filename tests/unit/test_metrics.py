# SPDX-License-Identifier: Apache-2.0
"""Meters, what they cost their users, and the text that Prometheus reads."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from tests.support.metrics import families_of
from tidings.api.documents import FROM_SERVER
from tidings.api.metrics import READ_SECONDS_MIN, MetricsResponder
from tidings.caches import LruCache
from tidings.gateway.metering import (
    SENT,
    count_closed,
    count_unread_total,
    frame_readings,
    slot_of,
    socket_readings,
)
from tidings.metrics import declared
from tidings.metrics.counts import report_counts
from tidings.metrics.exposition import render
from tidings.metrics.meters import METRICS, Histogram, Metric, snapshot
from tidings.wire.frames import LIVE, Ping


def value_of(metric: Metric, *labels: str) -> float:
    """The value of a series in a snapshot; 0 if there is none."""
    [series] = [series for series in snapshot() if series.metric is metric]
    return series.values.get(labels, 0)


def test_a_histogram_counts_values_up_to_and_including_its_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5, 100.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.total) == ([2, 2, 2], 107.5)


def test_a_value_below_zero_makes_no_total_smaller() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (1.5, -1.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.total) == ([1, 1, 0], 1.5)


def test_values_of_several_owners_are_added_up_for_as_long_as_the_owners_exist() -> None:
    name = "a cache of this test"
    first, second = (LruCache[int, int](5, name=name) for _ in range(2))
    first.put(1, 1)
    second.put(1, 1)
    second.put(2, 2)
    assert value_of(declared.memory_entries, name) == 3
    del second
    gc.collect()
    assert value_of(declared.memory_entries, name) == 1


def test_a_part_reports_the_attributes_that_are_declared_for_it() -> None:
    class Part:
        compared, hinted, delivered, given_up = 1, 2, 3, 4

    part = Part()
    before = value_of(declared.internal, "relay", "given_up")
    report_counts(part, "relay")
    assert value_of(declared.internal, "relay", "given_up") == before + 4


def test_the_name_of_a_frame_determines_where_it_is_counted() -> None:
    slots = {op: slot_of(f'{{"op":"{op}","'.encode()) for op in _server_ops()}
    assert len({*slots.values()}) == len(slots) - 1
    assert slots["unread"] == slots["unread_total"], "the only pair, which is told apart elsewhere"
    assert slot_of(LIVE) == slots["live"]
    before = {key: count for _, key, count in frame_readings(None)}
    SENT[slots["sent"]] += 2
    after = {key: count for _, key, count in frame_readings(None)}
    assert after == {**before, ("sent", "out"): before.get(("sent", "out"), 0) + 2}
    assert declared.frames.to_labels(Ping) == ("ping", "in")


def test_a_frame_with_a_total_is_not_counted_as_a_count_of_one_inbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slot = slot_of(b'{"op":"unread","')
    sent = [0] * len(SENT)
    monkeypatch.setattr("tidings.gateway.metering.SENT", sent)
    monkeypatch.setitem(declared.frames.counts, ("unread_total", "out"), 0)

    def counted() -> float:
        return sum(count for _, key, count in frame_readings(None) if key == ("unread", "out"))

    count_unread_total()
    assert counted() == 0, "not sent yet"
    sent[slot] += 1
    assert counted() == 0
    sent[slot] += 1
    assert counted() == 1


def _server_ops() -> set[str]:
    return {str(kind.__struct_config__.tag) for kind in FROM_SERVER}


def test_codes_that_a_client_chooses_are_one_label() -> None:
    before = value_of(declared.sockets_closed, "other")
    for code in (4999, 3000, 1013):
        count_closed(code)
    assert value_of(declared.sockets_closed, "other") == before + 2
    assert value_of(declared.sockets_closed, "1013") >= 1


def test_the_first_twenty_names_of_clients_are_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.gateway.metering._client_names", {})

    def connection(client: str | None, is_slow: bool = False) -> Any:
        return SimpleNamespace(
            conversation=SimpleNamespace(client=client),
            progress=SimpleNamespace(is_paused=is_slow),
        )

    names = [f"app-{number}/1.{number}" for number in range(25)]
    sockets = [connection(name) for name in (*names, "app-0/2.0", None)]
    readings = {
        (metric.name, key): value
        for metric, key, value in socket_readings([*sockets, connection(None, True)])
    }
    assert readings["tidings_sockets", "app-0"] == 2
    assert readings["tidings_sockets", "other"] == 5
    assert readings["tidings_sockets", "unknown"] == 2
    assert readings["tidings_sockets_slow", ()] == 1
    assert len(readings) == 20 + 3


def test_the_text_has_every_metric_with_its_type_unit_and_values() -> None:
    declared.send_seconds.of["socket"].observe(0.02)
    declared.capacity_units.counts["messages", "write"] += 2.5
    families = families_of(render(snapshot()).decode())
    for name, metric in METRICS.items():
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert all(sample.labels.keys() - {"le"} == set(metric.labels) for sample in family.samples)
    sends = families["tidings_send_seconds"]
    assert sends.unit == "seconds"
    inf = [s for s in sends.samples if s.labels == {"via": "socket", "le": "+Inf"}]
    count = [s for s in sends.samples if s.name.endswith("_count") and s.labels["via"] == "socket"]
    assert inf[0].value == count[0].value >= 1
    assert families["process_cpu_seconds"].samples[0].value > 0


async def test_whoever_asks_without_a_key_makes_the_server_read_once_a_second() -> None:
    time, reads = 100.0, 0

    async def read() -> str:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        return f"text {reads}"

    responder = MetricsResponder(read, lambda: time)
    request = Request({"type": "http", "query_string": b""})
    cancelled = asyncio.ensure_future(responder(request))
    await asyncio.sleep(0)
    cancelled.cancel()
    answers = await asyncio.gather(*(responder(request) for _ in range(5)))
    assert {answer.body for answer in answers} == {b"text 1"}
    time += READ_SECONDS_MIN
    assert (await responder(request)).body == b"text 2"


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_expects(metric: Metric) -> None:
    assert metric.name.startswith("tidings_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help.endswith(".")
    forbidden = {"tenant", "user", "chat", "connection", "device", "address"}
    assert not forbidden.intersection(metric.labels)
