# SPDX-License-Identifier: Apache-2.0
"""What the WebSocket protocol (RFC 6455) puts around our frames."""

from functools import lru_cache
from typing import Final

TEXT_FRAME: Final = 0x81
CLOSE_FRAME: Final = 0x88
PING_FRAME: Final = 0x89
PONG_FRAME: Final = 0x8A
_STANDARD_CLOSE_CODES: Final = frozenset({*range(1_000, 1_004), *range(1_007, 1_015)})


def header(kind: int, size: int) -> bytes:
    """Return the header of an unmasked frame with a payload of this size (section 5.2)."""
    if size < 126:
        return bytes((kind, size))
    if size < 1 << 16:
        return bytes((kind, 126)) + size.to_bytes(2)
    return bytes((kind, 127)) + size.to_bytes(8)


@lru_cache(maxsize=4_096)
def text_header(size: int) -> bytes:
    """Return the header of a text frame. Frames have few different sizes."""
    return header(TEXT_FRAME, size)


def may_be_sent(close_code: int) -> bool:
    """Return True if a close frame may carry this code (section 7.4, and later registrations)."""
    return close_code in _STANDARD_CLOSE_CODES or 3_000 <= close_code < 5_000
