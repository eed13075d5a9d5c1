# SPDX-License-Identifier: Apache-2.0
"""Settings of the C library's allocator, so that memory of large requests returns to the system.

glibc puts large buffers among the small ones once the first of them was freed, and keeps what was
freed below any that is still in use: after a few large posts that was 30 MB. With another C library
nothing is done.
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
"""Size from which buffers are mapped separately, and unmapped when they are freed."""
KEPT_BYTES: Final = 2 * 2**20
"""Free memory to keep at the end of the heap, for the next allocations."""
GROWTH_BYTES: Final = 8 * 2**20
CHECK_SECONDS: Final = 2.0
_STATM: Final = Path("/proc/self/statm")


class Allocator:
    """The allocator of this process, set up at the start."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._trim: Callable[[int], int] = library.malloc_trim
        library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        self.trims = 0

    async def run(self) -> None:
        """Return free memory to the system whenever the process has grown by some megabytes.

        Trims in a thread, because it takes milliseconds.
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
    """Return the allocator of this process; None if it is not glibc's."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return Allocator(library) if hasattr(library, "malloc_trim") else None


def held_bytes() -> int:
    """Return the memory of this process in bytes, without pages of files."""
    _, resident, shared, *_ = _STATM.read_bytes().split()
    return (int(resident) - int(shared)) * resource.getpagesize()
