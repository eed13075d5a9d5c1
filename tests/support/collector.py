# SPDX-License-Identifier: Apache-2.0
"""A collector of traces: receives OTLP over HTTP, and decodes the spans."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class SeenSpan:
    """A span as it arrived."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    error: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    links: tuple[str, ...]
    """Ids of the linked spans."""


class Collector:
    """The spans that were received so far."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[SeenSpan] = []
        self.headers: dict[str, str] = {}

    def named(self, name: str) -> list[SeenSpan]:
        """The spans with a name."""
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(part.resource.attributes)
            for scope in part.scope_spans:
                self.spans += [_seen(span, resource) for span in scope.spans]


def _seen(span: Any, resource: dict[str, Any]) -> SeenSpan:
    return SeenSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        span.status.message,
        _values(span.attributes),
        resource,
        tuple(link.span_id.hex() for link in span.links),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}


@contextmanager
def a_collector() -> Iterator[Collector]:
    """A collector on this machine, in a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.headers = dict(self.headers)
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                collector.take(body)
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
