# SPDX-License-Identifier: Apache-2.0
"""Where Redis is and how to log in there: one server, or a cluster of several."""

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
"""Keys of a cluster are spread over this many groups, each on one server: a request about many
users is one script for each group, not one for each user."""


@dataclass(frozen=True, slots=True)
class RedisServers:
    """The address, and what it takes to be let in."""

    url: str = field(repr=False)
    """It may hold a user and a password."""
    ca: Path | None = None
    """Authorities that signed the servers' certificates; None: those this machine trusts."""
    password: str | None = field(default=None, repr=False)
    """Where it does not stand in the URL."""
    is_cluster: bool = False

    def options(self) -> dict[str, Any]:
        """What every connection of the library is given besides the URL."""
        # Neither our name is told nor news of maintenance asked for: our user may not do that.
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
        """Connections, none of which is made yet."""
        settings = {
            "socket_timeout": answer_seconds_max,
            "socket_connect_timeout": answer_seconds_max,
            **self.options(),
        }
        if self.is_cluster:
            return ClusterConnections(self.url, settings)
        return ServerConnections(self.url, settings, answer_seconds_max)


class RedisConnections(Protocol):
    """The ways to Redis, made when they are needed and again when they break."""

    redis: Redis

    def tag(self, which: str) -> str:
        """What a name needs so that it is on the same server as others with the same tag."""
        ...

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        """The places of keys in the sequence, those together that one script can reach."""
        ...

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | int]) -> Any:  # noqa: ANN401
        """Run a script on keys of one group."""
        ...

    async def pubsub(self) -> PubSub:
        """A connection of its own for listening."""
        ...

    async def publish(self, letters: Iterable[tuple[str, bytes]]) -> list[int]:
        """Send to channels; how many listened to each."""
        ...

    async def close(self) -> None:
        """Let go of all of them."""
        ...


class ServerConnections:
    """To one server."""

    def __init__(self, url: str, settings: dict[str, Any], answer_seconds_max: float) -> None:
        # A connection that broke while nobody used it is noticed when it is used: one more try.
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

    async def publish(self, letters: Iterable[tuple[str, bytes]]) -> list[int]:
        pipeline = self.redis.pipeline(transaction=False)
        for channel, message in letters:
            _ = pipeline.publish(channel, message)  # sent with the others
        counts: list[int] = await pipeline.execute()
        return counts

    async def close(self) -> None:
        await self._calls.disconnect()
        await self._subscriptions.disconnect()


class ClusterConnections:
    """To the servers of a cluster, of which the URL names one."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._cluster = RedisCluster.from_url(
            url,
            # Of each server. Listening takes one of them for each subscription.
            max_connections=4 * CONNECTIONS_MAX,
            retry=Retry(NoBackoff(), 1, (Disconnected,)),
            # A slot that moved is learnt by itself. To learn them all again the library would
            # close every connection, those in use as well.
            reinitialize_steps=0,
            **settings,
        )
        self.redis: Redis = cast("Redis", self._cluster)  # it has the same commands
        # The library refuses a command for which no connection is free, instead of waiting.
        self._free = asyncio.Semaphore(2 * CONNECTIONS_MAX)

    def tag(self, which: str) -> str:
        return f"{{{crc32(which.encode()) % HASH_TAGS}}}:"

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        found: dict[str, list[int]] = {}
        for place, key in enumerate(keys):
            found.setdefault(key[key.index("{") : key.index("}")], []).append(place)
        return list(found.values())

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | int]) -> Any:  # noqa: ANN401
        _ = await self._cluster.initialize()  # nothing to do but the first time
        # Named, because the library sends a script it does not know the keys of anywhere.
        node = self._cluster.get_node_from_key(keys[0])
        words = (len(keys), *keys, *values)
        async with self._free:
            return await _known_or_new(
                script,
                lambda *how: self._cluster.execute_command(*how, *words, target_nodes=node),
            )

    async def pubsub(self) -> PubSub:
        """It listens at the server that holds the first channel's slot, as `publish` sends there.

        A letter reaches listeners at any server, but only those at the same one are counted.
        """
        _ = await self._cluster.initialize()  # it has to know the slots
        return self._cluster.pubsub()

    async def publish(self, letters: Iterable[tuple[str, bytes]]) -> list[int]:
        _ = await self._cluster.initialize()  # nothing to do but the first time
        pipeline = self._cluster.pipeline(transaction=False)
        for channel, message in letters:
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
    """Redis knows a script by its digest once it has run it; after a restart not any more."""
    try:
        return await run("EVALSHA", _digest(script))
    except NoScriptError:
        return await run("EVAL", script)


_conform: tuple[type[RedisConnections], ...] = (ServerConnections, ClusterConnections)
