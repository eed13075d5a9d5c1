# SPDX-License-Identifier: Apache-2.0
"""Runs the processes of the other servers: on a chosen core, under their own account, with their
CPU time measured."""

import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20
OUTPUT_LOG = "output.log"


class PeerError(Exception):
    """Another server could not be obtained, started or queried."""


@contextmanager
def running(
    command: Sequence[str],
    *,
    core: int,
    account: str | None,
    folder: Path,
    env: Mapping[str, str],
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server while the `with` block runs; its output goes into its folder.

    Without an account, it runs under ours.
    """
    # It gets the signal too if this process dies without having come to its `finally`.
    on_death = ["setpriv", "--pdeathsig", stop_signal.name.removeprefix("SIG")]
    with (folder / OUTPUT_LOG).open("ab") as output:
        process = subprocess.Popen(
            [*on_death, "taskset", "--cpu-list", str(core), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**_base_environment(folder), **env},
            **_identity(account),
            start_new_session=True,  # Ctrl-C is for the benchmark, which stops this one in order
        )
    try:
        yield process
    finally:
        process.send_signal(stop_signal)
        _wait_for_end(process)


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def output_of(
    command: Sequence[str],
    *,
    account: str | None,
    folder: Path,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """Run a command to its end under an account; return its output."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**_base_environment(folder), **(env or {})},
        **_identity(account),
    )
    if done.returncode:
        raise PeerError(f"{Path(command[0]).name} failed:\n{done.stderr or done.stdout}")
    return done.stdout


def _identity(account: str | None) -> dict[str, Any]:
    """Return the arguments with which a process runs under an account, if we may choose it."""
    if account is None or not is_root():
        return {}
    return {"user": user_id(account), "group": group_id(account), "extra_groups": []}


def _base_environment(folder: Path) -> dict[str, str]:
    """Return an environment without the caller's variables, which could change the measurement."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(
    is_ready: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path
) -> None:
    """Wait until a started server is ready."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if is_ready():
            return
        time.sleep(0.1)
    output = (folder / OUTPUT_LOG).read_text(errors="replace")
    raise PeerError(f"{process.args!r} did not start:\n{output[-2000:]}")


def is_listening(port: int) -> bool:
    """Return whether a loopback port accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of these processes, and of the children that they have waited for."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue  # ended just now: its parent has its time
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def with_children(pid: int) -> list[int]:
    """Return a process and its direct children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def is_root() -> bool:
    """Return whether processes can run under other accounts; if not, all run under this account."""
    return os.geteuid() == 0


def user_id(account: str) -> int:
    return pwd.getpwnam(account).pw_uid


def group_id(account: str) -> int:
    return pwd.getpwnam(account).pw_gid
