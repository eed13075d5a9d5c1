# SPDX-License-Identifier: Apache-2.0
"""Starts a server for a benchmark, pinned to one core and with a temporary data folder."""

import asyncio
import http.client
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bench.peers.processes import with_children
from tidings.certificates import trust_only

SERVER_CORE: Final = 0
LOAD_CORE: Final = 1
PROGRAM: Final = "tidings"
"""The module that is run as the server."""
START_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.002
OUTPUT: Final = Path(".bench")
"""Folder for results, and for data while a benchmark runs. It is on the disk of the clone: if
temporary files are in memory, an fsync costs nothing."""


class Target(msgspec.Struct, frozen=True):
    """A running server and its root key."""

    url: str
    root_key: str
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU time that all processes of the server have used."""
        return sum(self.cpu_by_process())

    def cpu_by_process(self) -> list[float]:
        """Return the CPU time that each process of the server has used."""
        return [_cpu_seconds(pid) for pid in with_children(self.pid)]

    def resident_bytes(self) -> int:
        """Return the resident memory of the server; what its processes share counts once."""
        pids = with_children(self.pid)
        if len(pids) == 1:
            fields = Path(f"/proc/{self.pid}/statm").read_text().split()
            return int(fields[1]) * resource.getpagesize()
        return sum(_share_bytes(pid) for pid in pids)

    def own_bytes(self) -> int:
        """Return the resident memory of the server without pages of files, which the system may
        drop at any time."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * resource.getpagesize()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _share_bytes(pid: int) -> int:
    """Return the memory of a process, of which shared pages are divided among their users."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@contextmanager
def own_folder() -> Iterator[Path]:
    """Create a temporary folder for data."""
    OUTPUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", dir=OUTPUT) as folder:
        yield Path(folder).absolute()


@asynccontextmanager
async def own_server(
    data: Path | None = None,
    settings: Mapping[str, str] | None = None,
    module: str = PROGRAM,
) -> AsyncIterator[Target]:
    """Start a server on its own core, and stop it afterwards; without a folder, it starts with an
    empty one."""
    if data is None:
        with own_folder() as folder:
            async with own_server(folder / "data", settings, module) as target:
                yield target
        return
    process = await launch(data, settings, module=module)
    try:
        yield await ready(data, process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def launch(
    data: Path,
    settings: Mapping[str, str] | None = None,
    core: int | None = SERVER_CORE,
    module: str = PROGRAM,
) -> asyncio.subprocess.Process:
    """Start the process without waiting; it stays on the given core."""
    # A killed server leaves it behind, and only the new one may say where it is.
    (data / "server.json").unlink(missing_ok=True)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TIDINGS_")}
    usual = {
        "TIDINGS_DRAIN_SECONDS": "0",
        "TIDINGS_LOG_LEVEL": "warning",
        "TIDINGS_LIMITS": "off",
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, "serve", "--port", "0", "--data", str(data),
        stdout=asyncio.subprocess.DEVNULL,
        env=kept | usual | dict(settings or {}),
        preexec_fn=None if core is None else on_core(core),
    )  # fmt: skip


async def ready(
    data: Path, process: asyncio.subprocess.Process, root_key: str | None = None
) -> Target:
    """Wait until the server is ready. Unless `root_key` is given, the root key is read from the
    data folder."""
    async with asyncio.timeout(START_SECONDS_MAX):
        while (url := _ready_at(data)) is None:
            if process.returncode is not None:
                raise SystemExit("the server did not start")
            await asyncio.sleep(POLL_SECONDS)
    return Target(url, root_key or (data / "root.key").read_text().strip(), process.pid)


def _ready_at(data: Path) -> str | None:
    try:
        told = json.loads((data / "server.json").read_text())
    except (OSError, ValueError):
        return None
    url = str(told["url"])
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        trust = trust_only(told["certificate"])
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, parts.port, timeout=5, context=trust
        )
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return url if connection.getresponse().status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()


def pin_load() -> None:
    """Keep this process off the server's core, if the machine has more than one core."""
    if (on_load_core := on_core(LOAD_CORE)) is not None:
        on_load_core()


def unpin() -> None:
    """Let this process, and those that it starts from now on, run on any core."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def on_core(core: int) -> Callable[[], None] | None:
    """Return a function that a process calls to stay on a core; None if the machine has only one
    core."""
    if (os.cpu_count() or 1) < 2:
        return None
    return lambda: os.sched_setaffinity(0, {core})
