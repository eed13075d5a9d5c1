# SPDX-License-Identifier: Apache-2.0
"""NATS with JetStream: a log on the disk that is synced at every message, and subscriptions beside
it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from bench.peers.channels import ChannelServer
from bench.peers.member import NUMBER, Member
from bench.peers.processes import cpu_seconds, free_port, is_listening, running, wait_until
from bench.peers.wire import Connection, connect
from bench.server import SERVER_CORE, own_folder
from scripts.services.go_programs import GoModule
from tidings.tools.load_talker import CONTENT

MODULE: Final = GoModule(
    "github.com/nats-io/nats-server/v2",
    "v2.12.1",
    "h1:0tRrc9bzyXEdBLcHr2XEjDzVpUxWx64aZBm7Rl1QDrA=",
    {"nats-server": "."},
)

_CONFIG: Final = """\
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""
_STREAM: Final = {"name": "CHATS", "subjects": ["chat.>"], "storage": "file"}
_CREATE: Final = "$JS.API.STREAM.CREATE.CHATS"
_ARRIVAL: Final = CONTENT.encode()
_ANSWER: Final = b'{"stream":"CHATS"'
_REFUSALS: Final = (b"-ERR", b'{"error":')


class Nats(ChannelServer):
    """The server while it runs."""

    def __init__(self, port: int, pid: int) -> None:
        self._port = port
        self._pid = pid

    async def start(self) -> None:
        """Create the stream that keeps all chats."""
        connection = await self._connect("admin")
        await connection.ask(_subscribe("made", 1), b"PONG")
        request = msgspec.json.encode(_STREAM)
        await connection.ask(_publish(_CREATE, "made", request), b'"created"')
        connection.close()

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time."""
        return {"nats": cpu_seconds([self._pid])}

    def settings(self) -> dict[str, str]:
        """Return the setting that decides whether an answer means that a message is on the disk."""
        return {"sync_interval": "always"}

    async def member(self, listens_on: str, sends_to: str) -> Member:
        """Connect a user. Answers of the stream come to the user's own inbox."""
        connection = await self._connect(listens_on)
        inbox = f"inbox.{id(connection):x}"
        await connection.ask(_subscribe(inbox, 1) + _subscribe(listens_on, 2), b"PONG")
        return Member(
            connection=connection,
            message=_publish(sends_to, inbox, NUMBER + b" " + _ARRIVAL),
            arrival=_ARRIVAL,
            answer=_ANSWER,
        )

    async def _connect(self, user: str) -> Connection:
        connection = await connect(self._port, user, _REFUSALS)
        await connection.ask(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n', b"PONG")
        return connection


@asynccontextmanager
async def own_nats(program: Path) -> AsyncIterator[Nats]:
    """Start a server with an empty store; stop it afterwards."""
    with own_folder() as folder:
        port, config = free_port(), folder / "nats.conf"
        config.write_text(_CONFIG.format(port=port, folder=folder / "store"))
        command = [str(program), "--config", str(config)]
        with running(command, core=SERVER_CORE, account=None, folder=folder, env={}) as process:
            wait_until(partial(is_listening, port), process, folder)
            nats = Nats(port, process.pid)
            await nats.start()
            yield nats


def _subscribe(subject: str, number: int) -> bytes:
    return f"SUB {subject} {number}\r\nPING\r\n".encode()


def _publish(subject: str, inbox: str, payload: bytes) -> bytes:
    return f"PUB {subject} {inbox} {len(payload)}\r\n".encode() + payload + b"\r\n"
