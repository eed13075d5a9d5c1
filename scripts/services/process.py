# SPDX-License-Identifier: Apache-2.0
"""Runs a service as a process: starts it and waits for its answer, stops, kills and pauses it."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from scripts.services.ports import free_port

LOG_FILE: Final = "service.log"
START_SECONDS_MAX: Final = 120.0
"""Maximum time of a start. The first start of a Java service on a busy machine takes long."""
STOP_SECONDS_MAX: Final = 20.0

_POLL_SECONDS: Final = 0.02
_LINE_CHARACTERS_MAX: Final = 300
# A killed test run cannot clean up. This shell waits for the end of its input, which ends with the
# test run in any case, and then kills the service.
_GUARD: Final = 'read -r _; kill -9 "$1"'


class ServiceDied(Exception):
    """The process ended, or did not start or stop in time; the text names its log."""


class Service(ABC):
    """A service that runs from `start` to `stop`, or inside a `with` block."""

    name: ClassVar[str]

    @abstractmethod
    def start(self) -> None:
        """Start the service and wait until it answers."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the service, if it runs."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class ServiceProcess(Service):
    """A service with a data folder and, while it runs, a process.

    All methods block; in an event loop, call them with `asyncio.to_thread`. If `guarded` is true,
    the service ends together with the process that started it, even if that process is killed.
    Otherwise the service continues.
    """

    start_seconds_max: float = START_SECONDS_MAX
    stop_seconds_max: float = STOP_SECONDS_MAX

    def __init__(self, folder: Path, port: int | None = None, *, guarded: bool = True) -> None:
        self.folder = folder.absolute()
        self.port = free_port() if port is None else port
        """The port, which is the same at every start."""
        self._guarded = guarded
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """The address for clients."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the service accepts requests now."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command to run; obtain the program if necessary."""

    @property
    def pid(self) -> int:
        """The process id of the running service."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log_file(self) -> Path:
        """File with the output of the process, from all starts."""
        return self.folder / LOG_FILE

    @property
    def is_running(self) -> bool:
        """Whether the process exists, even if it is paused."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the service and wait until it answers."""
        assert not self.is_running, "still running"
        command = self.command()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(os.environ) | dict(self.environment()),
                cwd=self.folder,
                start_new_session=not self._guarded,
            )
        if self._guarded:
            guard = ["sh", "-c", _GUARD, "guard", str(self.pid)]
            self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE)
        try:
            self._wait_for_answer()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Send SIGTERM and wait for the end of the process; do nothing if it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # a paused process does not handle SIGTERM
        try:
            self._process.wait(self.stop_seconds_max)
        except subprocess.TimeoutExpired:
            raise ServiceDied(
                f"{self.name} did not end within {self.stop_seconds_max:g} s and was killed; "
                f"its log is {self.log_file}"
            ) from None
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self._process is None:
            return
        self._dismiss_guard()
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop the service if it runs, and start it again with the same data and port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Pause the process with SIGSTOP: its connections stay open, but nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables of the process, in addition to ours."""
        return {}

    def _wait_for_answer(self) -> None:
        began = time.monotonic()
        while not self.answers():
            waited = time.monotonic() - began
            if not self.is_running:
                what = f"ended {waited:.0f} s after its start"
            elif waited > self.start_seconds_max:
                what = f"did not answer within {self.start_seconds_max:g} s"
            else:
                time.sleep(_POLL_SECONDS)
                continue
            raise ServiceDied(
                f"{self.name} {what}; its log is {self.log_file} and ends with: {self._last_line()}"
            )

    def _last_line(self) -> str:
        lines = self.log_file.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")[:_LINE_CHARACTERS_MAX]

    def _dismiss_guard(self) -> None:
        if self._guard is None:
            return
        assert self._guard.stdin is not None
        self._guard.kill()  # first, because at the end of its input it would kill the service
        self._guard.wait()
        self._guard.stdin.close()
        self._guard = None
