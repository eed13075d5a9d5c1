# SPDX-License-Identifier: Apache-2.0
"""A WebSocket without an event loop: one thread writes, waits and measures.

The socket reports when an answer reached the kernel, even if this process reads it much later.
"""

import socket
import struct
from time import time_ns
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from bench.websocket import END_OF_HEAD, text_frame, upgrade_request

TIMESTAMP_NS: Final = 35
"""Value of SO_TIMESTAMPNS, for which the module `socket` has no name. With this option, the kernel
reports when bytes arrived."""
READ_BYTES: Final = 256 * 1024


class PlainSocket:
    """Live connection of one user."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.arrived_ns = 0
        """Time at which the last bytes arrived, by the wall clock."""
        self._buffer = b""
        self._socket = timed_connection(parts.hostname, parts.port)
        self._upgrade(parts.netloc)
        self.send(msgspec.json.encode({"op": "hello", "token": token, "device": "plain"}))
        self.receive("live")

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def send(self, payload: bytes) -> None:
        """Write one text frame."""
        self._socket.sendall(text_frame(payload))

    def receive(self, op: str) -> dict[str, Any]:
        """Return the next frame of this kind; skip other frames."""
        frame = self.receive_any(op, "refused")
        if frame["op"] != op:
            raise SystemExit(f"the server said {frame}")
        return frame

    def receive_any(self, *ops: str) -> dict[str, Any]:
        """Return the next frame of one of these kinds; skip other frames."""
        while True:
            frame: dict[str, Any] = msgspec.json.decode(self._payload())
            if frame["op"] in ops:
                return frame
            if frame["op"] == "bye":
                raise SystemExit(f"the server said {frame}")

    def _upgrade(self, host: str) -> None:
        self._socket.sendall(upgrade_request(host, "/v1/ws"))
        while END_OF_HEAD not in self._buffer:
            self._read()
        head, _, self._buffer = self._buffer.partition(END_OF_HEAD)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise SystemExit(f"no socket: {head!r}")

    def _payload(self) -> bytes:
        """Return the payload of one frame. Frames of the server have no mask, and ours are not
        fragmented."""
        start, size = 2, self._need(2)[1] & 0x7F
        if size == 126:
            start, size = 4, int(struct.unpack(">H", self._need(4)[2:4])[0])
        elif size == 127:
            start, size = 10, int(struct.unpack(">Q", self._need(10)[2:10])[0])
        payload = self._need(start + size)[start : start + size]
        self._buffer = self._buffer[start + size :]
        return payload

    def _need(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._read()
        return self._buffer

    def _read(self) -> None:
        data, self.arrived_ns = received(self._socket)
        self._buffer += data


def timed_connection(host: str, port: int | None) -> socket.socket:
    """Return a connection whose bytes are sent at once, and whose arrivals the kernel times."""
    connection = socket.create_connection((host, port), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, TIMESTAMP_NS, 1)
    return connection


def received(connection: socket.socket) -> tuple[bytes, int]:
    """Return the next bytes of a timed connection, and when they arrived, by the wall clock."""
    data, extras, _, _ = connection.recvmsg(READ_BYTES, 256)
    if not data:
        raise SystemExit("the server hung up")
    arrived_ns = time_ns()
    for level, kind, value in extras:
        if (level, kind) == (socket.SOL_SOCKET, TIMESTAMP_NS):
            seconds, nanoseconds = struct.unpack("qq", value[:16])
            arrived_ns = seconds * 10**9 + nanoseconds
    return data, arrived_ns
