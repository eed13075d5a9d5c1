# SPDX-License-Identifier: Apache-2.0
"""A server with an owner and fronts, of which a test can kill each."""

import os
import signal
from pathlib import Path
from typing import Final

from tests.support.server import ServerProcess
from tests.support.waiting import until

FRONTS: Final = 2


class ManyProcesses(ServerProcess):
    """A server on SQLite with two fronts. `start` only waits while its supervisor runs."""

    def __init__(self, data: Path, **more: object) -> None:
        super().__init__(data, options=("--processes", str(FRONTS)), **more)  # type: ignore[arg-type]

    async def start(self) -> None:
        if self._process is None or self.exit_code is not None:
            await super().start()
        await until(lambda: len(self.fronts) == FRONTS)
        await self.ready()

    @property
    def owner(self) -> int | None:
        """The process id of the owner, which holds the lock of the data folder."""
        text = (self.data / "lock").read_text().strip()
        return int(text) if text and int(text) in self._children else None

    @property
    def fronts(self) -> list[int]:
        """The process ids of the fronts, the oldest first."""
        owner = self.owner
        return [pid for pid in self._children if pid != owner] if owner else []

    @property
    def _children(self) -> list[int]:
        return children_of(self.pid)

    async def kill_owner(self) -> None:
        """Kill the owner, and wait until there is another one that serves."""
        killed = self.owner
        assert killed is not None, "there is no owner now"
        os.kill(killed, signal.SIGKILL)
        await until(lambda: self.owner not in (None, killed))
        await self.start()

    async def kill_front(self, number: int = 0) -> None:
        """Kill a front, and wait until there is another one."""
        killed = self.fronts[number]
        os.kill(killed, signal.SIGKILL)
        await until(lambda: killed not in self._children)
        await self.start()


def children_of(pid: int) -> list[int]:
    """Return the process ids of the children of a process, the oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
