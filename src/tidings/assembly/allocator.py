# SPDX-License-Identifier: Apache-2.0
"""The C library's allocator: what large requests leave behind goes back to the system.

glibc puts large buffers among the small ones once the first of them was freed, and keeps what was
freed below any that is still in use: after a few large posts that was 30 MB. Where the C library
is another one, nothing is done.
"""

import asyncio
import ctypes
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
LARGE_BYTES: Final = 512 * 1024
"""Buffers from this size on are mapped, each by itself, and unmapped when they are freed."""
KEPT_BYTES: Final = 2 * 2**20
"""So much free memory is kept at the end of the heap, for what is needed next."""
GROWTH_BYTES: Final = 8 * 2**20
CHECK_SECONDS: Final = 2.0
_STATM: Final = Path("/proc/self/statm")


class Allocator:
    """Set up once, at the start of the process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._trim: Callable[[int], int] = library.malloc_trim
        library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        self.trims = 0

    async def run(self) -> None:
        """Give back what is free whenever the process has grown by some megabytes.

        In a thread, because it takes milliseconds.
        """
        kept = held_bytes()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if held_bytes() < kept + GROWTH_BYTES:
                continue
            await asyncio.to_thread(self._trim, 0)
            self.trims += 1
            kept = held_bytes()


def find_allocator() -> Allocator | None:
    """That of this process; None if it is not glibc's."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return Allocator(library) if hasattr(library, "malloc_trim") else None


def held_bytes() -> int:
    """How much memory this process has, without pages of files."""
    _, resident, shared, *_ = _STATM.read_bytes().split()
    return (int(resident) - int(shared)) * resource.getpagesize()
