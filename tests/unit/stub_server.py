# SPDX-License-Identifier: Apache-2.0
"""A server that answers as it is told and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    bearer: str
    body: Any


@dataclass
class Stub:
    """A running stub."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def stub_server(answer: Callable[[Asked], tuple[int, object]]) -> Iterator[Stub]:
    """Serve on a free port of this machine until the block ends."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            asked = Asked(self.command, self.path, bearer, json.loads(body) if body else None)
            stub.asked.append(asked)
            status, content = answer(asked)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(
                content if isinstance(content, bytes) else json.dumps(content).encode()
            )

        do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        stub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
