# SPDX-License-Identifier: Apache-2.0
"""Redis with TLS and users, and a cluster of three Redis servers."""

import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from scripts.services.ports import HOST, free_port
from scripts.services.process import START_SECONDS_MAX, Service, ServiceDied
from scripts.services.redis_server import RedisServer

SLOTS: Final = 16_384
SERVERS: Final = 3

_POLL_SECONDS: Final = 0.02


class SecureRedisServer(RedisServer):
    """Redis with TLS only, and with only the given users."""

    name: ClassVar[str] = "Redis with TLS"

    def __init__(
        self, folder: Path, *, key: Path, certificate: Path, authority: Path, users: Sequence[str]
    ) -> None:
        """Set up the server; `users` are command-line options that create users."""
        super().__init__(folder)
        self._key = key
        self._certificate = certificate
        self._authority = authority
        self._users = users

    @property
    def address(self) -> str:
        """The URL for clients."""
        return f"rediss://{HOST}:{self.port}/0"

    def options(self) -> list[str]:
        """Return options for a TLS port without client certificates, and no plain port."""
        files = ["--tls-cert-file", str(self._certificate), "--tls-key-file", str(self._key)]
        trust = ["--tls-ca-cert-file", str(self._authority), "--tls-auth-clients", "no"]
        return ["--port", "0", "--tls-port", str(self.port), *files, *trust, *self._users]

    def connect(self) -> socket.socket:
        """Return a connection with TLS."""
        context = ssl.create_default_context(cafile=self._authority)
        return context.wrap_socket(super().connect(), server_hostname=HOST)


class _Member(RedisServer):
    """One server of a cluster."""

    def __init__(self, folder: Path, users: Sequence[str]) -> None:
        super().__init__(folder)
        self.bus_port = free_port()
        self._users = users

    def options(self) -> list[str]:
        bus = ["--cluster-enabled", "yes", "--cluster-port", str(self.bus_port)]
        return [*super().options(), *bus, "--cluster-node-timeout", "5000", *self._users]


class RedisClusterServers(Service):
    """Three servers without replicas, each with a third of all slots."""

    name: ClassVar[str] = "Redis cluster"

    def __init__(self, folder: Path, users: Sequence[str] = ()) -> None:
        """Set up the servers; `users` are options that create users besides the default user."""
        self.members = [_Member(folder / str(number), users) for number in range(SERVERS)]

    @property
    def address(self) -> str:
        """The URL of one of the servers."""
        return self.members[0].address

    def start(self) -> None:
        """Start the servers, assign the slots, connect them, and wait until all agree."""
        try:
            for member in self.members:
                member.start()
            self._join()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all running servers."""
        for member in self.members:
            member.stop()

    def _join(self) -> None:
        first = self.members[0]
        for number, member in enumerate(self.members):
            start, end = number * SLOTS // SERVERS, (number + 1) * SLOTS // SERVERS - 1
            _do(member, f"CLUSTER SET-CONFIG-EPOCH {number + 1}")
            _do(member, f"CLUSTER ADDSLOTSRANGE {start} {end}")
            if member is not first:
                _do(member, f"CLUSTER MEET {HOST} {first.port} {first.bus_port}")
        end_at = time.monotonic() + START_SECONDS_MAX
        while not all(_is_whole(member) for member in self.members):
            if time.monotonic() > end_at:
                raise ServiceDied(f"{self.name}: the servers do not agree")
            time.sleep(_POLL_SECONDS)


def _do(member: RedisServer, command: str) -> None:
    answer = member.ask(command)
    if not answer.startswith(b"+OK"):
        raise ServiceDied(f"{command}: {answer.decode()}")


def _is_whole(member: RedisServer) -> bool:
    told = member.ask("CLUSTER INFO").decode()
    return "cluster_state:ok" in told and f"cluster_known_nodes:{SERVERS}" in told
