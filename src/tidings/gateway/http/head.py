# SPDX-License-Identifier: Apache-2.0
"""The head of an HTTP request: rules that the parser does not check, and refusals.

The refusals are fixed texts, in the same format as all other refusals. They contain nothing from
the request.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Protocol

import httptools
import msgspec

from tidings.gateway.http.connection_limits import ConnectionLimits, Slot
from tidings.gateway.http.uvicorn_internals import FlowControl
from tidings.model import limits
from tidings.model.refusals import Forbidden, Invalid, Refusal, TooLarge, Unavailable

_NO_MORE: Final[Mapping[str, str]] = MappingProxyType({})

SOCKET_PATH: Final = b"/v1/ws"
HEALTH_PATHS: Final = (b"/healthz", b"/readyz")

Headers = Sequence[tuple[bytes, bytes]]
"""Pairs of a name in lower case and a value."""

_DIGITS: Final = re.compile(rb"[0-9]+")


def refusal_bytes(
    status: HTTPStatus,
    kind: type[Refusal],
    detail: str,
    more_headers: Mapping[str, str] = _NO_MORE,
) -> bytes:
    """Return a complete HTTP answer, after which the connection is closed."""
    problem = {
        "type": f"/docs#{kind.code}",
        "title": kind.title,
        "status": status.value,
        "detail": detail,
        "code": kind.code,
    }
    body = json.dumps(problem, separators=(",", ":")).encode()
    headers = {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        **more_headers,
        "connection": "close",
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def malformed(detail: str) -> bytes:
    """Return the answer to a request that breaks a rule of the protocol."""
    return refusal_bytes(HTTPStatus.BAD_REQUEST, Invalid, detail)


def busy(detail: str, retry_seconds: int = 1) -> bytes:
    """Return an answer that asks the client to retry later."""
    retry = {"retry-after": str(retry_seconds)}
    return refusal_bytes(HTTPStatus.SERVICE_UNAVAILABLE, Unavailable, detail, retry)


NOT_HTTP: Final = malformed("this is not an HTTP/1.1 request")
HOST_MISSING: Final = malformed("a request must have exactly one Host header")
ENCODING_IN_OLD_VERSION: Final = malformed("Transfer-Encoding is not allowed in HTTP/1.0")
ENCODING_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.NOT_IMPLEMENTED, Invalid, "the only supported Transfer-Encoding is chunked"
)
VERSION_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, Invalid, "the supported version is HTTP/1.1"
)
HEAD_TOO_LARGE: Final = refusal_bytes(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    TooLarge,
    "the request line and headers are too large",
)
TRAILERS_TOO_LARGE: Final = refusal_bytes(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    TooLarge,
    "trailers and chunk extensions are too large",
)
CONNECTIONS_TAKEN: Final = busy("too many connections are open", retry_seconds=5)

NOT_AN_UPGRADE: Final = malformed("this is not a WebSocket handshake")
KEY_INVALID: Final = malformed("Sec-WebSocket-Key must be 16 bytes in base64")
SOCKET_VERSION_UNKNOWN: Final = refusal_bytes(
    HTTPStatus.UPGRADE_REQUIRED,
    Invalid,
    "the supported version of the WebSocket protocol is 13",
    {"sec-websocket-version": "13"},
)
ORIGIN_REFUSED: Final = refusal_bytes(
    HTTPStatus.FORBIDDEN, Forbidden, "this origin may not open a socket"
)


def header_values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of all headers with this name, in order."""
    return [value for other, value in headers if other == name]


