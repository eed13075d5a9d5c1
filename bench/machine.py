# SPDX-License-Identifier: Apache-2.0
"""What the figures depend on: the machine, its disk, and who else used it meanwhile."""

import os
import platform
import re
import statistics
import tempfile
import time
from pathlib import Path

import apsw
import msgspec

from bench.server import OUTPUT

SYNCS = 50
ROUNDS = 100
STEPS = 2_000
BUSY_SHARE = 0.1
"""From this share of a core on others count as a disturbance."""


class Machine(msgspec.Struct, frozen=True):
    """Where it ran."""

    processor: str
    cores: int
    kernel: str
    python: str
    python_ns: float
    """What a small piece of Python takes, at best: tells a well-built interpreter from a slow one,
    and a quiet machine from a busy one."""
    sqlite: str
    sync_ms: float
    """What it takes to write 4 KiB and have the disk confirm it, median."""


def machine() -> Machine:
    """This machine."""
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return Machine(
        processor=found[1] if found else platform.machine(),
        cores=os.cpu_count() or 1,
        kernel=platform.release(),
        python=platform.python_version(),
        python_ns=_python_ns(),
        sqlite=apsw.sqlite_lib_version(),
        sync_ms=_sync_ms(),
    )


def _sync_ms() -> float:
    OUTPUT.mkdir(exist_ok=True)
    took = []
    with tempfile.NamedTemporaryFile(dir=OUTPUT) as file:
        for _ in range(SYNCS):
            started = time.perf_counter()
            os.write(file.fileno(), bytes(4_096))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - started) * 1e3)
    return statistics.median(took)


class _Point:
    __slots__ = ("x", "y")

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def moved(self, by: int) -> int:
        return self.x + by


def _python_ns() -> float:
    """Calls, attributes, a dictionary, a text: about what the server does all day."""
    best = float("inf")
    for _ in range(ROUNDS):
        started, seen = time.perf_counter(), {}
        for number in range(STEPS):
            point = _Point(number, number)
            seen[number & 255] = point.moved(3), point.y, f"{point.x}:{number}"
        best = min(best, time.perf_counter() - started)
    return best / STEPS * 1e9


class Others:
    """How much of the processors others used: whatever is neither the server nor the load."""

    def __init__(self) -> None:
        self._busy, self._at = _busy_seconds(), time.perf_counter()
        self._ours = _own_seconds()

    def share(self) -> float:
        """In cores, since this was made; only processes that have ended count as ours.

        What the host of a virtual machine gave to others is counted too, and so is the kernel's
        work for our disk.
        """
        busy = _busy_seconds() - self._busy
        ours = _own_seconds() - self._ours
        return max(0.0, busy - ours) / (time.perf_counter() - self._at)


def _busy_seconds() -> float:
    """Whatever was not idle, of all cores, by the kernel's count."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, stolen, *_ = fields
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """This process and those it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
