# SPDX-License-Identifier: Apache-2.0
"""A service as a process: started until it answers, stopped, killed, paused, started again."""

import itertools
import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

HOST: Final = "127.0.0.1"
LOG_FILE: Final = "service.log"
START_SECONDS_MAX: Final = 120.0
"""A busy machine takes most of it for the first start of a Java service."""
STOP_SECONDS_MAX: Final = 20.0

_POLL_SECONDS: Final = 0.02
_LINE_CHARACTERS_MAX: Final = 300
# Below what the system hands out for outgoing connections. A client that keeps trying the port of
# a stopped service would otherwise be given that very port one day, and connect to itself.
_PORTS: Final = range(20_000, 30_000)
# One after the other from anywhere: a port whose service is between two starts is not handed out
# again by this process, and hardly by another one on the same machine.
_first: Final = random.randrange(len(_PORTS))
_next_ports: Final[Iterator[int]] = itertools.cycle((*_PORTS[_first:], *_PORTS[:_first]))
# A test run that is killed cannot clean up. The shell waits for the end of its input, which comes
# with the end of the run however it ends, and takes the service with it.
_GUARD: Final = 'read -r _; kill -9 "$1"'


class ServiceDied(Exception):
    """The process ended, or did not start or stop in time; one line that names its log."""


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection will be given."""
    for port in itertools.islice(_next_ports, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")


class Service(ABC):
    """Something that runs from `start` to `stop`, or for as long as a `with` block lasts."""

    name: ClassVar[str]

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it, if it runs."""

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
    """One folder with the data of a service and the process on it, if one runs.

    All methods block; in an event loop call them with `asyncio.to_thread`. With `guarded` the
    service ends with the process that started it, even if that one is killed; without, it stays.
    """

    start_seconds_max: float = START_SECONDS_MAX
    stop_seconds_max: float = STOP_SECONDS_MAX

    def __init__(self, folder: Path, port: int | None = None, *, guarded: bool = True) -> None:
        self.folder = folder.absolute()
        self.port = free_port() if port is None else port
        """The same over all starts."""
        self._guarded = guarded
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """What a client is told to find it."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it takes requests now."""

    @abstractmethod
    def command(self) -> list[str]:
        """What to run; obtains it if need be."""

    @property
    def pid(self) -> int:
        """The process id of the running service."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log_file(self) -> Path:
        """What the process prints, over all starts."""
        return self.folder / LOG_FILE

    @property
    def is_running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers."""
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
        """SIGTERM, and wait for the end; nothing happens if it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # a paused one would not hear the first
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
        """SIGKILL: no goodbye, no flush."""
        if self._process is None:
            return
        self._dismiss_guard()
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop it if it runs, and start again on the same data and port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def environment(self) -> Mapping[str, str]:
        """What the process needs besides our own environment."""
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
        self._guard.kill()  # before its input ends, or it would do its work
        self._guard.wait()
        self._guard.stdin.close()
        self._guard = None
