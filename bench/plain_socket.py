# SPDX-License-Identifier: Apache-2.0
"""A WebSocket without a loop: one thread that writes, waits and takes the time.

It can tell when the kernel had an answer, however late this process is woken to read it.
"""

import base64
import os
import socket
import struct
from time import time_ns
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

TIMESTAMP_NS: Final = 35
"""SO_TIMESTAMPNS: have the kernel say when the bytes came. The module has no name for it."""
READ_BYTES: Final = 256 * 1024
TEXT: Final = 0x81


class PlainSocket:
    """One user on a live connection."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.arrived_ns = 0
        """When the last bytes came, by the wall clock."""
        self._buffer = b""
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, TIMESTAMP_NS, 1)
        self._upgrade(parts.netloc)
        self.send(msgspec.json.encode({"op": "hello", "token": token, "device": "plain"}))
        self.receive("live")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, payload: bytes) -> None:
        """Write one text frame. The mask is zero: it hides nothing from anybody here."""
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
        self._socket.sendall(bytes([TEXT]) + length + bytes(4) + payload)

    def receive(self, op: str) -> dict[str, Any]:
        """The next frame of this kind; others are passed over."""
        frame = self.receive_any(op, "refused")
        if frame["op"] != op:
            raise SystemExit(f"the server said {frame}")
        return frame

    def receive_any(self, *ops: str) -> dict[str, Any]:
        """The next frame of one of these kinds; others are passed over."""
        while True:
            frame: dict[str, Any] = msgspec.json.decode(self._payload())
            if frame["op"] in ops:
                return frame
            if frame["op"] == "bye":
                raise SystemExit(f"the server said {frame}")

    def _upgrade(self, host: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET /v1/ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._buffer:
            self._read()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise SystemExit(f"no socket: {head!r}")

    def _payload(self) -> bytes:
        """One frame: a server's have no mask, and ours come whole."""
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
        data, extras, _, _ = self._socket.recvmsg(READ_BYTES, 256)
        if not data:
            raise SystemExit("the server hung up")
        self.arrived_ns = time_ns()
        for level, kind, value in extras:
            if (level, kind) == (socket.SOL_SOCKET, TIMESTAMP_NS):
                seconds, nanoseconds = struct.unpack("qq", value[:16])
                self.arrived_ns = seconds * 10**9 + nanoseconds
        self._buffer += data
