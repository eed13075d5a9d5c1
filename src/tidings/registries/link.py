# SPDX-License-Identifier: Apache-2.0
"""The link to Redis that the parts of one process share: short waits, one kind of failure."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from typing import Final, TypeVar

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError

from tidings.ports.registry import RegistryUnavailable
from tidings.wire.message_cipher import MessageCipher

log = logging.getLogger("tidings.registry")

ANSWER_SECONDS_MAX: Final = 0.25
"""Redis answers in less than a millisecond, or something is wrong with it or on the way to it."""
CONNECTIONS_MAX: Final = 16

T = TypeVar("T")

TROUBLE: Final = (RedisError, OSError)
"""All that can go wrong with Redis; a time-out is an OSError too."""


def times_asked_to_end() -> int:
    """How often the task that runs now was cancelled."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def heed(asked: int = 0) -> None:
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
        url: str,
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
        # A connection that broke while nobody used it is noticed when it is used: one more try.
        settings = {
            "socket_timeout": answer_seconds_max,
            "socket_connect_timeout": answer_seconds_max,
            "retry": Retry(NoBackoff(), 1, (Disconnected,)),
        }
        self._calls = BlockingConnectionPool.from_url(
            url, max_connections=CONNECTIONS_MAX, timeout=answer_seconds_max, **settings
        )
        self._subscriptions = ConnectionPool.from_url(
            url, **{**settings, "retry": Retry(NoBackoff(), 0)}
        )
        self._is_up = True
        self.redis: Redis = Redis(connection_pool=self._calls)

    @property
    def refused(self) -> int:
        """Letters that this deployment did not seal for the channel they came on."""
        return self._cipher.refused

    def name(self, kind: str, which: str) -> str:
        """The name of a key or channel."""
        return f"{self._prefix}{kind}:{which}"

    def pubsub(self) -> PubSub:
        """A connection of its own for listening."""
        return Redis(connection_pool=self._subscriptions).pubsub()

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
        heed(asked)
        return answer

    async def publish(self, letters: Iterable[tuple[str, bytes]]) -> list[int]:
        """Send letters to channels, all in one round trip; how many listened to each.

        Raises:
            RegistryUnavailable: Any of them may have arrived or not.
        """
        pipeline = self.redis.pipeline(transaction=False)
        for channel, letter in letters:
            sealed = self._cipher.seal(channel, letter)
            _ = pipeline.publish(channel, sealed)  # sent with the others
        counts: list[int] = await self.call(pipeline.execute())
        return counts

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
        await self._calls.disconnect()
        await self._subscriptions.disconnect()
