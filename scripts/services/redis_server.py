# SPDX-License-Identifier: Apache-2.0
"""Redis: the one on this machine, or Debian's packages unpacked beside us, without installing."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from scripts.services.debian import library_path, obtain_program
from scripts.services.obtaining import FOLDER
from scripts.services.process import HOST, ServiceProcess

PROGRAM: Final = "redis-server"

_ANSWER_SECONDS_MAX: Final = 5.0


def obtain(folder: Path = FOLDER) -> Path:
    """The program."""
    return obtain_program(PROGRAM, PROGRAM, folder)


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
        return library_path(obtain())

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
