# SPDX-License-Identifier: Apache-2.0
"""Tunes the C library's memory allocator, and logs the state of the process on SIGUSR1.

The logged state consists of numbers and places in the code. It contains no content, no names of
users and no secrets.

Without tuning, glibc changes its behaviour after the first large buffer was freed: it puts later
large buffers among the small ones. It then cannot return freed memory to the system if a buffer in
use lies above it. After a few large posts, 30 MB stayed in the process for this reason. With
another C library nothing is tuned.
"""

import asyncio
import ctypes
import faulthandler
import logging
import resource
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tidings.diagnosis import queue_depths, running_loops, short_path
from tidings.metrics.counts import report_counts

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
LARGE_BYTES: Final = 512 * 1024
"""Buffers of at least this size are mapped separately, and unmapped when they are freed."""
KEPT_BYTES: Final = 2 * 2**20
"""Free memory that stays at the end of the heap for the next allocations."""
GROWTH_BYTES: Final = 8 * 2**20
CHECK_SECONDS: Final = 2.0
_STATM: Final = Path("/proc/self/statm")

log = logging.getLogger("tidings.state")

TASKS_MAX: Final = 20_000
"""Maximum number of tasks that a dump examines, so that it blocks the event loop for at most a
tenth of a second."""
STACKS_MAX: Final = 100
FRAMES_MAX: Final = 12
_STDERR: Final = 2

Stack = tuple[str, ...]


class Allocator:
    """Memory allocator of this process, which is tuned when this object is made."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._trim: Callable[[int], int] = library.malloc_trim
        library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        self.trims = 0
        report_counts(self, "allocator")

    async def run(self) -> None:
        """Return free memory to the system whenever the process has grown by some megabytes.

        This happens in a thread, because it takes milliseconds.
        """
        kept = allocated_bytes()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if allocated_bytes() < kept + GROWTH_BYTES:
                continue
            await asyncio.to_thread(self._trim, 0)
            self.trims += 1
            kept = allocated_bytes()


def find_allocator() -> Allocator | None:
    """Return the allocator of this process; None if it is not glibc's."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return Allocator(library) if hasattr(library, "malloc_trim") else None


def allocated_bytes() -> int:
    """Return the resident memory of this process in bytes, without shared pages."""
    _, resident, shared, *_ = _STATM.read_bytes().split()
    return (int(resident) - int(shared)) * resource.getpagesize()


def dump_state_on_signal() -> None:
    """Make SIGUSR1 log the state of this process, whatever the log level is."""
    log.setLevel(logging.INFO)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, log_state)
    # This prints the stack of the main thread at once, from C, before the handler above is called:
    # it works even while the event loop is stuck. The stacks of the other threads must not be read
    # in this way: they run meanwhile, and the process may end with a segmentation fault.
    faulthandler.register(signal.SIGUSR1, file=_STDERR, all_threads=False, chain=True)


def log_state() -> None:
    """Log the depths of all queues, all background loops, and the stacks of all threads and
    tasks."""
    for name, depths in queue_depths():
        log.info("state: queue", extra={"action": "state_queue", "queue": name, **depths})
    for loop in sorted(running_loops, key=lambda loop: (loop.group, loop.step)):
        facts = {
            "action": "state_loop",
            "group": loop.group,
            "step": loop.step,
            "failures": loop.failures,
            "last_error": loop.last_error,
        }
        log.info("state: loop", extra=facts)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        facts = {"thread_name": names.get(ident, ""), "stack": _stack_of_thread(frame)}
        log.info("state: thread", extra={"action": "state_thread", **facts})
    tasks = asyncio.all_tasks()
    stacks = Counter(_stack(task.get_coro()) for task in islice(tasks, TASKS_MAX))
    for stack, count in stacks.most_common(STACKS_MAX):
        log.info("state: task", extra={"action": "state_task", "count": count, "stack": stack})
    ending = {"action": "state_end", "tasks": len(tasks), "stacks": len(stacks)}
    log.info("state: end", extra=ending)


def _stack(work: Any) -> Stack:  # noqa: ANN401 - coroutines and generators of any library
    """Return where a task waits: the functions that await each other, the outermost first."""
    stack: list[str] = []
    while work is not None and len(stack) < FRAMES_MAX:
        frame: FrameType | None = getattr(work, "cr_frame", None) or getattr(work, "gi_frame", None)
        if frame is None:
            break
        stack.append(_place(frame))
        work = getattr(work, "cr_await", None) or getattr(work, "gi_yieldfrom", None)
    return tuple(stack)


def _stack_of_thread(innermost: FrameType) -> Stack:
    """Return what a thread does: its innermost calls, the outermost of them first."""
    stack: list[str] = []
    frame: FrameType | None = innermost
    while frame is not None and len(stack) < FRAMES_MAX:
        stack.append(_place(frame))
        frame = frame.f_back
    return tuple(reversed(stack))


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{short_path(code.co_filename)}:{frame.f_lineno} {code.co_qualname}"
