# SPDX-License-Identifier: Apache-2.0
"""Diagnostic numbers about the queues and background loops of this process.

The operator requests them with a signal; see `assembly/process.py`. They contain only numbers and
names from the code, never content.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary


class Queue(Protocol):
    """A queue that reports its depth."""

    def depths(self) -> Mapping[str, int]:
        """Return the amounts of work that wait and run now, by name."""
        ...


@dataclass(slots=True, eq=False)
class LoopState:
    """Counts the failures of a background loop."""

    group: str
    step: str
    """Name of the function that the loop calls again and again."""
    failures: int = 0
    last_error: str = ""
    """Class and source line of the last error, without its text, which may quote content."""

    def failed(self, error: Exception) -> None:
        """Record a failed step."""
        self.failures += 1
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        self.last_error = type(error).__qualname__
        if traceback is not None:
            code = traceback.tb_frame.f_code
            self.last_error += f" at {short_path(code.co_filename)}:{traceback.tb_lineno}"


running_loops: Final[set[LoopState]] = set()

_queues: Final[WeakKeyDictionary[Queue, str]] = WeakKeyDictionary()


def report_queue(name: str, queue: Queue) -> None:
    """Include a queue in the report of this process for as long as the queue exists."""
    _queues[queue] = name


def queue_depths() -> list[tuple[str, Mapping[str, int]]]:
    """Return the name and the depths of every queue."""
    return sorted(((name, queue.depths()) for queue, name in _queues.items()), key=lambda it: it[0])


def short_path(file: str) -> str:
    """Return the last three parts of a file's path."""
    return "/".join(file.split("/")[-3:])
