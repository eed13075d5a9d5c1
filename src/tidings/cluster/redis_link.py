# SPDX-License-Identifier: Apache-2.0
"""Link to Redis that all parts of a process share. All failures raise the same error."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ReadOnlyError, RedisClusterException, RedisError

from tidings.cluster.redis_servers import RedisServers, Value
from tidings.metrics.counts import report_counts
from tidings.ports.delivery import RegistryUnavailable
from tidings.wire.events import MessageCipher

log = logging.getLogger("tidings.registry")

ANSWER_SECONDS_MAX: Final = 0.25
"""Timeout of a call. Redis answers in less than a millisecond, unless it or the network has a
problem."""

RENEW_SECONDS_MIN: Final = 10.0
"""Minimum time between two attempts to find a server that takes writes. Each of them ends the
subscriptions, and gateways then compare the heads of all connections."""

T = TypeVar("T")

TROUBLE: Final = (RedisError, RedisClusterException, OSError)
"""Every exception that a failed call to Redis raises. A timeout is an OSError, too. The exception
of a cluster of which no server answers is no `RedisError`."""


def times_asked_to_end() -> int:
    """Return how often the current task was cancelled."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def raise_swallowed_cancellation(asked: int = 0) -> None:
    """Raise CancelledError if the task was cancelled more than `asked` times.

    redis-py sends with `asyncio.wait_for`. In Python 3.11, `wait_for` loses a cancellation that
    arrives at the moment when sending ends. Without this check the task would then never end.
    """
    if times_asked_to_end() > asked:
        raise asyncio.CancelledError


class RedisLink:
    """Pool of connections to Redis, which are opened on demand and reopened after a failure."""

    def __init__(
        self,
        servers: RedisServers,
        prefix: str,
        cipher: MessageCipher,
        *,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """Prepare a link without connecting. Names of keys and channels start with the prefix.

        The cipher encrypts each message for its channel, because Redis and its other users are not
        trusted.
        """
        self.failures = 0
        """Number of calls that Redis did not answer."""
        report_counts(self, "redis")
        self._prefix = prefix
        self._cipher = cipher
        self._answer_seconds_max = answer_seconds_max
        self._connections = servers.connect(answer_seconds_max)
        self._is_up = True
        self._renewed_at = -RENEW_SECONDS_MIN

    @property
    def redis(self) -> Redis:
        """Client of redis-py, for commands that bypass `call`; their failures are not counted."""
        return self._connections.redis

    @property
    def counts_all_listeners(self) -> bool:
        """Whether `publish` counts all listeners. In a cluster, it may miss some of them."""
        return self._connections.counts_all_listeners

    @property
    def refused(self) -> int:
        """Number of received messages that were refused because this deployment did not encrypt
        them for their channel."""
        return self._cipher.refused

    def name(self, kind: str, which: str, *, hash_tag: str | None = None) -> str:
        """Return the name of a key or channel.

        In a cluster, names with the same `hash_tag` are on the same server.
        """
        return f"{self._prefix}{kind}:{self._connections.tag(hash_tag or which)}{which}"

    async def pubsub(self) -> PubSub:
        """Return a new connection for subscriptions."""
        return await self._connections.pubsub()

    async def call(self, work: Awaitable[T]) -> T:
        """Wait for an answer from Redis, at most for the link's timeout.

        Raises:
            RegistryUnavailable: Redis did not answer. It may have carried out the call or not.
        """
        asked = times_asked_to_end()
        try:
            async with asyncio.timeout(self._answer_seconds_max):
                answer = await work
        except TROUBLE as trouble:
            self.failures += 1
            self._log_change(False, trouble)
            if isinstance(trouble, ReadOnlyError):
                await self._renew()
            raise RegistryUnavailable(f"{type(trouble).__name__}: {trouble}") from trouble
        self._log_change(True, None)
        raise_swallowed_cancellation(asked)
        return answer

    async def _renew(self) -> None:
        """Connect again after Redis refused a write, because the name of the server may lead to
        another one by now. Connections to a primary that has become a replica do not end by
        themselves, and only writes fail on them."""
        now = asyncio.get_running_loop().time()
        if now - self._renewed_at >= RENEW_SECONDS_MIN:
            self._renewed_at = now
            with suppress(*TROUBLE):
                await self._connections.renew()

    async def publish(self, messages: Iterable[tuple[str, bytes]]) -> list[int]:
        """Send messages to channels in one round trip; return the number of listeners per message.

        Raises:
            RegistryUnavailable: Redis did not answer. Each message may have arrived or not.
        """
        sealed = [(channel, self._cipher.seal(channel, message)) for channel, message in messages]
        return await self.call(self._connections.publish(sealed))

    async def run(
        self,
        script: str,
        keys: Sequence[str],
        common: Sequence[Value] = (),
        own: Sequence[Sequence[Value]] = (),
    ) -> list[tuple[list[int], Any]]:
        """Run a script on keys. Its arguments are the common values, then each key's own values.

        Returns the answers, each with the indexes of its keys. There is one answer, or in a cluster
        one answer for each group of keys on the same server.

        Raises:
            RegistryUnavailable: Redis did not answer. Each part may have been carried out or not.
        """
        groups = self._connections.groups(keys)
        works = []
        for indexes in groups:
            values = [value for index in indexes if own for value in own[index]]
            some = [keys[index] for index in indexes]
            works.append(self._connections.run(script, some, (*common, *values)))
        if len(works) == 1:
            return [(groups[0], await self.call(works[0]))]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.call(work)) for work in works]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [(indexes, task.result()) for indexes, task in zip(groups, tasks, strict=True)]

    def open(self, channel: str, sealed: bytes) -> bytes | None:
        """Decrypt a message from a channel; return None if it was not encrypted for the channel."""
        return self._cipher.open(channel, sealed)

    def seal(self, key: str, value: bytes) -> bytes:
        """Encrypt a value that is stored under a key; `open` decrypts it."""
        return self._cipher.seal(key, value)

    def _log_change(self, is_up: bool, trouble: Exception | None) -> None:
        """Log when Redis stops answering and when it answers again, not for each call."""
        if is_up == self._is_up:
            return
        self._is_up = is_up
        if is_up:
            log.info("redis answers again", extra={"action": "redis_up"})
        else:
            log.warning(
                "redis does not answer", extra={"action": "redis_down", "error": str(trouble)}
            )

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()
