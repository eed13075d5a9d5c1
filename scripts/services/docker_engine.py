# SPDX-License-Identifier: Apache-2.0
"""Docker: the installed programs, or Debian's packages unpacked into our folder.

The engine runs in namespaces of its own. Its networks, addresses and firewall rules are not those
of the machine, its mounts are seen by nobody else, and its containers end with it. It is reached
by its socket, and the ports that it opens by those who enter its network.
"""

import ctypes
import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

from scripts.services import docker_compose
from scripts.services.debian import obtain_program
from scripts.services.obtaining import Unavailable, program
from scripts.services.process import ServiceProcess

PACKAGE: Final = "docker.io"

_CONFIG: Final = "daemon.json"
_ANSWER_SECONDS_MAX: Final = 5.0
# Programs for the engine keep sockets at fixed places in /run, so the engine has an own /run.
_START: Final = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'


class DockerEngine(ServiceProcess):
    """An engine with its images, volumes and containers in its folder; only root can start it."""

    name: ClassVar[str] = "Docker"

    stop_seconds_max = 120.0  # it stops all containers first

    @property
    def address(self) -> str:
        """The URL for clients, as in `DOCKER_HOST`."""
        return f"unix://{self._socket}"

    @property
    def _socket(self) -> Path:
        return self.folder / "docker.sock"

    def command(self) -> list[str]:
        """Return the command that runs the engine in its namespaces."""
        if os.getuid() != 0:
            raise Unavailable("only root can start Docker")
        engine = obtain_program("dockerd", PACKAGE)
        namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        run = [str(engine), "--config-file", str(self._write_config())]
        return [program("unshare"), *namespaces, "sh", "-c", _START, "sh", *run]

    def environment(self) -> Mapping[str, str]:
        """Return the path on which the engine finds the programs that it needs."""
        places = {str(obtain_program(name, PACKAGE).parent) for name in ("dockerd", "containerd")}
        return {"PATH": ":".join([*sorted(places), os.environ["PATH"]])}

    def client_environment(self) -> Mapping[str, str]:
        """Return the variables with which `docker` and `docker compose` reach this engine."""
        client, settings = obtain_program("docker", PACKAGE), self.folder / "client"
        plugin = settings / "cli-plugins" / docker_compose.PLUGIN
        if not plugin.exists():
            plugin.parent.mkdir(parents=True, exist_ok=True)
            plugin.symlink_to(docker_compose.obtain())
        return {
            "DOCKER_HOST": self.address,
            "DOCKER_CONFIG": str(settings),
            "PATH": f"{client.parent}:{os.environ['PATH']}",
        }

    def answers(self) -> bool:
        """Return whether the engine answers a ping."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_ANSWER_SECONDS_MAX)
                connection.connect(str(self._socket))
                connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return connection.makefile("rb").read().endswith(b"OK")
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the containers and the engine, if they run."""
        if self.is_running:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            for child in children:
                os.kill(int(child), signal.SIGTERM)  # `unshare` passes no signals on
            assert self._process is not None
            self._process.wait(self.stop_seconds_max)
        super().stop()

    @contextmanager
    def network_entered(self) -> Iterator[None]:
        """Move this thread, and what it starts, into the network of the engine and back."""
        with (
            Path("/proc/thread-self/ns/net").open() as own,
            Path(f"/proc/{self.pid}/ns/net").open() as other,
        ):
            _enter(other.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())

    def _write_config(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "hosts": [self.address],
            "data-root": str(self.folder / "data"),
            "exec-root": "/run/docker",
            "pidfile": "/run/docker.pid",
            "oom-score-adjust": 0,  # less than that needs a right that root may lack
        }
        path = self.folder / _CONFIG
        path.write_text(json.dumps(settings))
        return path


def _enter(namespace: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the network")
