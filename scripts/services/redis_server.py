# SPDX-License-Identifier: Apache-2.0
"""Redis: the installed program, or Debian's packages unpacked into our folder."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from scripts.services.debian import library_path, obtain_program
from scripts.services.obtaining import FOLDER
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess

PROGRAM: Final = "redis-server"

_ANSWER_SECONDS_MAX: Final = 5.0


def obtain(folder: Path = FOLDER) -> Path:
    """Return the path of the program; obtain it if necessary."""
    return obtain_program(PROGRAM, PROGRAM, folder)


class RedisServer(ServiceProcess):
    """Redis with all data in memory; a restart deletes it."""

    name: ClassVar[str] = "Redis"

    @property
    def address(self) -> str:
        """The URL for clients."""
        return f"redis://{HOST}:{self.port}/0"

    def command(self) -> list[str]:
        """Return the command that runs Redis without writing to the disk."""
        memory_only = ["--save", "", "--appendonly", "no"]
        place = ["--bind", HOST, "--dir", str(self.folder)]
        return [str(obtain()), *place, *memory_only, *self.options()]

    def options(self) -> list[str]:
        """Return the options for the address, and those of this kind of server."""
        return ["--port", str(self.port)]

    def environment(self) -> Mapping[str, str]:
        """Return the path of the libraries that were unpacked with the program."""
        return library_path(obtain())

    def answers(self) -> bool:
        """Return whether the server answers a ping, even with a refusal because of a missing
        password."""
        try:
            return self.ask("PING").startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def ask(self, command: str) -> bytes:
        """Return the first line of the answer to a command, or the whole text if it has several
        lines."""
        with self.connect() as connection:
            connection.sendall(f"{command}\r\n".encode())
            answer = connection.makefile("rb")
            line = answer.readline()
            return answer.read(int(line[1:])) if line.startswith(b"$") else line

    def connect(self) -> socket.socket:
        """Return a connection to the server."""
        return socket.create_connection((HOST, self.port), _ANSWER_SECONDS_MAX)
