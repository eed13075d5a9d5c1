# SPDX-License-Identifier: Apache-2.0
"""The link to Redis that the parts of one process share: short waits, one kind of failure."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, TypeVar

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from tidings.cluster.redis_servers import RedisServers
from tidings.ports.cluster import RegistryUnavailable
from tidings.wire.message_cipher import MessageCipher

log = logging.getLogger("tidings.registry")

ANSWER_SECONDS_MAX: Final = 0.25
"""Redis answers in less than a millisecond, or something is wrong with it or on the way to it."""

T = TypeVar("T")
Value = str | int

TROUBLE: Final = (RedisError, OSError)
"""All that can go wrong with Redis; a time-out is an OSError too."""


def times_asked_to_end() -> int:
    """How often the task that runs now was cancelled."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def raise_swallowed_cancellation(asked: int = 0) -> None:
    """End the task if it was asked to since.

    The client library sends with `asyncio.wait_for`, which in Python 3.11 forgets a cancellation
    that comes at the moment the sending is done: the task would never end.
    """
    if times_asked_to_end() > asked:
        raise asyncio.CancelledError


class RedisLink:
    """A pool of connections, made when they are needed and again when they break."""

    def __init__(
        self,
        servers: RedisServers,
        prefix: str,
        cipher: MessageCipher,
        *,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """Nothing is connected yet. Names of keys and channels begin with the prefix.

        The cipher seals letters for their channel: Redis and its other users are not trusted.
        """
        self.failures = 0
        """How many calls were not answered."""
        self.owes_comparison = asyncio.Event()
        """Set when somebody could not be looked up, or reached: see `RedisHandover`."""
        self._prefix = prefix
        self._cipher = cipher
        self._answer_seconds_max = answer_seconds_max
        self._connections = servers.connect(answer_seconds_max)
        self._is_up = True

    @property
    def redis(self) -> Redis:
        """The client, for commands that need no care."""
        return self._connections.redis

    @property
    def refused(self) -> int:
        """Letters that this deployment did not seal for the channel they came on."""
        return self._cipher.refused

    def name(self, kind: str, which: str, *, together: str | None = None) -> str:
        """The name of a key or channel; in a cluster beside others with the same `together`."""
        return f"{self._prefix}{kind}:{self._connections.tag(together or which)}{which}"

    async def pubsub(self) -> PubSub:
        """A connection of its own for listening."""
        return await self._connections.pubsub()

    async def call(self, work: Awaitable[T]) -> T:
        """Wait for an answer, but not for long.

        Raises:
            RegistryUnavailable: There is none: it may have been carried out or not.
        """
        asked = times_asked_to_end()
        try:
            async with asyncio.timeout(self._answer_seconds_max):
                answer = await work
        except TROUBLE as trouble:
            self.failures += 1
            self._tell(False, trouble)
            raise RegistryUnavailable(f"{type(trouble).__name__}: {trouble}") from trouble
        self._tell(True, None)
        raise_swallowed_cancellation(asked)
        return answer

    async def publish(self, letters: Iterable[tuple[str, bytes]]) -> list[int]:
        """Send letters to channels, all in one round trip; how many listened to each.

        Raises:
            RegistryUnavailable: Any of them may have arrived or not.
        """
        sealed = [(channel, self._cipher.seal(channel, message)) for channel, message in letters]
        return await self.call(self._connections.publish(sealed))

    async def run(
        self,
        script: str,
        keys: Sequence[str],
        common: Sequence[Value] = (),
        own: Sequence[Sequence[Value]] = (),
    ) -> list[tuple[list[int], Any]]:
        """Run a script on keys; it gets the common values, then those of each key, if there are.

        Returns the answers, each with the places of the keys that it is about: there is one
        answer, or in a cluster one for each group of keys that are together.

        Raises:
            RegistryUnavailable: Any of it may have been carried out or not.
        """
        groups = self._connections.groups(keys)
        works = []
        for places in groups:
            values = [value for place in places if own for value in own[place]]
            some = [keys[place] for place in places]
            works.append(self._connections.run(script, some, (*common, *values)))
        if len(works) == 1:
            return [(groups[0], await self.call(works[0]))]
        try:
            async with asyncio.TaskGroup() as together:
                tasks = [together.create_task(self.call(work)) for work in works]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [(places, task.result()) for places, task in zip(groups, tasks, strict=True)]

    def open(self, channel: str, sealed: bytes) -> bytes | None:
        """A letter as it came from a channel; None if it was not sealed for that channel."""
        return self._cipher.open(channel, sealed)

    def _tell(self, is_up: bool, trouble: Exception | None) -> None:
        """A line in the log when it goes and when it comes back, not for each call."""
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
        """Let go of all connections."""
        await self._connections.close()
