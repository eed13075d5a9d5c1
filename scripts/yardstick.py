# SPDX-License-Identifier: Apache-2.0
"""A small piece of Python whose time shows whether an interpreter is well built.

This imports nothing that has to be installed, because any interpreter may run it.
"""

import time
from typing import Final

ROUNDS: Final = 100
STEPS: Final = 2_000


class _Point:
    __slots__ = ("x", "y")

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def moved(self, by: int) -> int:
        return self.x + by


def python_ns() -> float:
    """Return the best CPU time of a small piece of Python with calls, attributes, a dictionary and
    texts, which are typical of the server."""
    best = float("inf")
    for _ in range(ROUNDS):
        started, seen = time.process_time(), {}
        for number in range(STEPS):
            point = _Point(number, number)
            seen[number & 255] = point.moved(3), point.y, f"{point.x}:{number}"
        best = min(best, time.process_time() - started)
    return best / STEPS * 1e9
