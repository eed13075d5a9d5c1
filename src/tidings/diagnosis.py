# SPDX-License-Identifier: Apache-2.0
"""What the queues and background loops of this process can say about themselves.

The operator asks for it with a signal; see `assembly/process.py`. Only numbers and names from
the code are kept here, never content.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary


class Queue(Protocol):
    """Something that work waits in."""

    def depths(self) -> Mapping[str, int]:
        """Return how much waits and runs now."""
        ...


@dataclass(slots=True, eq=False)
class LoopState:
    """How a background loop has fared."""

    group: str
    step: str
    """Name of the function that is called again and again."""
    failures: int = 0
    last_error: str = ""
    """Class and place of the last error; not its text, which may quote what it was about."""

    def failed(self, error: Exception) -> None:
        """Note a failed step."""
        self.failures += 1
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        self.last_error = type(error).__qualname__
        if traceback is not None:
            code = traceback.tb_frame.f_code
            self.last_error += f" at {place(code.co_filename)}:{traceback.tb_lineno}"


running_loops: Final[set[LoopState]] = set()

_queues: Final[WeakKeyDictionary[Queue, str]] = WeakKeyDictionary()


def report_queue(name: str, queue: Queue) -> None:
    """Include a queue in what the process reports, for as long as the queue exists."""
    _queues[queue] = name


def queue_depths() -> list[tuple[str, Mapping[str, int]]]:
    """Return the name and the depths of every queue."""
    return sorted(((name, queue.depths()) for queue, name in _queues.items()), key=lambda it: it[0])


def place(file: str) -> str:
    """Return the end of a file's path: its package and its name."""
    return "/".join(file.split("/")[-3:])
