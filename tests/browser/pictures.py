# SPDX-License-Identifier: Apache-2.0
"""Pictures to send."""

import random
import struct
import zlib


def png_of(width: int, height: int, lines: bytes) -> bytes:
    """A picture; each line begins with a zero, and each point has three bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def noise(width: int, height: int) -> bytes:
    """A picture that no compression makes smaller."""
    values = random.Random(0)
    lines = b"".join(b"\0" + values.randbytes(3 * width) for _ in range(height))
    return png_of(width, height, lines)
