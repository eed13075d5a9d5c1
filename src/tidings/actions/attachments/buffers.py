# SPDX-License-Identifier: Apache-2.0
"""Memory for the bytes of downloads, which is used again when they have been sent."""

from collections import deque
from typing import Final

KEPT_MAX: Final = 8
"""Buffers that a process keeps: a download needs two, and more only if many run at once."""


class Buffers:
    """Buffers of one size. New memory for each part would take a tenth of the time of a download.

    The transport may still send the last part when the next one is decrypted. It then holds a view
    of the buffer, and Python does not change the size of a buffer while anybody holds a view of it:
    this is how `take` knows which ones are free.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: deque[bytearray] = deque()
        """The buffer that was taken first comes first: it is the most likely to be free."""

    def take(self, size: int) -> memoryview:
        """Return the view of so many bytes of which nobody has another view."""
        if size * 2 <= self._size:
            return memoryview(bytearray(size))  # most files are small, and need no more
        for _ in range(len(self._kept)):
            buffer = self._kept[0]
            self._kept.rotate(-1)
            if not _is_viewed(buffer):
                return memoryview(buffer)[:size]
        buffer = bytearray(self._size)
        if len(self._kept) < KEPT_MAX:
            self._kept.append(buffer)
        return memoryview(buffer)[:size]


def _is_viewed(buffer: bytearray) -> bool:
    try:
        buffer.pop()
    except BufferError:
        return True
    buffer.append(0)
    return False