class RequestHead(msgspec.Struct, frozen=True):
    """The head of one request."""

    method: bytes
    path: bytes
    version: str
    headers: Headers
    is_upgrade: bool

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of all headers with this name, in order."""
        return header_values(self.headers, name)

    @property
    def is_for_socket(self) -> bool:
        """Whether this is a request for a socket, by its method and path."""
        return self.method == b"GET" and self.path == SOCKET_PATH

    @property
    def is_for_health(self) -> bool:
        """Whether this is a health check.

        A request with a body is not treated as one, because a slow body could occupy a reserved
        connection.
        """
        has_body = bool(self.content_length) or self.is_chunked
        return self.path in HEALTH_PATHS and self.method in (b"GET", b"HEAD") and not has_body

    @property
    def is_chunked(self) -> bool:
        """Whether the body is sent in chunks."""
        return bool(self.values(b"transfer-encoding"))

    @property
    def content_length(self) -> int | None:
        """Length of the body, if the head states it."""
        lengths = self.values(b"content-length")
        return int(lengths[0]) if lengths and _DIGITS.fullmatch(lengths[0]) else None

    def refusal(self, *, has_sockets: bool) -> bytes | None:
        """Return the answer if the head breaks a rule, or None if it breaks none."""
        if sum(len(name) + len(value) for name, value in self.headers) > limits.HEAD_BYTES_MAX:
            return HEAD_TOO_LARGE
        if self.version not in ("1.0", "1.1"):
            return VERSION_UNKNOWN
        hosts = len(self.values(b"host"))
        if hosts > 1 or (hosts == 0 and self.version == "1.1"):
            return HOST_MISSING
        if has_sockets and self.is_for_socket and not (self.is_upgrade and self.version == "1.1"):
            return NOT_AN_UPGRADE
        return self._refusal_of_encoding()

    def _refusal_of_encoding(self) -> bytes | None:
        encodings = [value.lower() for value in self.values(b"transfer-encoding")]
        if encodings and self.version == "1.0":
            return ENCODING_IN_OLD_VERSION
        if encodings and encodings != [b"chunked"]:
            return ENCODING_UNKNOWN
        return None


def read_head(parser: httptools.HttpRequestParser, target: bytes, headers: Headers) -> RequestHead:
    """Return the head that the parser has just completed."""
    path = target.partition(b"?")[0]
    version = parser.get_http_version()
    return RequestHead(parser.get_method(), path, version, headers, parser.should_upgrade())


class ReadGate(FlowControl):
    """Pauses reading for a protocol that parses all received bytes before it reads more."""

    def __init__(self, transport: asyncio.Transport, read_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._read_on: Callable[[], None] | None = read_on
        self._is_transport_paused = False

    def pause_reading(self) -> None:
        self.read_paused = True
        if not self._is_transport_paused and not self._transport.is_closing():
            self._is_transport_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused and self._read_on is not None:
            self._read_on()

    def reopen(self) -> None:
        """Read from the transport again."""
        self.read_paused = False
        if self._is_transport_paused and not self._transport.is_closing():
            self._is_transport_paused = False
            self._transport.resume_reading()

    def release(self) -> None:
        """Drop the reference to the protocol, so that no cycle keeps it in memory."""
        self._read_on = None


_NOBODY: Final = asyncio.Protocol()
"""A protocol that does nothing, shared by all connections."""


def hand_over(
    transport: asyncio.Transport, protocol: asyncio.BufferedProtocol, data: bytes
) -> None:
    """Give the connection to another protocol, together with the bytes already read."""
    protocol.connection_made(transport)
    view = memoryview(data)
    while view and not transport.is_closing():
        buffer = memoryview(protocol.get_buffer(len(view)))
        size = min(len(buffer), len(view))
        buffer[:size] = view[:size]
        protocol.buffer_updated(size)
        view = view[size:]
    # A transport that is reading would continue to call the old protocol.
    transport.pause_reading()
    # uvloop keeps a reference to the last protocol that was not buffered. Otherwise this would be
    # the HTTP protocol, with 5 KB that nobody needs as long as the socket is open.
    transport.set_protocol(_NOBODY)
    transport.set_protocol(protocol)
    transport.resume_reading()


class SocketMaker(Protocol):
    """Checks requests for a socket, and creates the protocols of accepted sockets."""

    def refusal(self, headers: Headers, peer: str | None) -> bytes | None:
        """Return the answer if the request is refused, or None if it is accepted."""
        ...

    def protocol(
        self,
        headers: Headers,
        peer: str | None,
        limits: ConnectionLimits | None,
        slot: Slot | None,
    ) -> tuple[asyncio.BufferedProtocol, bytes]:
        """Return a WebSocket protocol, and the head of the request that it expects first."""
        ...
