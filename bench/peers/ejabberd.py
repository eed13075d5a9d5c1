# SPDX-License-Identifier: Apache-2.0
"""Starts an ejabberd node on its own PostgreSQL, with their own ports and folders, which are
removed afterwards."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.peers.folders import give_file, own_folder, reachable_folder
from bench.peers.member import Member, Ping, Server
from bench.peers.outcome import Rows
from bench.peers.packages import Installed
from bench.peers.postgres import ACCOUNT as SQL_ACCOUNT
from bench.peers.postgres import DATABASE, Postgres, own_postgres
from bench.peers.processes import cpu_seconds, free_port, is_listening, running, wait_until
from bench.peers.xmpp import DOMAIN, PASSWORD, in_pair, in_room, log_in, ping
from bench.server import SERVER_CORE

ACCOUNT = "ejabberd"
# As it comes, like the Erlang VM. Tried, a few runs each on a busy machine: 4 or 30 connections, no
# prepared statements, schedulers that do not wait busily. None took less time for a message.
SQL_POOL_SIZE = 10
# Only the modules that the load needs: every other one costs ejabberd time per message. The archive
# of a room that is not persistent is deleted when its last member leaves.
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
      persistent: true
      mam: {archive}
"""
_ARCHIVE = """\
  mod_mam:
    default: always
"""


class Ejabberd(Server):
    """A running node and its database."""

    copies_to_sender = 1

    def __init__(
        self, port: int, pid: int, postgres: Postgres, log: Path, *, has_archive: bool
    ) -> None:
        self._port = port
        self._postgres = postgres
        self._has_archive = has_archive
        self._pid = pid
        self._log = log
        self._users = 0
        self._rooms = 0

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time, by program."""
        return {
            "ejabberd": cpu_seconds([self._pid]),
            "postgresql": self._postgres.cpu_seconds(),
        }

    async def pairs(self, count: int) -> list[tuple[Member, Member]]:
        """Log in both users of every pair. A message is completed when it has reached the other
        user."""
        users = [await log_in(self._port, name) for name in self._new_users(2 * count)]
        return [
            (in_pair(left, right), in_pair(right, left))
            for left, right in zip(users[::2], users[1::2], strict=True)
        ]

    async def group(self, size: int, senders: int) -> list[Member]:
        """Log in all users and enter a new room."""
        del senders  # every user can send
        self._rooms += 1
        room = f"room{self._rooms}@conference.{DOMAIN}"
        return [await in_room(self._port, name, room) for name in self._new_users(size)]

    async def ping(self) -> Ping:
        """Create a user who pings."""
        return ping(self._port, self._new_users(1)[0])

    def rows(self, sent_to_pairs: int, sent_to_group: int) -> Rows | None:
        """Compare the archive with what was sent: each user of a pair has a row of a message, and
        the room has one for all."""
        expected = 2 * sent_to_pairs + sent_to_group if self._has_archive else 0
        return Rows(
            expected=expected, found=int(self._postgres.run("select count(*) from archive"))
        )

    def errors(self) -> int:
        """Return the number of errors in the log."""
        return len(re.findall(r" \[(?:error|critical)\] ", self._log.read_text()))

    def settings(self) -> dict[str, str]:
        """Return the settings of PostgreSQL that decide whether a commit is durable."""
        return self._postgres.settings()

    def _new_users(self, count: int) -> list[str]:
        """Add users with one statement to the table of users, which is faster than one command per
        user."""
        names = [f"u{number}" for number in range(self._users, self._users + count)]
        self._users += count
        rows = ",".join(f"('{name}','{PASSWORD}')" for name in names)
        self._postgres.run(f"insert into users (username, password) values {rows}")
        return names


@contextmanager
def own_ejabberd(installed: Installed, *, archive: bool) -> Iterator[Ejabberd]:
    """Start a new node without users; stop it afterwards."""
    with (
        reachable_folder(ACCOUNT, SQL_ACCOUNT) as parent,
        own_postgres(installed.postgres_bin, parent, SERVER_CORE) as postgres,
    ):
        postgres.run(installed.ejabberd_schema.read_text())
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
            _command(folder), core=SERVER_CORE, account=ACCOUNT, folder=folder, env=environment
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
