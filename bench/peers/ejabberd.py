# SPDX-License-Identifier: Apache-2.0
"""Starts an ejabberd node on its own PostgreSQL, with their own ports and folders, which are
removed afterwards."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.peers.folders import give_file, own_folder, reachable_folder
from bench.peers.packages import Installed
from bench.peers.postgres import ACCOUNT as SQL_ACCOUNT
from bench.peers.postgres import DATABASE, Postgres, own_postgres
from bench.peers.processes import cpu_seconds, free_port, is_listening, running, wait_until
from bench.peers.xmpp import DOMAIN, PASSWORD

ACCOUNT = "ejabberd"
# As it comes, like the Erlang VM. Tried, a few runs each on a busy machine: 4 or 30 connections, no
# prepared statements, schedulers that do not wait busily. None took less time for a message.
SQL_POOL_SIZE = 10
# Only the modules that the load needs: every other one costs ejabberd time per message.
_CONFIG = """\
hosts: [{domain}]
loglevel: warning
listen:
  - port: {port}
    ip: "127.0.0.1"
    module: ejabberd_c2s
    shaper: none
auth_method: [sql]
auth_password_format: plain
default_db: sql
sql_type: pgsql
sql_server: "127.0.0.1"
sql_port: {sql_port}
sql_database: "{database}"
sql_username: "{sql_user}"
sql_password: "{sql_password}"
sql_pool_size: {pool}
modules:
  mod_roster: {{}}
  mod_muc:
    max_users: 5000
    default_room_options:
      mam: {archive}
"""
_ARCHIVE = """\
  mod_mam:
    default: always
"""


class Ejabberd:
    """A running node and its database."""

    def __init__(
        self, port: int, pid: int, postgres: Postgres, log: Path, *, has_archive: bool
    ) -> None:
        self.port = port
        self.postgres = postgres
        self.has_archive = has_archive
        self._pid = pid
        self._log = log

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time, by program."""
        return {
            "ejabberd": cpu_seconds([self._pid]),
            "postgresql": self.postgres.cpu_seconds(),
        }

    def add_users(self, names: Sequence[str]) -> None:
        """Add users with one statement to the table of users, which is faster than one command per
        user."""
        rows = ",".join(f"('{name}','{PASSWORD}')" for name in names)
        self.postgres.run(f"insert into users (username, password) values {rows}")

    def archived(self) -> int:
        """Return the number of rows in the archive."""
        return int(self.postgres.run("select count(*) from archive"))

    def errors(self) -> int:
        """Return the number of errors in the log."""
        return len(re.findall(r" \[(?:error|critical)\] ", self._log.read_text()))


@contextmanager
def own_ejabberd(
    installed: Installed, *, archive: bool, core: int, postgres_core: int
) -> Iterator[Ejabberd]:
    """Start a new node without users; stop it afterwards."""
    with (
        reachable_folder(ACCOUNT, SQL_ACCOUNT) as parent,
        own_postgres(installed, parent, postgres_core) as postgres,
    ):
        folder, port = own_folder(parent, "ejabberd", ACCOUNT), free_port()
        config, log = folder / "ejabberd.yml", folder / "ejabberd.log"
        give_file(config, _config(port, postgres, archive))
        environment = {
            "EJABBERD_CONFIG_PATH": str(config),
            "EJABBERD_LOG_PATH": str(log),
            "ERL_LIBS": str(installed.erlang_libraries),
            "ERL_MAX_PORTS": "32000",
            "ERL_CRASH_DUMP_BYTES": "0",
        }
        with running(
            _command(folder), core=core, account=ACCOUNT, folder=folder, env=environment
        ) as process:
            wait_until(partial(is_listening, port), process, folder)
            yield Ejabberd(port, process.pid, postgres, log, has_archive=archive)


def _command(folder: Path) -> list[str]:
    """Return the command that `ejabberdctl` would run, but without a node name, because no other
    node has to reach this one."""
    spool = f'"{folder / "spool"}"'
    return ["erl", "+K", "true", "+P", "250000", "-noinput", "-mnesia", "dir", spool,
            "-s", "ejabberd"]  # fmt: skip


def _config(port: int, postgres: Postgres, archive: bool) -> str:
    text = _CONFIG.format(
        domain=DOMAIN,
        port=port,
        sql_port=postgres.port,
        database=DATABASE,
        sql_user=SQL_ACCOUNT,
        sql_password=postgres.password,
        pool=SQL_POOL_SIZE,
        archive=str(archive).lower(),
    )
    return text + (_ARCHIVE if archive else "")
