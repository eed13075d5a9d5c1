# SPDX-License-Identifier: Apache-2.0
"""A lock that gives one process a data folder to itself until the process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.model.setup_error import SetupError

LOCK = "lock"


def is_in_use(folder: Path) -> bool:
    """Return whether a process holds the folder's lock."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel releases it when the process ends, even by SIGKILL.

    Raises:
        SetupError: Another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise SetupError(
                f"{folder} is in use by another Tidings process (pid {lock.read().strip()}): "
                "stop that process first, or choose another folder with --data"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
