# SPDX-License-Identifier: Apache-2.0
"""Bytes before a payload, and bytes that a socket has not taken yet."""

from typing import Final

from picows import WSTransport

TEXT: Final = 0x81
PONG_FRAME: Final = 0x8A

_STANDARD_CLOSE_CODES: Final = frozenset({*range(1_000, 1_004), *range(1_007, 1_015)})


def header(kind: int, size: int) -> bytes:
    """What stands before a payload of this size, as a server writes it (RFC 6455, 5.2)."""
    if size < 126:
        return bytes((kind, size))
    if size < 1 << 16:
        return bytes((kind, 126)) + size.to_bytes(2)
    return bytes((kind, 127)) + size.to_bytes(8)


def backlog(transport: WSTransport) -> int:
    """How much the socket has yet to take."""
    return transport.underlying_transport.get_write_buffer_size()


def may_be_sent(close_code: int) -> bool:
    """Whether a close frame may hold this code (RFC 6455, 7.4, and what was registered since)."""
    return close_code in _STANDARD_CLOSE_CODES or 3_000 <= close_code < 5_000
