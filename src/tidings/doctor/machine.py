# SPDX-License-Identifier: Apache-2.0
"""Reads figures of this machine: disk, clock, and the limits of processes."""

import ctypes
import os
import resource
import statistics
import tempfile
from pathlib import Path
from time import monotonic
from typing import Final

SYNCS: Final = 7
"""Number of measured flushes. Their median is used, because single flushes may be slow."""
BLOCK: Final = bytes(4_096)
_TIME_ERROR: Final = 5
"""Answer of the kernel if nothing synchronises its clock."""
_TIMEX_BYTES: Final = 512


class ThisMachine:
    """The machine on which the doctor runs. Tests replace single methods."""

    def free_bytes(self, folder: Path) -> int:
        """Return how many bytes an ordinary user can still write to the disk of a folder."""
        state = os.statvfs(folder)
        return state.f_bavail * state.f_frsize

    def free_files(self, folder: Path) -> int | None:
        """Return how many files can still be created; None if the file system has no limit."""
        state = os.statvfs(folder)
        return state.f_favail if state.f_files else None

    def sync_seconds(self, folder: Path) -> float:
        """Return how long it takes to write a block durably.

        The file has no name, so nothing is left even if the process is killed.
        """
        took = []
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            for _ in range(SYNCS):
                file.write(BLOCK)
                began = monotonic()
                os.fsync(file.fileno())
                took.append(monotonic() - began)
        return statistics.median(took)

    def file_system(self, folder: Path) -> str | None:
        """Return the type of the file system that contains a folder; None if it is not known."""
        try:
            lines = Path("/proc/self/mounts").read_text().splitlines()
        except OSError:
            return None
        resolved = folder.resolve()
        found = None
        for line in lines:
            _, place, kind, *_ = line.split(" ")
            # The kernel writes spaces and backslashes in octal. Later lines hide earlier ones.
            mount = Path(place.encode().decode("unicode_escape"))
            if resolved.is_relative_to(mount) and (found is None or mount >= found[0]):
                found = mount, kind
        return found[1] if found else None

    def is_clock_synchronised(self) -> bool | None:
        """Return whether the kernel's clock is synchronised; None if the kernel does not say."""
        try:
            state = ctypes.CDLL(None).adjtimex((ctypes.c_byte * _TIMEX_BYTES)())
        except AttributeError:
            return None
        return None if state < 0 else state != _TIME_ERROR

    def open_files(self, pid: int | None) -> tuple[int | None, int]:
        """Return how many files a process has open, if that can be read, and how many it may open.

        Without a process, the limit is that of the doctor itself.
        """
        if pid is None:
            return None, _limit(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        return len(os.listdir(f"/proc/{pid}/fd")), _limit(soft)


def _limit(soft: int) -> int:
    return 2**31 if soft == resource.RLIM_INFINITY else soft
