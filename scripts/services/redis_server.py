# SPDX-License-Identifier: Apache-2.0
"""Redis: the one on this machine, or Debian's packages unpacked beside us, without installing."""

import os
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from scripts.services.obtaining import FOLDER, Unavailable, kept, program, run
from scripts.services.process import HOST, ServiceProcess

PROGRAM: Final = "redis-server"

_ANSWER_SECONDS_MAX: Final = 5.0


def obtain(folder: Path = FOLDER) -> Path:
    """The program, with its libraries somewhere below the same folder if we unpacked it."""
    installed = shutil.which(PROGRAM)
    if installed is not None:
        return Path(installed)
    return kept(folder / "redis", _build) / "usr" / "bin" / PROGRAM


class RedisServer(ServiceProcess):
    """A Redis that keeps everything in memory: after a restart it is empty."""

    name: ClassVar[str] = "Redis"

    @property
    def address(self) -> str:
        """The URL for a client."""
        return f"redis://{HOST}:{self.port}/0"

    def command(self) -> list[str]:
        """The program, told to write nothing to disk."""
        memory_only = ["--save", "", "--appendonly", "no"]
        place = ["--bind", HOST, "--dir", str(self.folder)]
        return [str(obtain()), *place, *memory_only, *self.options()]

    def options(self) -> list[str]:
        """Where it listens, and what not every Redis is told."""
        return ["--port", str(self.port)]

    def environment(self) -> Mapping[str, str]:
        """Where the libraries are that were unpacked with the program."""
        path = obtain()
        if FOLDER not in path.parents:
            return {}
        libraries = {str(file.parent) for file in path.parents[1].glob("lib/*/*.so*")}
        return {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}

    def answers(self) -> bool:
        """Whether it answers a ping, be it that nobody may ping without a password."""
        try:
            return self.ask("PING").startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def ask(self, command: str) -> bytes:
        """The first line of the answer to a command, or all of it if it is a text of several."""
        with self.connect() as connection:
            connection.sendall(f"{command}\r\n".encode())
            answer = connection.makefile("rb")
            line = answer.readline()
            return answer.read(int(line[1:])) if line.startswith(b"$") else line

    def connect(self) -> socket.socket:
        """A connection to it."""
        return socket.create_connection((HOST, self.port), _ANSWER_SECONDS_MAX)


def _build(folder: Path) -> None:
    """Unpack the packages that apt would install; it checks what it downloads."""
    apt = program("apt-get")
    for package in _missing_packages(apt, folder):
        run([apt, "download", package], folder)
    for archive in folder.glob("*.deb"):
        run([program("dpkg-deb"), "--extract", str(archive), str(folder)], folder)
        archive.unlink()


def _missing_packages(apt: str, folder: Path) -> list[str]:
    simulate = [apt, "install", "--simulate", "--no-install-recommends", PROGRAM]
    try:
        told = run(simulate, folder)
    except Unavailable:
        if os.getuid() != 0:
            raise
        run([apt, "update"], folder)  # a fresh container has no list of packages yet
        told = run(simulate, folder)
    return re.findall(r"^Inst (\S+)", told, re.MULTILINE)
