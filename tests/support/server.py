# SPDX-License-Identifier: Apache-2.0
"""Runs the real server as a process: starts, kills and restarts it on the same port."""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from scripts.services.ports import free_port
from tests.support.server_fork import ForkedProcess, start_server
from tests.support.short_waits import SHORT_WAITS
from tests.support.waiting import WAIT_SECONDS, until

START_SECONDS_MAX: Final = 90.0
STOP_SECONDS_MAX: Final = 30.0
LOG_FILE: Final = "server.log"
WELCOME_FILE: Final = "welcome.txt"
PROCESSES: Final = "TEST_PROCESSES"
"""Variable with the number of processes that hold the sockets of each server on SQLite."""
NO_LIMITS: Final[Mapping[str, str]] = {"TIDINGS_LIMITS": "off"}
"""Settings for tests whose load exceeds the rate limits."""


class ServerDied(Exception):
    """The process ended before it was ready; the text has its exit code and its last output."""


class ServerProcess:
    """A data folder and, while it runs, the server process on it.

    `environment` is added to an environment without any other `TIDINGS_*`; `launcher` is a script
    that runs the command line in place of `-m tidings`; `preload` is a library for LD_PRELOAD;
    `options` are further options of `tidings serve`; `waits` are the names of waits that are
    shorter than in a deployment, see `short_waits`.
    """

    def __init__(
        self,
        data: Path,
        *,
        environment: Mapping[str, str] | None = None,
        launcher: Path | None = None,
        preload: Path | None = None,
        port: int | None = None,
        options: Sequence[str] = (),
        waits: str = "",
    ) -> None:
        self.data = data
        self._options = tuple(options)
        self.environment = {**(environment or {}), SHORT_WAITS: waits}
        self.launcher = launcher
        self.preload = preload
        self.port = free_port() if port is None else port
        """The port, which is the same at every start."""
        self._process: ForkedProcess | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        scheme = "https" if "TIDINGS_TLS_CERT" in self.environment else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def root_key(self) -> str:
        """The root key that the first start created."""
        return (self.data / "root.key").read_text().strip()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative after a signal; None while the process runs."""
        assert self._process is not None, "not started"
        return self._process.poll()

    async def start(self) -> None:
        """Start the process and wait until it can serve."""
        self.launch()
        try:
            await self.ready()
        except BaseException:
            await self.kill()
            raise

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        assert self._process is None or self._process.poll() is not None, "still running"
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A killed server leaves this file behind; wait for the file of the new server instead.
        (self.data / "server.json").unlink(missing_ok=True)
        welcome, log = self.data / WELCOME_FILE, self.data / LOG_FILE
        welcome.write_bytes(b"")
        log.touch()
        # The working folder is the data folder, which contains no tidings.toml of a developer.
        self._process = start_server(
            self._arguments(),
            self._environment(),
            self.data.absolute(),
            welcome,
            log,
            self.launcher,
            self.preload,
        )

    async def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            await self.exited()

    async def terminate(self) -> int:
        """Send SIGTERM, and return the exit code."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGTERM)
        return await self.exited()

    async def exited(self, seconds: float = STOP_SECONDS_MAX) -> int:
        """Wait until the process has ended; return its exit code."""
        await until(lambda: self.exit_code is not None, seconds=seconds)
        code = self.exit_code
        assert code is not None
        return code

    async def restart(self) -> None:
        """Kill the process if it still runs, and start it again on the same folder and port."""
        await self.kill()
        await self.start()

    def log_lines(self) -> list[dict[str, Any]]:
        """Return the log of all starts; a line that is not JSON is returned as `{"text": ...}`."""
        text = (self.data / LOG_FILE).read_text(errors="replace")
        return [_log_line(line) for line in text.splitlines() if line.strip()]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.exit_code is not None:
            return
        try:
            await self.terminate()
        finally:
            await self.kill()

    def _arguments(self) -> list[str]:
        place = ["--port", str(self.port), "--data", str(self.data.absolute())]
        return ["serve", *place, *_processes(self.environment), *self._options]

    def _environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("TIDINGS_")}
        # By default, tests do not wait for open connections to drain.
        kept["TIDINGS_DRAIN_SECONDS"] = "0"
        return kept | {"PYTHONFAULTHANDLER": "1"} | self.environment

    async def ready(self) -> None:
        """Wait until the process can serve."""
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=WAIT_SECONDS) as client:
            await until(
                lambda: self._is_ready(client), describe=self._last_words, seconds=START_SECONDS_MAX
            )

    def _last_words(self) -> str:
        return (self.data / LOG_FILE).read_text(errors="replace")[-2_000:]

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        if (code := self.exit_code) is not None:
            raise ServerDied(f"exit code {code}: {self._last_words()}")
        try:
            told = json.loads((self.data / "server.json").read_text())
            answer = await client.get(f"{told['url']}/readyz")
        except (OSError, ValueError, httpx.TransportError):
            return False
        return answer.status_code == 200


def _processes(environment: Mapping[str, str]) -> list[str]:
    """Return the option with which all suites run on several processes, if `TEST_PROCESSES` is set.

    On DynamoDB, several processes need Kafka and Redis.
    """
    number = os.environ.get(PROCESSES, "")
    is_embedded = environment.get("TIDINGS_STORE", "sqlite") == "sqlite"
    return ["--processes", number] if number and is_embedded else []


def _log_line(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        return {"text": text}
    return line if isinstance(line, dict) else {"text": text}
