# SPDX-License-Identifier: Apache-2.0
"""The address and credentials of Redis, and connections to one server or to a cluster."""

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
"""Number of groups into which the keys of a cluster are divided. All keys of a group are on the
same server, so a request about many users runs one script per group instead of one per user."""

Value = str | int | bytes
"""An argument of a script."""


@dataclass(frozen=True, slots=True)
class RedisServers:
    """Address of Redis, with TLS and credentials."""

    url: str = field(repr=False)
    """URL of Redis, which may contain a user and a password."""
    ca: Path | None = None
    """File with the CA certificates to trust, or None to trust those of this machine."""
    password: str | None = field(default=None, repr=False)
    """Password, if the URL does not contain it."""
    is_cluster: bool = False

    def options(self) -> dict[str, Any]:
        """Return the options that every connection of redis-py needs besides the URL."""
        # Client name and maintenance notifications are off: our Redis user lacks these rights.
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
        """Return an object that opens connections when they are needed."""
        settings = {
            "socket_timeout": answer_seconds_max,
            "socket_connect_timeout": answer_seconds_max,
            **self.options(),
        }
        if self.is_cluster:
            return ClusterConnections(self.url, settings)
        return ServerConnections(self.url, settings, answer_seconds_max)


class RedisConnections(Protocol):
    """Connections to Redis, which are opened on demand and reopened after a failure."""

    redis: Redis
    counts_all_listeners: bool
    """Whether `publish` counts the listeners on all servers."""

    def tag(self, which: str) -> str:
        """Return the part of a key's name that decides on which server of a cluster the key is."""
        ...

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        """Return the indexes of the keys, in groups that one script can access together."""
        ...

    async def run(self, script: str, keys: Sequence[str], values: Sequence[Value]) -> Any:  # noqa: ANN401
        """Run a script on keys of one group."""
        ...

    async def pubsub(self) -> PubSub:
        """Return a new connection for subscriptions."""
        ...

    async def publish(self, messages: Iterable[tuple[str, bytes]]) -> list[int]:
        """Send messages to channels; return the number of listeners per message."""
        ...

    async def renew(self) -> None:
        """Close connections to a server that does not take writes any more, so that the next calls
        and subscriptions look up its address again."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class ServerConnections:
    """Connections to one server."""

    counts_all_listeners: bool = True

    def __init__(self, url: str, settings: dict[str, Any], answer_seconds_max: float) -> None:
        # A connection that broke while idle fails at its next use, so one retry is allowed.
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

    async def run(self, script: str, keys: Sequence[str], values: Sequence[Value]) -> Any:  # noqa: ANN401
        words = (len(keys), *keys, *values)
        execute: Callable[..., Awaitable[Any]] = self.redis.execute_command
        return await _known_or_new(script, lambda *how: execute(*how, *words))

    async def pubsub(self) -> PubSub:
        return Redis(connection_pool=self._subscriptions).pubsub()

    async def publish(self, messages: Iterable[tuple[str, bytes]]) -> list[int]:
        pipeline = self.redis.pipeline(transaction=False)
        for channel, message in messages:
            _ = pipeline.publish(channel, message)  # sent by `execute`, together with the others
        counts: list[int] = await pipeline.execute()
        return counts

    async def renew(self) -> None:
        # Calls that are under way end with the connection that they have.
        await self._calls.disconnect(inuse_connections=False)
        await self._subscriptions.disconnect()

    async def close(self) -> None:
        await self._calls.disconnect()
        await self._subscriptions.disconnect()


class ClusterConnections:
    """Connections to the servers of a cluster; the URL names one of them."""

    counts_all_listeners: bool = False

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._cluster = RedisCluster.from_url(
            url,
            # The limit is per server. Each subscription takes one of these connections.
            max_connections=4 * CONNECTIONS_MAX,
            retry=Retry(NoBackoff(), 1, (Disconnected,)),
            # The library learns of a moved slot from a redirect. Reading all slots again is off,
            # because it would close every connection, including those in use.
            reinitialize_steps=0,
            **settings,
        )
        self.redis: Redis = cast("Redis", self._cluster)  # it has the same commands
        # If no connection is free, the library fails instead of waiting. Callers therefore wait for
        # this semaphore.
        self._free = asyncio.Semaphore(2 * CONNECTIONS_MAX)

    def tag(self, which: str) -> str:
        return f"{{{crc32(which.encode()) % HASH_TAGS}}}:"

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        found: dict[str, list[int]] = {}
        for index, key in enumerate(keys):
            found.setdefault(key[key.index("{") : key.index("}")], []).append(index)
        return list(found.values())

    async def run(self, script: str, keys: Sequence[str], values: Sequence[Value]) -> Any:  # noqa: ANN401
        _ = await self._cluster.initialize()  # does something the first time only
        # The node is given, because otherwise the library would send the script to any node.
        node = self._cluster.get_node_from_key(keys[0])
        words = (len(keys), *keys, *values)
        async with self._free:
            return await _known_or_new(
                script,
                lambda *how: self._cluster.execute_command(*how, *words, target_nodes=node),
            )

    async def pubsub(self) -> PubSub:
        """Return a connection for subscriptions.

        It is on the server to which the Redis cluster assigns the first subscribed channel.
        `publish` sends to the same server. This matters because a message reaches listeners on
        every server, but `publish` counts only the listeners on the server it sends to. A
        subscription stays where it is if the cluster assigns the channel to another server.
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

    async def renew(self) -> None:
        """Do nothing: a replica of a cluster answers with the address of its primary."""

    async def close(self) -> None:
        await self._cluster.aclose()


@lru_cache(maxsize=16)
def _digest(script: str) -> str:
    return sha1(script.encode(), usedforsecurity=False).hexdigest()


async def _known_or_new(script: str, run: Callable[[str, str], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """Run a script by its digest, or by its text if Redis has not cached the script yet."""
    try:
        return await run("EVALSHA", _digest(script))
    except NoScriptError:
        return await run("EVAL", script)


_conform: tuple[type[RedisConnections], ...] = (ServerConnections, ClusterConnections)
