# SPDX-License-Identifier: Apache-2.0
"""Centrifugo: channels over WebSockets, in memory or in a Redis that is synced at every command."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.peers.channels import ChannelServer
from bench.peers.member import NUMBER, Member
from bench.peers.processes import cpu_seconds, free_port, is_listening, running, wait_until
from bench.peers.redis import SYNCED, Redis, own_redis
from bench.peers.wire import connect
from bench.server import SERVER_CORE, own_folder
from bench.websocket import text_frame, upgrade_request
from scripts.services.go_programs import GoModule
from tidings.tools.load_talker import CONTENT

MODULE: Final = GoModule(
    "github.com/centrifugal/centrifugo/v5",
    "v5.4.9",
    "h1:XpCLOMoYZ6ly71eOPe1YK9qzXaEmRXdgqlr3Bv3WePA=",
    {"centrifugo": "."},
)

_PATH: Final = "/connection/websocket"
_REFUSALS: Final = (b'"error":', b'"disconnect":')
_ARRIVAL: Final = b'"pub":{'
_ANSWER: Final = b'"publish":{}'
# Who may do what is not checked, which costs it less than tokens would.
_CONFIG: Final[dict[str, Any]] = {
    "address": "127.0.0.1",
    "client_insecure": True,
    "log_level": "error",
    "client_queue_max_size": 64 * 2**20,
}
_KEPT: Final[dict[str, Any]] = {"history_size": 100_000, "history_ttl": "24h"}


class Centrifugo(ChannelServer):
    """The server while it runs, with its Redis if it has one."""

    def __init__(self, port: int, pid: int, redis: Redis | None) -> None:
        self._port = port
        self._pid = pid
        self._redis = redis

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time, by program."""
        used = {"centrifugo": cpu_seconds([self._pid])}
        return used if self._redis is None else used | {"redis": self._redis.cpu_seconds()}

    def settings(self) -> dict[str, str]:
        """Return the settings of Redis that decide whether a write is durable."""
        return {} if self._redis is None else SYNCED

    async def member(self, listens_on: str, sends_to: str) -> Member:
        connection = await connect(self._port, listens_on, _REFUSALS)
        subscribe = {"id": 2, "subscribe": {"channel": listens_on}}
        await connection.take(
            [
                (upgrade_request(f"127.0.0.1:{self._port}", _PATH), b" 101 "),
                (text_frame(b'{"id":1,"connect":{}}'), b'"connect":{'),
                (text_frame(msgspec.json.encode(subscribe)), b'"subscribe":{'),
            ]
        )
        return Member(
            connection=connection,
            message=_message(sends_to),
            arrival=_ARRIVAL,
            answer=_ANSWER,
        )


@contextmanager
def own_centrifugo(program: Path, *, with_redis: bool) -> Iterator[Centrifugo]:
    """Start a server without channels; stop it afterwards."""
    with own_folder() as folder, ExitStack() as stack:
        settings, redis, port = _CONFIG, None, free_port()
        if with_redis:
            (folder / "redis").mkdir()
            redis = stack.enter_context(own_redis(folder / "redis"))
            kept_in = {"engine": "redis", "redis_address": f"127.0.0.1:{redis.port}"}
            settings = {**settings, **kept_in, **_KEPT}
        config = folder / "config.json"
        config.write_bytes(msgspec.json.encode({**settings, "port": port}))
        command = [str(program), "--config", str(config)]
        process = stack.enter_context(
            running(command, core=SERVER_CORE, account=None, folder=folder, env={})
        )
        wait_until(partial(is_listening, port), process, folder)
        yield Centrifugo(port, process.pid, redis)


def _message(channel: str) -> bytes:
    """Return the command that publishes. Ids must be numbers without leading zeros."""
    return text_frame(
        b'{"id":1%s,"publish":{"channel":"%s","data":{"content":"%s"}}}'
        % (NUMBER, channel.encode(), CONTENT.encode())
    )
