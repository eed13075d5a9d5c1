# SPDX-License-Identifier: Apache-2.0
"""Traces: which are sampled, how spans hang together, and a collector that does not answer."""

import threading
from collections.abc import Sequence
from importlib import import_module

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from tests.support.waiting import until
from tidings import otlp
from tidings.metrics import declared
from tidings.model.setup_error import SetupError, optional_import
from tidings.otlp import OtlpTracer
from tidings.tracing.spans import Span

SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOT_SAMPLED = SAMPLED[:-1] + "0"
COUNTS = declared.spans.counts


class FakeCollector(SpanExporter):
    """Keeps spans, or refuses them, or does not answer until it is released."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.answer = SpanExportResult.SUCCESS
        self.released = threading.Event()
        self.released.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.released.wait(60)
        self.spans += spans
        return self.answer

    def by_name(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.spans}


@pytest.fixture
def collector() -> FakeCollector:
    return FakeCollector()


def begin(tracer: OtlpTracer, trace: str | None = SAMPLED) -> Span | None:
    return tracer.begin("send", trace, kind="server", attributes={"tidings.chat": "c"})


def begun(tracer: OtlpTracer, trace: str | None = SAMPLED) -> Span:
    span = begin(tracer, trace)
    assert span is not None
    return span


async def test_a_span_belongs_to_the_span_of_the_caller(collector: FakeCollector) -> None:
    tracer = OtlpTracer(collector, {"service.name": "tidings"})
    send = begun(tracer)
    append = send.child("append")
    append.end({"tidings.sequence": 3})
    send.end(error="chat.busy")
    await tracer.close()

    found = collector.by_name()
    (parent,) = [span.parent for span in (found["send"],) if span.parent]
    assert f"{parent.trace_id:032x}-{parent.span_id:016x}" == SAMPLED[3:-3]
    assert found["append"].parent == found["send"].context
    assert dict(found["append"].attributes or {}) == {"tidings.sequence": 3}
    assert found["send"].status.description == "chat.busy"
    assert found["send"].resource.attributes["service.name"] == "tidings"
    assert send.traceparent.startswith(SAMPLED[:36])


@pytest.mark.parametrize(
    "trace", [None, NOT_SAMPLED, "", "nonsense", SAMPLED.replace("00-", "ff-")]
)
async def test_what_nobody_asked_to_trace_is_not_traced(
    collector: FakeCollector, trace: str | None
) -> None:
    tracer = OtlpTracer(collector, {})
    assert begin(tracer, trace) is None
    await tracer.close()


async def test_one_in_some_is_traced_unless_the_caller_decided(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = OtlpTracer(collector, {}, one_in=4)
    draws = iter([0.3, 0.2])
    monkeypatch.setattr(otlp, "random", lambda: next(draws))
    assert [begin(tracer, trace) is None for trace in (NOT_SAMPLED, None, None)] == [
        True,
        True,
        False,
    ]
    await tracer.close()


async def test_a_client_cannot_have_more_traced_than_the_limit(collector: FakeCollector) -> None:
    time = [5.0]
    tracer = OtlpTracer(collector, {}, now=lambda: time[0])
    before = COUNTS["limited"]
    assert sum(begin(tracer) is not None for _ in range(250)) == otlp.TRACES_PER_SECOND_MAX
    assert COUNTS["limited"] - before == 150
    time[0] += 1
    assert begin(tracer) is not None
    await tracer.close()


async def test_a_delivery_refers_to_the_spans_that_published(collector: FakeCollector) -> None:
    tracer = OtlpTracer(collector, {})
    publish = begun(tracer)
    traces = [publish.traceparent, NOT_SAMPLED, "nonsense"]
    span = tracer.link("deliver", traces, kind="consumer", attributes={})
    assert span is not None
    span.end()
    assert tracer.link("deliver", traces[1:], kind="consumer", attributes={}) is None
    await tracer.close()

    deliver = collector.by_name()["deliver"]
    assert deliver.parent is None
    (link,) = deliver.links
    assert publish.traceparent[3:-3] == f"{link.context.trace_id:032x}-{link.context.span_id:016x}"


async def test_a_collector_that_does_not_answer_costs_dropped_spans_and_no_time(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "TRACES_PER_SECOND_MAX", 10_000)
    monkeypatch.setattr(otlp, "CLOSE_SECONDS_MAX", 0.01)
    collector.released.clear()
    tracer = OtlpTracer(collector, {})
    dropped, exported = COUNTS["dropped"], COUNTS["exported"]
    for _ in range(otlp.WAITING_SPANS_MAX + 500):
        begun(tracer).end()
    assert COUNTS["dropped"] - dropped == 500
    await tracer.close()
    assert COUNTS["exported"] == exported

    collector.released.set()
    await until(lambda: COUNTS["exported"] - exported > 0)


async def test_spans_that_the_collector_refuses_are_counted_and_logged_once(
    collector: FakeCollector, json_lines: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "BATCH_SPANS_MAX", 1)
    collector.answer = SpanExportResult.FAILURE
    tracer = OtlpTracer(collector, {})
    before = COUNTS["failed"]
    for _ in range(3):
        begun(tracer).end()
    await tracer.close()
    assert COUNTS["failed"] - before == 3
    assert [line["action"] for line in json_lines] == ["spans_lost"]


def test_a_server_without_the_packages_says_how_to_get_them() -> None:
    with pytest.raises(SetupError, match=r"tidings\[traces\]"), optional_import("traces"):
        import_module("opentelemetry_of_the_future")
