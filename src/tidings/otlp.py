# SPDX-License-Identifier: Apache-2.0
"""Sends spans to an OpenTelemetry collector with OTLP over HTTP, in a thread of its own.

This needs the packages of the extra `traces`. Spans wait in a queue of bounded length. If the
collector is slow or dead, spans are dropped and counted, and no message waits. The number of traces
per second is limited too, because a client may ask for each of its messages to be traced.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from random import random
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    SpanContext,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind as OtelKind
from opentelemetry.trace import Tracer as OtelTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tidings.metrics import declared
from tidings.tracing.spans import NOTHING, TRACEPARENT, Attributes, Span, SpanKind, Tracer

log = logging.getLogger("tidings.traces")

WAITING_SPANS_MAX: Final = 2_048
BATCH_SPANS_MAX: Final = 256
SEND_MS: Final = 1_000
"""Interval at which waiting spans are sent."""
ANSWER_SECONDS_MAX: Final = 5.0
CLOSE_SECONDS_MAX: Final = 2.0
TRACES_PER_SECOND_MAX: Final = 100
LINKS_MAX: Final = 64
LOG_SECONDS_MIN: Final = 60.0

_COUNTS: Final = declared.spans.counts
_PATH: Final = "/v1/traces"
_KINDS: Final[Mapping[SpanKind, OtelKind]] = {
    "server": OtelKind.SERVER,
    "internal": OtelKind.INTERNAL,
    "producer": OtelKind.PRODUCER,
    "consumer": OtelKind.CONSUMER,
}
_propagator: Final = TraceContextTextMapPropagator()


class RecordedSpan:
    """A span of the OpenTelemetry library."""

    __slots__ = ("_span", "_tracer")

    def __init__(self, tracer: OtelTracer, span: OtelSpan) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, set_span_in_context(self._span))
        return carrier[TRACEPARENT]

    def child(
        self, name: str, *, kind: SpanKind = "internal", attributes: Attributes = NOTHING
    ) -> "RecordedSpan":
        context = set_span_in_context(self._span)
        begun = self._tracer.start_span(name, context, _KINDS[kind], dict(attributes))
        return RecordedSpan(self._tracer, begun)

    def end(self, attributes: Attributes = NOTHING, *, error: str | None = None) -> None:
        self._span.set_attributes(dict(attributes))
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class CountingExporter(SpanExporter):
    """Passes spans to another exporter, counts them, and logs now and then if they are lost."""

    def __init__(self, exporter: SpanExporter, now: Callable[[], float] = monotonic) -> None:
        self._exporter = exporter
        self._now = now
        self._log_at = -LOG_SECONDS_MIN
        self.done = 0
        """Number of spans that were sent or lost."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            self.done += len(spans)
            is_sent = result is SpanExportResult.SUCCESS
            _COUNTS["exported" if is_sent else "failed"] += len(spans)
            if not is_sent:
                self._warn(len(spans))
        return result

    def _warn(self, lost: int) -> None:
        if self._now() - self._log_at >= LOG_SECONDS_MIN:
            self._log_at = self._now()
            extra = {"action": "spans_lost", "count": lost}
            log.warning("the collector did not accept spans", extra=extra)

    def shutdown(self) -> None:
        self._exporter.shutdown()


class BoundedQueue(SpanProcessor):
    """Queues ended spans for a thread that sends them, and drops and counts those beyond a limit.

    The queue of the library has a limit too, but it would log each dropped span.
    """

    def __init__(self, exporter: CountingExporter) -> None:
        self._exporter = exporter
        self._accepted = 0
        self._batches = BatchSpanProcessor(
            exporter,
            max_queue_size=2 * WAITING_SPANS_MAX,
            schedule_delay_millis=SEND_MS,
            max_export_batch_size=BATCH_SPANS_MAX,
        )

    def on_end(self, span: ReadableSpan) -> None:
        if self._accepted - self._exporter.done >= WAITING_SPANS_MAX:
            _COUNTS["dropped"] += 1
            return
        self._accepted += 1
        self._batches.on_end(span)

    def shutdown(self) -> None:
        self._batches.shutdown()  # type: ignore[no-untyped-call]


class OtlpTracer:
    """Samples traces, and sends their spans to a collector."""

    def __init__(
        self,
        exporter: SpanExporter,
        resource: Mapping[str, str],
        *,
        one_in: int = 0,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Create the tracer. `resource` describes this process.

        One in `one_in` messages and requests without a `traceparent` is traced; 0 for none.
        """
        self._one_in = one_in
        self._now = now
        self._second, self._begun = 0, 0
        """The current second, and the number of traces that began in it."""
        self._queue = BoundedQueue(CountingExporter(exporter))
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create(dict(resource)), shutdown_on_exit=False
        )
        provider.add_span_processor(self._queue)
        self._tracer = provider.get_tracer("tidings")

    def begin(
        self, name: str, trace: str | None, *, kind: SpanKind, attributes: Attributes
    ) -> Span | None:
        caller = None if trace is None else _context_of(trace)
        if caller is None:
            is_sampled = bool(self._one_in) and random() * self._one_in < 1
        else:
            is_sampled = caller.trace_flags.sampled
        if not is_sampled or not self._has_room():
            return None
        parent = None if trace is None else _propagator.extract({TRACEPARENT: trace})
        begun = self._tracer.start_span(name, parent, _KINDS[kind], dict(attributes))
        return RecordedSpan(self._tracer, begun)

    def link(
        self, name: str, traces: Sequence[str], *, kind: SpanKind, attributes: Attributes
    ) -> Span | None:
        found = (_context_of(trace) for trace in traces[:LINKS_MAX])
        links = [Link(one) for one in found if one is not None and one.trace_flags.sampled]
        if not links or not self._has_room():
            return None
        begun = self._tracer.start_span(name, None, _KINDS[kind], dict(attributes), links)
        return RecordedSpan(self._tracer, begun)

    def _has_room(self) -> bool:
        """Count a trace; return False if too many began in this second."""
        second = int(self._now())
        if second != self._second:
            self._second, self._begun = second, 0
        if self._begun >= TRACES_PER_SECOND_MAX:
            _COUNTS["limited"] += 1
            return False
        self._begun += 1
        return True

    async def close(self) -> None:
        """Send the waiting spans, for a short time, and stop."""
        # A daemon, because the library may wait much longer for a collector that does not answer.
        closing = threading.Thread(target=self._queue.shutdown, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_SECONDS_MAX)


def make_tracer(url: str, one_in: int, resource: Mapping[str, str]) -> OtlpTracer:
    """Return a tracer that sends to the collector at this URL.

    Headers, such as a key of the collector, come from `OTEL_EXPORTER_OTLP_HEADERS`.
    """
    # The library logs each attempt; `spans_lost` and the metric say the same in less.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    endpoint = url if urlsplit(url).path.strip("/") else url.rstrip("/") + _PATH
    exporter = OTLPSpanExporter(endpoint, timeout=ANSWER_SECONDS_MAX)
    return OtlpTracer(exporter, resource, one_in=one_in)


def _context_of(trace: str) -> SpanContext | None:
    """Return the place in a trace; None if it is not valid."""
    found = get_current_span(_propagator.extract({TRACEPARENT: trace})).get_span_context()
    return found if found.is_valid else None


_conforms: tuple[type[Tracer], type[Span]] = (OtlpTracer, RecordedSpan)
