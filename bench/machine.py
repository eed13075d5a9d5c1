# SPDX-License-Identifier: Apache-2.0
"""Describes the machine that the figures depend on, and measures how much other programs use it."""

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
from scripts.interpreters import this_interpreter

SYNCS = 50
BUSY_SHARE = 0.1
"""Share of a core from which other programs are reported as a disturbance."""


class Machine(msgspec.Struct, frozen=True):
    """Description of the machine."""

    processor: str
    cores: int
    kernel: str
    python: str
    interpreter: str
    """Path of the interpreter, of the load and of the server."""
    build: str
    """What is known of its optimisation."""
    python_ns: float
    """Best time of a small piece of Python. It shows whether the interpreter is well built, and
    whether the machine is quiet."""
    sqlite: str
    sync_ms: float
    """Median time to write 4 KiB and wait until the disk confirms it."""


def machine() -> Machine:
    """Return the description of this machine."""
    interpreter = this_interpreter()
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return Machine(
        processor=found[1] if found else platform.machine(),
        cores=os.cpu_count() or 1,
        kernel=platform.release(),
        python=platform.python_version(),
        interpreter=interpreter.path,
        build=interpreter.build,
        python_ns=interpreter.ns,
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


class Others:
    """Measures how much CPU time is used by programs other than the server and the load."""

    def __init__(self) -> None:
        self._busy, self._at = _busy_seconds(), time.perf_counter()
        self._ours = _own_seconds()

    def share(self) -> float:
        """Return the number of cores that other programs have used since this object was created.

        Of our own processes, only those that have ended are subtracted. CPU time that the host of a
        virtual machine gave to others is counted as well, and so is the kernel's work for our disk.
        """
        busy = _busy_seconds() - self._busy
        ours = _own_seconds() - self._ours
        return max(0.0, busy - ours) / (time.perf_counter() - self._at)


def _busy_seconds() -> float:
    """Return the CPU time of all cores that was not idle, as the kernel counts it."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, stolen, *_ = fields
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Return the CPU time of this process and of the child processes that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
