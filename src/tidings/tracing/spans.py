# SPDX-License-Identifier: Apache-2.0
"""The tracer of this process, if traces are on, and what the rest of the server needs of spans.

Traces are off by default. Then `tracer` is None, and this is all that a message pays for: the
comparison with None. A message that is not sampled has no span either, so that code that has a span
never checks this again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, Literal, Protocol

TRACEPARENT: Final = "traceparent"
"""Name of the header in HTTP and in Kafka that carries the place of a span in its trace."""
TRACE_PATTERN: Final = "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
"""Form of a `traceparent` in W3C Trace Context, version 00."""

# Attributes. Those of messaging are in OpenTelemetry's semantic conventions, which may change.
CHAT_NAME: Final = "tidings.chat"
SEQUENCE: Final = "tidings.sequence"
REQUEST: Final = "tidings.request"
CONNECTIONS: Final = "tidings.connections"
MESSAGE_ID: Final = "messaging.message.id"
MESSAGE_COUNT: Final = "messaging.batch.message_count"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
SYSTEM: Final = "messaging.system"

SpanKind = Literal["server", "internal", "producer", "consumer"]
Attributes = Mapping[str, str | int]
NOTHING: Final[Attributes] = MappingProxyType({})


class Span(Protocol):
    """A step of a sampled trace, from its beginning to its end."""

    @property
    def traceparent(self) -> str:
        """Return the place of this span in its trace, for another process."""
        ...

    def child(
        self, name: str, *, kind: SpanKind = "internal", attributes: Attributes = NOTHING
    ) -> "Span":
        """Begin a span that belongs to this one."""
        ...

    def end(self, attributes: Attributes = NOTHING, *, error: str | None = None) -> None:
        """End the span; `error` is a stable code for the reason of a failure."""
        ...


class Tracer(Protocol):
    """Begins spans. All calls return at once, whatever the collector does."""

    def begin(
        self, name: str, trace: str | None, *, kind: SpanKind, attributes: Attributes
    ) -> Span | None:
        """Begin the first span of this process in a trace; return None unless it is sampled.

        `trace` is the `traceparent` that the caller sent. If it is missing or not valid, a new
        trace begins.
        """
        ...

    def link(
        self, name: str, traces: Sequence[str], *, kind: SpanKind, attributes: Attributes
    ) -> Span | None:
        """Begin a new trace that refers to the spans that caused it; return None unless one of
        them is sampled."""
        ...


tracer: Tracer | None = None
"""The tracer of this process; None if traces are off."""

_current: Final[ContextVar[Span | None]] = ContextVar("span", default=None)

current_span: Final = _current.get
"""Returns the span of the current REST request; None if there is none."""


def install(new: Tracer | None) -> None:
    """Set the tracer of this process, or None to switch traces off."""
    global tracer
    tracer = new


@contextmanager
def in_span(span: Span) -> Iterator[None]:
    """Make a span the current one inside this context."""
    before = _current.set(span)
    try:
        yield
    finally:
        _current.reset(before)
