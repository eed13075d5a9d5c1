# SPDX-License-Identifier: Apache-2.0
"""Runs a PostgreSQL cluster with its own folder and port, and with the default durability."""

import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.folders import give_file, own_folder
from bench.peers.processes import (
    cpu_seconds,
    free_port,
    output_of,
    running,
    wait_until,
    with_children,
)

ACCOUNT = "postgres"
DATABASE = "bench"
# Asked of the running server, so that the report says what was true.
_ASKED = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")


class Postgres:
    """A running cluster."""

    def __init__(self, programs: Path, folder: Path, port: int, password: str, pid: int) -> None:
        self.port = port
        self.password = password
        self._programs = programs
        self._folder = folder
        self._pid = pid

    def is_ready(self) -> bool:
        """Return whether the server answers queries; it listens a little earlier."""
        done = subprocess.run(self._command("pg_isready", "--quiet"), check=False)
        return done.returncode == 0

    def run(self, sql: str, database: str = DATABASE) -> str:
        """Run a statement; return the rows as plain text."""
        options = ("--no-psqlrc", "--quiet", "--tuples-only", "--no-align")
        where = (f"--username={ACCOUNT}", f"--dbname={database}")
        return output_of(
            self._command("psql", "--set=ON_ERROR_STOP=1", *options, *where),
            account=ACCOUNT,
            folder=self._folder,
            env={"PGPASSWORD": self.password},
            text=sql,
        ).strip()

    def _command(self, program: str, *options: str) -> list[str]:
        where = ("--host=127.0.0.1", f"--port={self.port}")
        return [str(self._programs / program), *where, *options]

    def settings(self) -> dict[str, str]:
        """Return the settings that decide whether a commit survives a power failure."""
        return {name: self.run(f"show {name}") for name in _ASKED}

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server and of all its processes."""
        return cpu_seconds(with_children(self._pid))


@contextmanager
def own_postgres(programs: Path, parent: Path, core: int) -> Iterator[Postgres]:
    """Start a new cluster with an empty database on one core; stop it afterwards."""
    folder, port, password = own_folder(parent, "pg", ACCOUNT), free_port(), secrets.token_hex(16)
    data = folder / "data"
    give_file(folder / "password", password)
    initdb = str(programs / "initdb")
    form = ("--encoding=UTF8", "--no-locale", f"--username={ACCOUNT}", f"--pgdata={data}")
    access = ("--auth=scram-sha-256", f"--pwfile={folder / 'password'}")
    output_of([initdb, *form, *access], account=ACCOUNT, folder=folder)
    settings = {
        "port": str(port),
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "fsync": "on",
        "synchronous_commit": "on",
    }
    flags = [f"--{name}={value}" for name, value in settings.items()]
    command = [str(programs / "postgres"), "-D", str(data), *flags]
    with running(
        command, core=core, account=ACCOUNT, folder=folder, env={}, stop_signal=signal.SIGINT
    ) as process:
        postgres = Postgres(programs, folder, port, password, process.pid)
        wait_until(postgres.is_ready, process, folder)
        postgres.run(f"create database {DATABASE}", database="postgres")
        yield postgres
