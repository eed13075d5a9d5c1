# SPDX-License-Identifier: Apache-2.0
"""Logs what the process is doing when the operator sends SIGUSR1: threads, tasks, loops, queues.

Everything is numbers and places in the code: no content, no names of users, no secrets.
"""

import asyncio
import faulthandler
import logging
import signal
from collections import Counter
from itertools import islice
from types import FrameType
from typing import Any, Final

from tidings.diagnosis import place, queue_depths, running_loops

log = logging.getLogger("tidings.state")

TASKS_MAX: Final = 20_000
"""Tasks that are looked at, so that the event loop continues after a tenth of a second."""
STACKS_MAX: Final = 100
FRAMES_MAX: Final = 12
_STDERR: Final = 2

Stack = tuple[str, ...]


def dump_state_on_signal() -> None:
    """Log the state of this process at each SIGUSR1, whatever the log level is."""
    log.setLevel(logging.INFO)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, log_state)
    # In C and at once, then the handler above: it also works while the event loop is stuck.
    faulthandler.register(signal.SIGUSR1, file=_STDERR, all_threads=True, chain=True)


def log_state() -> None:
    """Log the depths of all queues, all background loops, and the stacks of all tasks."""
    for name, depths in queue_depths():
        _log("queue", queue=name, **depths)
    for loop in sorted(running_loops, key=lambda loop: (loop.group, loop.step)):
        _log(
            "loop",
            group=loop.group,
            step=loop.step,
            failures=loop.failures,
            last_error=loop.last_error,
        )
    tasks = asyncio.all_tasks()
    stacks = Counter(_stack(task.get_coro()) for task in islice(tasks, TASKS_MAX))
    for stack, count in stacks.most_common(STACKS_MAX):
        _log("task", count=count, stack=stack)
    _log("end", tasks=len(tasks), stacks=len(stacks))


def _log(what: str, **facts: object) -> None:
    log.info("state: %s", what, extra={"action": f"state_{what}", **facts})


def _stack(work: Any) -> Stack:  # noqa: ANN401 - coroutines and generators of any library
    """Return where a task waits: the functions that await each other, the outermost first."""
    stack: list[str] = []
    while work is not None and len(stack) < FRAMES_MAX:
        frame: FrameType | None = getattr(work, "cr_frame", None) or getattr(work, "gi_frame", None)
        if frame is None:
            break
        code = frame.f_code
        stack.append(f"{place(code.co_filename)}:{frame.f_lineno} {code.co_qualname}")
        work = getattr(work, "cr_await", None) or getattr(work, "gi_yieldfrom", None)
    return tuple(stack)
