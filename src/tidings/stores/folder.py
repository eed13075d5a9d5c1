# SPDX-License-Identifier: Apache-2.0
"""A folder that one process has to itself for as long as it lives."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.stores.errors import StoreRefused

LOCK = "lock"


def is_in_use(folder: Path) -> bool:
    """Whether a process has this folder."""
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
    """Hold the folder's lock; the kernel lets go of it when the process dies, however it dies.

    Raises:
        StoreRefused: Another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise StoreRefused(
                f"{folder} is in use by another Tidings process (pid {lock.read().strip()}): "
                "stop that one first, or give this one another folder with --data"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
