# SPDX-License-Identifier: Apache-2.0
"""The head of a request, rules of HTTP/1.1 that the parser does not check, and flow control."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import httptools

from tidings.gateway.http import refusals
from tidings.gateway.http.connection_limits import ConnectionLimits, Slot
from tidings.gateway.http.uvicorn_internals import FlowControl
from tidings.model import limits

SOCKET_PATH: Final = b"/v1/ws"
HEALTH_PATHS: Final = (b"/healthz", b"/readyz")

Headers = Sequence[tuple[bytes, bytes]]
"""Lower-case names, and values."""

_DIGITS: Final = re.compile(rb"[0-9]+")


def header_values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of all headers with this name, in order."""
    return [value for other, value in headers if other == name]


@dataclass(frozen=True, slots=True)
class RequestHead:
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
        """Whether method and path are those of the socket."""
        return self.method == b"GET" and self.path == SOCKET_PATH

    @property
    def is_for_health(self) -> bool:
        """Whether it is a health check. A body is not allowed: it could take any time."""
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
        """Return the answer to a head that breaks a rule; None if it breaks none."""
        if sum(len(name) + len(value) for name, value in self.headers) > limits.HEAD_BYTES_MAX:
            return refusals.HEAD_TOO_LARGE
        if self.version not in ("1.0", "1.1"):
            return refusals.VERSION_UNKNOWN
        hosts = len(self.values(b"host"))
        if hosts > 1 or (hosts == 0 and self.version == "1.1"):
            return refusals.HOST_MISSING
        if has_sockets and self.is_for_socket and not (self.is_upgrade and self.version == "1.1"):
            return refusals.NOT_AN_UPGRADE
        return self._refusal_of_encoding()

    def _refusal_of_encoding(self) -> bytes | None:
        encodings = [value.lower() for value in self.values(b"transfer-encoding")]
        if encodings and self.version == "1.0":
            return refusals.ENCODING_IN_OLD_VERSION
        if encodings and encodings != [b"chunked"]:
            return refusals.ENCODING_UNKNOWN
        return None


def read_head(parser: httptools.HttpRequestParser, target: bytes, headers: Headers) -> RequestHead:
    """Return the head that the parser has just completed."""
    path = target.partition(b"?")[0]
    version = parser.get_http_version()
    return RequestHead(parser.get_method(), path, version, headers, parser.should_upgrade())


class ReadGate(FlowControl):
    """Flow control by the protocol, which parses what it has before it reads more."""

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
    transport.set_protocol(protocol)
    transport.resume_reading()


class SocketMaker(Protocol):
    """Interface of the WebSocket handshake, as HTTP connections see it."""

    def refusal(self, headers: Headers, peer: str | None) -> bytes | None:
        """Return the answer to a request that is refused; None if it is accepted."""
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
