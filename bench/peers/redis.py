# SPDX-License-Identifier: Apache-2.0
"""Runs a Redis that writes every command to the disk, and waits for it, before it answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.peers.processes import (
    PeerError,
    cpu_seconds,
    free_port,
    is_listening,
    running,
    wait_until,
)
from bench.server import SERVER_CORE
from scripts.services.debian import library_path
from scripts.services.obtaining import Unavailable
from scripts.services.redis_server import obtain

SYNCED: Final = {"appendonly": "yes", "appendfsync": "always", "save": ""}


class Redis:
    """A running Redis."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self._pid = pid

    def cpu_seconds(self) -> float:
        """Return the CPU time."""
        return cpu_seconds([self._pid])


def redis_program() -> Path:
    """Return the path of the program; obtain it if necessary."""
    try:
        return obtain()
    except Unavailable as error:
        raise PeerError(str(error)) from error


@contextmanager
def own_redis(folder: Path) -> Iterator[Redis]:
    """Start an empty Redis on the server's core; stop it afterwards."""
    program, port = redis_program(), free_port()
    options = {"bind": "127.0.0.1", "port": str(port), "dir": str(folder), **SYNCED}
    command = [
        str(program),
        *(text for key, value in options.items() for text in (f"--{key}", value)),
    ]
    env = library_path(program)
    with running(command, core=SERVER_CORE, account=None, folder=folder, env=env) as process:
        wait_until(partial(is_listening, port), process, folder)
        yield Redis(port, process.pid)
