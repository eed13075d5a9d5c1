# SPDX-License-Identifier: Apache-2.0
"""Builds the bytes with which a client opens a WebSocket and sends text, for clients that cost
little."""

import base64
import os
import struct
from typing import Final

END_OF_HEAD: Final = b"\r\n\r\n"
TEXT: Final = 0x81

_MASKED: Final = 0x80
_NO_MASK: Final = bytes(4)  # nothing has to be hidden here
_SHORT_MAX: Final = 125


def upgrade_request(host: str, path: str) -> bytes:
    """Return the request that turns an HTTP connection into a WebSocket without compression."""
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def text_frame(payload: bytes) -> bytes:
    """Return a client's text frame, whose mask is zero."""
    return frame_head(len(payload)) + payload


def frame_head(size: int) -> bytes:
    """Return the bytes before a payload of this size, which is at most 65,535 bytes."""
    if size <= _SHORT_MAX:
        return bytes([TEXT, _MASKED | size]) + _NO_MASK
    return bytes([TEXT, _MASKED | 126]) + struct.pack(">H", size) + _NO_MASK
