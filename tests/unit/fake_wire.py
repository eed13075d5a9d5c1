# SPDX-License-Identifier: Apache-2.0
"""The socket below a connection, as lists and by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from picows import WSFrame, WSMsgType, WSTransport

from tidings.gateway.connection import Connection


class Pipe:
    """The transport below: as full as a test says."""

    def __init__(self) -> None:
        self.backlog = 0
        self.pause_bytes = 0
        self.frames: list[tuple[WSMsgType, bytes]] = []

    def write(self, data: bytes) -> None:
        while data:
            size, start = data[1], 2
            if size > 125:
                start += 2 if size == 126 else 8
                size = int.from_bytes(data[2:start])
            self.frames.append((WSMsgType(data[0] & 0x0F), data[start : start + size]))
            data = data[start + size :]

    def get_write_buffer_size(self) -> int:
        return self.backlog

    def set_write_buffer_limits(self, high: int) -> None:
        self.pause_bytes = high


@dataclass
class Head:
    """The request or the answer of the handshake."""

    headers: dict[str, str] = field(default_factory=lambda: {"Upgrade": "websocket"})


@dataclass
class Wire:
    """A WebSocket transport that writes into lists."""

    flush: Callable[[], None]
    """Have the connection write what waits for the end of its turn."""
    closes: list[int] = field(default_factory=list)
    disconnects: list[bool] = field(default_factory=list)
    """How it was disconnected: True if gracefully."""
    underlying_transport: Pipe = field(default_factory=Pipe)
    request: Head = field(default_factory=Head)
    response: Head = field(default_factory=Head)
    when_closed: Callable[[], None] = lambda: None
    """What the client does when it hears the goodbye."""

    @property
    def frames(self) -> list[tuple[WSMsgType, bytes]]:
        self.flush()
        return self.underlying_transport.frames

    @property
    def is_close_frame_sent(self) -> bool:
        return bool(self.closes)

    def send(self, kind: WSMsgType, payload: bytes) -> None:
        self.underlying_transport.frames.append((kind, payload))

    def send_close(self, code: int, _reason: bytes = b"") -> None:
        self.closes.append(code)
        self.when_closed()

    def disconnect(self, graceful: bool = True) -> None:
        self.disconnects.append(graceful)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(p) for kind, p in self.frames if kind == WSMsgType.TEXT]


@dataclass
class Part:
    """A frame as picows hands it over."""

    payload: bytes
    msg_type: WSMsgType = WSMsgType.TEXT
    fin: bool = True
    rsv1: bool = False
    rsv2: bool = False
    rsv3: bool = False

    def get_payload_as_bytes(self) -> bytes:
        return self.payload

    def get_payload_as_memoryview(self) -> memoryview:
        return memoryview(self.payload)


class Client:
    """A connection, and what its client does."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.wire = Wire(connection.flush)
        connection.on_ws_connected(self._transport)

    @property
    def _transport(self) -> WSTransport:
        return cast(WSTransport, self.wire)

    def says(self, *parts: Part) -> None:
        for part in parts:
            self.connection.on_ws_frame(self._transport, cast(WSFrame, part))

    def goes(self) -> None:
        self.connection.on_ws_disconnected(self._transport)
