# SPDX-License-Identifier: Apache-2.0
"""Closing clients of Kafka that do not end by themselves: aiokafka below its public interface.

No other module goes there. Its version is capped in `pyproject.toml`, and a unit test compares the
source of each function that we depend on with the one we have read.
"""

import asyncio
from typing import Any, Final

from aiokafka.errors import KafkaError

PRODUCER_SECONDS_MAX: Final = 2.0
CONSUMER_SECONDS_MAX: Final = 5.0
"""How long one may take to commit, and how long to leave its group."""


async def stop_producer(producer: Any) -> None:  # noqa: ANN401 - the library has no types
    """Let go of a producer; what it has not sent is lost."""
    try:
        async with asyncio.timeout(PRODUCER_SECONDS_MAX):
            await producer.stop()
    except TimeoutError:
        # It waits for what it could not send. Left alone it would go on trying for ever.
        await producer._sender.close()
        await producer.client.close()
    except (KafkaError, OSError):
        pass


async def stop_consumer(consumer: Any) -> None:  # noqa: ANN401
    """Leave the group and let go of every connection, whether the group says good-bye or not."""
    try:
        async with asyncio.timeout(CONSUMER_SECONDS_MAX):
            await consumer.stop()
    except (KafkaError, OSError, TimeoutError):
        # It still waits for the group, and would leave tasks and connections behind.
        if consumer._coordinator is not None:
            await consumer._coordinator._stop_heartbeat_task()
            await consumer._coordinator._stop_commit_offsets_refresh_task()
            await consumer._fetcher.close()
        await consumer._client.close()
