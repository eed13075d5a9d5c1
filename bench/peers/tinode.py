# SPDX-License-Identifier: Apache-2.0
"""Tinode on its own PostgreSQL: chats over WebSockets, with membership, receipts and history."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.peers.folders import reachable_folder
from bench.peers.member import NUMBER, Member, Receipt, Server
from bench.peers.outcome import Rows
from bench.peers.postgres import ACCOUNT, Postgres, own_postgres
from bench.peers.processes import (
    cpu_seconds,
    free_port,
    is_listening,
    output_of,
    running,
    wait_until,
)
from bench.peers.wire import Connection, connect, number_after
from bench.server import SERVER_CORE
from bench.websocket import text_frame, upgrade_request
from scripts.services.go_programs import GoModule
from tidings.tools.load_talker import CONTENT

MODULE: Final = GoModule(
    "github.com/tinode/chat",
    "v0.22.13",
    "h1:Qrx9+ks6glQTNkCsmgaEYneLqloQtNcd6OmAmWNtmnU=",
    {"tinode": "./server", "tinode-db": "./tinode-db"},
    tags="postgres",
)
DATABASE: Final = "tinode"
POOL: Final = 16
"""Number of connections to PostgreSQL. It is part of the address, because the server ignores its
own setting."""

# These are those of the server's example, and public.
_PATH: Final = "/v0/channels?apikey=AQEAAAABAAD_rAp4DJh05a1HAwFT3A6K"
_SALT: Final = "T713/rYYgW7g4m3vG6zGRh7+FM1t0T8j13koXScOAj4="
_TOKEN_KEY: Final = "wfaY2RgF2S1OQI/ZlK+LSrp1KB2jwAdGAIHQ7JZn+Kc="
_UID_KEY: Final = "la6YsO+bNX/+XIkOqc5Svw=="
_REFUSALS: Final = (b'"code":4', b'"code":5')
_ARRIVAL: Final = b'{"data":{'
_ANSWER: Final = b'"code":202'
_SEQUENCE: Final = re.compile(rb'"seq":(\d+),')
_USER: Final = re.compile(rb'"user":"(usr[\w-]+)"')
_GROUP: Final = re.compile(rb'"topic":"(grp[\w-]+)"')
# Everyone may join, write and be written to; users without a password cost less to create.
_ACCESS: Final = {"auth": "JRWPS", "anon": "JRWPS"}


class Tinode(Server):
    """The server while it runs, with its database."""

    copies_to_sender = 0

    def __init__(self, port: int, pid: int, postgres: Postgres) -> None:
        self._port = port
        self._pid = pid
        self._postgres = postgres

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time, by program."""
        return {
            "tinode": cpu_seconds([self._pid]),
            "postgresql": self._postgres.cpu_seconds(),
        }

    async def pairs(self, count: int) -> list[tuple[Member, Member]]:
        """Connect pairs; each user of a pair subscribes to the chat with the other."""
        found = []
        for _ in range(count):
            left, right = await self._user(), await self._user()
            for one, other in ((left, right), (right, left)):
                await _subscribe(one, other.user)
            found.append(
                (
                    _member(left, right.user, _receipt(right.user)),
                    _member(right, left.user, _receipt(left.user)),
                )
            )
        return found

    async def group(self, size: int, senders: int) -> list[Member]:
        """Connect users to one group, which the first one creates. They send no receipts: when all
        members send one at once, the server answers 503, to messages too."""
        del senders  # every user can send
        users = [await self._user() for _ in range(size)]
        made = await _subscribe(users[0], "new", desc={"defacs": _ACCESS})
        group = _found(_GROUP, made)
        for user in users[1:]:
            await _subscribe(user, group)
        return [_member(user, group, None) for user in users]

    def rows(self, sent_to_pairs: int, sent_to_group: int) -> Rows | None:
        """Compare the table of messages with what was sent."""
        found = int(self._postgres.run("select count(*) from messages", DATABASE))
        return Rows(expected=sent_to_pairs + sent_to_group, found=found)

    def settings(self) -> dict[str, str]:
        """Return the settings of PostgreSQL that decide whether a commit is durable."""
        return self._postgres.settings()

    async def _user(self) -> Connection:
        """Create a user and log in."""
        connection = await connect(self._port, "someone", _REFUSALS)
        create = {"id": "2", "user": "new", "scheme": "anonymous", "login": True}
        await connection.take(
            [
                (upgrade_request(f"127.0.0.1:{self._port}", _PATH), b" 101 "),
                (_frame("hi", id="1", ver="0.22", ua="bench"), b'"code":20'),
            ]
        )
        made = await connection.ask(_frame("acc", **create, desc={"defacs": _ACCESS}), b'"code":20')
        connection.user = _found(_USER, made)
        return connection


@contextmanager
def own_tinode(programs: Path, postgres_bin: Path) -> Iterator[Tinode]:
    """Start a server without users; stop it afterwards."""
    with (
        reachable_folder(ACCOUNT) as folder,
        own_postgres(postgres_bin, folder, SERVER_CORE) as postgres,
    ):
        port, config = free_port(), folder / "tinode.conf"
        config.write_bytes(msgspec.json.encode(_config(port, postgres)))
        where = f"--config={config}"
        output_of([str(programs / "tinode-db"), where], account=None, folder=folder)
        command = [str(programs / "tinode"), where, "--static_data=-", f"--listen=127.0.0.1:{port}"]
        with running(command, core=SERVER_CORE, account=None, folder=folder, env={}) as process:
            wait_until(partial(is_listening, port), process, folder)
            yield Tinode(port, process.pid, postgres)


def _config(port: int, postgres: Postgres) -> dict[str, Any]:
    address = f"postgresql://{ACCOUNT}:{postgres.password}@127.0.0.1:{postgres.port}/{DATABASE}"
    dsn = f"{address}?sslmode=disable&pool_max_conns={POOL}"
    return {
        "listen": f"127.0.0.1:{port}",
        "api_path": "/",
        "ws_compression_disabled": True,
        "api_key_salt": _SALT,
        "max_message_size": 262_144,
        "max_subscriber_count": 1_000,
        "max_tag_count": 16,
        "push": [],
        "auth_config": {
            "token": {"expire_in": 86_400, "serial_num": 1, "key": _TOKEN_KEY},
        },
        "store_config": {
            "uid_key": _UID_KEY,
            "max_results": 1_024,
            "use_adapter": "postgres",
            "adapters": {"postgres": {"dsn": dsn, "sql_timeout": 10}},
        },
    }


async def _subscribe(connection: Connection, topic: str, **about: Any) -> bytes:
    request = _frame("sub", id="3", topic=topic, **({"set": about} if about else {}))
    return await connection.ask(request, b'"code":20')


def _member(connection: Connection, topic: str, receipt: Receipt | None) -> Member:
    message = _frame("pub", id=NUMBER.decode(), topic=topic, noecho=True, content=CONTENT)
    return Member(
        connection=connection,
        message=message,
        arrival=_ARRIVAL,
        answer=_ANSWER,
        receipt=receipt,
    )


def _receipt(topic: str) -> Receipt:
    def receipt(data: bytes) -> bytes | None:
        if (sequence := number_after(data, _ARRIVAL, _SEQUENCE)) is None:
            return None
        return _frame("note", topic=topic, what="recv", seq=sequence)

    return receipt


def _frame(kind: str, **fields: Any) -> bytes:
    return text_frame(msgspec.json.encode({kind: fields}))


def _found(pattern: re.Pattern[bytes], answer: bytes) -> str:
    found = pattern.search(answer)
    assert found is not None, answer
    return found[1].decode()
