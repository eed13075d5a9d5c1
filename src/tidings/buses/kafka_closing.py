# SPDX-License-Identifier: Apache-2.0
"""Closing of Kafka clients that do not stop by themselves, with private members of aiokafka.

No other module uses them. The library's version is capped in `pyproject.toml`, and a unit test
compares the source of each function that we depend on with the version we have read.
"""

import asyncio
from typing import Any, Final

from aiokafka.errors import KafkaError

PRODUCER_SECONDS_MAX: Final = 2.0
CONSUMER_SECONDS_MAX: Final = 5.0
"""Longest time for a commit, and for leaving the group."""


async def stop_producer(producer: Any) -> None:  # noqa: ANN401 - the library has no types
    """Close a producer; events that it has not sent are lost."""
    try:
        async with asyncio.timeout(PRODUCER_SECONDS_MAX):
            await producer.stop()
    except TimeoutError:
        # It still waits for unsent events, and would retry forever.
        await producer._sender.close()
        await producer.client.close()
    except (KafkaError, OSError):
        pass


async def stop_consumer(consumer: Any) -> None:  # noqa: ANN401
    """Leave the group and close every connection, even if the group does not answer."""
    try:
        async with asyncio.timeout(CONSUMER_SECONDS_MAX):
            await consumer.stop()
    except (KafkaError, OSError, TimeoutError):
        # It still waits for the group, and would leak tasks and connections.
        if consumer._coordinator is not None:
            await consumer._coordinator._stop_heartbeat_task()
            await consumer._coordinator._stop_commit_offsets_refresh_task()
            await consumer._fetcher.close()
        await consumer._client.close()
