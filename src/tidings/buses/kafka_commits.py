# SPDX-License-Identifier: Apache-2.0
"""Commits offsets to Kafka, with a time limit that does not disturb the library."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import TopicPartition

COMMIT_SECONDS_MAX: Final = 5.0


class Commits:
    """Commits the offsets of one consumer, one request at a time.

    A commit that takes too long is not cancelled: the library would leave its request behind, and
    asyncio would log the error of that request as one that nobody handles. It goes on in the
    background instead, and the next commit waits for it.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._under_way: asyncio.Task[None] | None = None

    async def commit(
        self,
        consumer: Any,  # noqa: ANN401 - the library has no types
        offsets: Mapping[TopicPartition, int],
    ) -> None:
        """Commit these offsets.

        Raises:
            KafkaError, OSError: Kafka refused the commit, or cannot be reached.
            TimeoutError: It took too long, and may or may not be carried out later.
        """
        async with asyncio.timeout(COMMIT_SECONDS_MAX), self._turn:
            if self._under_way is not None:
                await asyncio.wait({self._under_way})
            task = asyncio.create_task(consumer.commit(offsets))
            self._under_way = task
            task.add_done_callback(_take_error)
            await asyncio.wait({task})
        task.result()

    def end(self) -> None:
        """Give up what is under way, after the consumer was stopped."""
        if self._under_way is not None:
            self._under_way.cancel()
            self._under_way = None


def _take_error(task: asyncio.Task[None]) -> None:
    """Take the error of a commit that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
