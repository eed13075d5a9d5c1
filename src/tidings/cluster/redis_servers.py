# SPDX-License-Identifier: Apache-2.0
"""Redis's address and credentials, and connections to one server or to a cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha1
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit
from zlib import crc32

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis, RedisCluster
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import NoScriptError
from redis.maint_notifications import MaintNotificationsConfig

CONNECTIONS_MAX: Final = 16
HASH_TAGS: Final = 64
"""Groups over which a cluster's keys are spread, each on one server: a request about many users
runs one script per group, not one per user."""


@dataclass(frozen=True, slots=True)
class RedisServers:
    """Address of Redis, with TLS and credentials."""

    url: str = field(repr=False)
    """May contain a user and a password."""
    ca: Path | None = None
    """CA certificates of the servers; None for those that this machine trusts."""
    password: str | None = field(default=None, repr=False)
    """Password if the URL contains none."""
    is_cluster: bool = False

    def options(self) -> dict[str, Any]:
        """Return the options that every connection of the library needs besides the URL."""
        # No client name and no maintenance notifications: our user lacks these rights.
        options: dict[str, Any] = {
            "driver_info": None,
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }
        if urlsplit(self.url).scheme == "rediss":
            options |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
            if self.ca is not None:
                options["ssl_ca_certs"] = str(self.ca)
        if self.password is not None:
            options["password"] = self.password
        return options

    def connect(self, answer_seconds_max: float) -> "RedisConnections":
        """Return connections, none of which is open yet."""
        settings = {
            "socket_timeout": answer_seconds_max,
            "socket_connect_timeout": answer_seconds_max,
            **self.options(),
        }
        if self.is_cluster:
            return ClusterConnections(self.url, settings)
        return ServerConnections(self.url, settings, answer_seconds_max)


class RedisConnections(Protocol):
    """Connections to Redis, opened on demand and again after a failure."""

    redis: Redis

    def tag(self, which: str) -> str:
        """Return the part of a name that puts it on the same server as others with the same tag."""
        ...

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        """Return the indexes of the keys, grouped by what one script can reach."""
        ...

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | int]) -> Any:  # noqa: ANN401
        """Run a script on keys of one group."""
        ...

    async def pubsub(self) -> PubSub:
        """Return a new connection for subscriptions."""
        ...

    async def publish(self, messages: Iterable[tuple[str, bytes]]) -> list[int]:
        """Send messages to channels; return the number of listeners of each."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class ServerConnections:
    """Connections to one server."""

    def __init__(self, url: str, settings: dict[str, Any], answer_seconds_max: float) -> None:
        # An idle connection that broke is noticed at its next use: one more attempt.
        again = Retry(NoBackoff(), 1, (Disconnected,))
        self._calls = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS_MAX,
            timeout=answer_seconds_max,
            retry=again,
            **settings,
        )
        self._subscriptions = ConnectionPool.from_url(url, retry=Retry(NoBackoff(), 0), **settings)
        self.redis: Redis = Redis(connection_pool=self._calls)

    def tag(self, which: str) -> str:
        return ""

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        return [list(range(len(keys)))] if keys else []

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | int]) -> Any:  # noqa: ANN401
        words = (len(keys), *keys, *values)
        execute: Callable[..., Awaitable[Any]] = self.redis.execute_command
        return await _known_or_new(script, lambda *how: execute(*how, *words))

    async def pubsub(self) -> PubSub:
        return Redis(connection_pool=self._subscriptions).pubsub()

    async def publish(self, messages: Iterable[tuple[str, bytes]]) -> list[int]:
        pipeline = self.redis.pipeline(transaction=False)
        for channel, message in messages:
            _ = pipeline.publish(channel, message)  # sent with the others
        counts: list[int] = await pipeline.execute()
        return counts

    async def close(self) -> None:
        await self._calls.disconnect()
        await self._subscriptions.disconnect()


class ClusterConnections:
    """Connections to the servers of a cluster; the URL names one of them."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._cluster = RedisCluster.from_url(
            url,
            # Per server. Each subscription takes one of them.
            max_connections=4 * CONNECTIONS_MAX,
            retry=Retry(NoBackoff(), 1, (Disconnected,)),
            # The library learns of a moved slot by the redirect. To read all slots again it would
            # close every connection, including those in use.
            reinitialize_steps=0,
            **settings,
        )
        self.redis: Redis = cast("Redis", self._cluster)  # it has the same commands
        # The library fails a command for which no connection is free, instead of waiting.
        self._free = asyncio.Semaphore(2 * CONNECTIONS_MAX)

    def tag(self, which: str) -> str:
        return f"{{{crc32(which.encode()) % HASH_TAGS}}}:"

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        found: dict[str, list[int]] = {}
        for index, key in enumerate(keys):
            found.setdefault(key[key.index("{") : key.index("}")], []).append(index)
        return list(found.values())

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | int]) -> Any:  # noqa: ANN401
        _ = await self._cluster.initialize()  # does something the first time only
        # The node is named, because the library would send a script to any node.
        node = self._cluster.get_node_from_key(keys[0])
        words = (len(keys), *keys, *values)
        async with self._free:
            return await _known_or_new(
                script,
                lambda *how: self._cluster.execute_command(*how, *words, target_nodes=node),
            )

    async def pubsub(self) -> PubSub:
        """Return a connection to the server of the first channel's slot, where `publish` sends.

        A message reaches listeners at every server, but only those at the same server are counted.
        """
        _ = await self._cluster.initialize()  # reads the slots
        return self._cluster.pubsub()

    async def publish(self, messages: Iterable[tuple[str, bytes]]) -> list[int]:
        _ = await self._cluster.initialize()  # does something the first time only
        pipeline = self._cluster.pipeline(transaction=False)
        for channel, message in messages:
            node = self._cluster.get_node_from_key(channel)
            _ = pipeline.execute_command("PUBLISH", channel, message, target_nodes=node)
        async with self._free:
            counts: list[int] = await pipeline.execute()
        return counts

    async def close(self) -> None:
        await self._cluster.aclose()


@lru_cache(maxsize=16)
def _digest(script: str) -> str:
    return sha1(script.encode(), usedforsecurity=False).hexdigest()


async def _known_or_new(script: str, run: Callable[[str, str], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """Run a script by its digest, or by its text if Redis has not run it since its start."""
    try:
        return await run("EVALSHA", _digest(script))
    except NoScriptError:
        return await run("EVAL", script)


_conform: tuple[type[RedisConnections], ...] = (ServerConnections, ClusterConnections)
