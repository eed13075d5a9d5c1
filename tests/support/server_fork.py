# SPDX-License-Identifier: Apache-2.0
"""Starts servers and commands by forking one process that has imported the program already.

A start spends most of its time on imports, and the tests start hundreds of servers. The forked
process is one like any other: it has its own environment, folder, output and exit code, and
runs the same command line. It ends when the test run ends, however that ends.

`python -m tests.support.server_fork` reads a JSON object per line from its input, each a process to
start, and writes one per line: `{"started": pid}`, and `{"ended": pid, "code": code}` afterwards.
"""

import atexit
import faulthandler
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec


class Start(msgspec.Struct):
    """A process to start."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    stdout: str
    stderr: str
    stdin: str = os.devnull
    launcher: str = ""
    """A script that runs in place of the command line; it may change the program before."""


class ForkedProcess:
    """A process that the fork server started; used like a `subprocess.Popen`."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self._server = server
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit code, negative if a signal ended it; None while it runs."""
        return self._server.exit_code(self.pid)

    def send_signal(self, number: int) -> None:
        """Send the signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that is forked; it is started together with the first server.

    `preload` is a library for LD_PRELOAD, which stands before all others in the forks too.
    """

    def __init__(self, preload: Path | None = None) -> None:
        self._more = {} if preload is None else {"LD_PRELOAD": str(preload)}
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._codes: dict[int, int] = {}

    def start(self, start: Start) -> ForkedProcess:
        """Start a process, without waiting until it is ready."""
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(start) + b"\n")
        process.stdin.flush()
        while True:
            for said in self._lines(timeout=None):
                if "started" in said:
                    return ForkedProcess(self, said["started"])

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a process that has ended."""
        for _ in self._lines(timeout=0):
            pass
        return self._codes.get(pid)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.server_fork"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[2],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    **self._more,
                },
            )
            atexit.register(self._stop)
        return self._process

    def _stop(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _lines(self, timeout: float | None) -> list[dict[str, int]]:
        """Return what the fork server has written since the last call."""
        assert self._process is not None and self._process.stdout is not None
        output = self._process.stdout.fileno()
        if not select.select([output], [], [], timeout)[0]:
            return []
        read = os.read(output, 1 << 16)
        assert read, "the fork server has ended"
        *lines, self._unread = (self._unread + read).split(b"\n")
        said: list[dict[str, int]] = [json.loads(line) for line in lines]
        for one in said:
            if "started" in one:
                self._codes.pop(one["started"], None)  # of an earlier process with this number
            else:
                self._codes[one["ended"]] = one["code"]
        return said


fork_server: Final = cache(ForkServer)
"""Returns the process that is forked, for each library that is preloaded."""


def start_server(
    arguments: list[str],
    environment: Mapping[str, str],
    folder: Path,
    stdout: Path,
    stderr: Path,
    launcher: Path | None = None,
    preload: Path | None = None,
) -> ForkedProcess:
    """Start `tidings`, or the launcher, with these arguments; append its output to the files."""
    start = Start(arguments, dict(environment), str(folder), str(stdout), str(stderr))
    start.launcher = str(launcher or "")
    return fork_server(preload).start(start)


# The forked process.


def main() -> None:
    """Import the program, then start a process for each line of input, and report their ends."""
    _import_program()
    wake, waker = os.pipe()
    for end in (wake, waker):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process ends when its input ends
    children: set[int] = set()
    unread = b""
    while True:
        readable = select.select([sys.stdin.fileno(), wake], [], [])[0]
        if wake in readable:
            os.read(wake, 1 << 10)
            _report_ends(children)
        if sys.stdin.fileno() in readable:
            read = os.read(sys.stdin.fileno(), 1 << 16)
            if not read:
                break
            *lines, unread = (unread + read).split(b"\n")
            for line in lines:
                children.add(_fork(msgspec.json.decode(line, type=Start)))
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _import_program() -> None:
    import encodings.idna  # noqa: F401

    import uvloop  # noqa: F401
    from starlette.routing import compile_path

    import tests.support.short_waits  # noqa: F401
    import tidings.assembly.server
    import tidings.cli.command_line
    import tidings.stores.dynamodb.store  # noqa: F401
    from tests.support.ready_credentials import give_credentials_at_once
    from tests.support.ready_schema import copy_schema_into_new_stores
    from tidings.api.app import OPERATIONS

    if "LD_PRELOAD" not in os.environ:  # a library before the disk sees how the schema is made
        copy_schema_into_new_stores(ready=True)
    give_credentials_at_once()
    for one in OPERATIONS:
        compile_path(one.path)  # the module for regular expressions remembers them
    gc.collect()
    gc.freeze()  # what is shared stays shared


def _report_ends(children: set[int]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            children.discard(pid)
            _say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _fork(start: Start) -> int:
    pid = os.fork()
    if pid == 0:
        _become(start)
    _say({"started": pid})
    return pid


def _become(start: Start) -> NoReturn:
    """Turn this fork into the requested process; never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.unfreeze()
        _redirect(start)
        faulthandler.enable()
        os.environ.clear()
        os.environ.update(start.environment)
        os.chdir(start.folder)
        sys.argv = ["tidings", *start.arguments]

        from tests.support.short_waits import shorten_waits
        from tidings.cli.command_line import main as tidings

        shorten_waits()
        if start.launcher:
            runpy.run_path(start.launcher, run_name="__main__")  # ends with its exit code
        else:
            code = tidings(start.arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(start: Start) -> None:
    """Redirect input and output for the process, and close all other files."""
    opened = (
        os.open(start.stdin, os.O_RDONLY),
        os.open(start.stdout, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666),
        os.open(start.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666),
    )
    for number, descriptor in enumerate(opened):
        os.dup2(descriptor, number)
    os.closerange(3, 256)


def _say(what: dict[str, Any]) -> None:
    os.write(sys.stdout.fileno(), json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main()
