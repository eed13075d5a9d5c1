# SPDX-License-Identifier: Apache-2.0
"""Queue of delivery jobs in a Kafka topic, consumed by a group of workers.

A job counts as queued when all in-sync replicas have it. An offset is committed only when all jobs
before it are finished. Therefore, after a crash, all jobs of a partition after its first unfinished
job are received again, even those that were finished.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from aiokafka.errors import KafkaError

from tidings.buses.kafka_clients import (
    PARTITIONS_DEFAULT,
    KafkaServers,
    Topics,
    ensure_topics,
    start_producer,
    stop_producer,
)
from tidings.buses.kafka_feed import KafkaFeed
from tidings.ports.bus import (
    FeedEvent,
    FeedUnavailable,
    Job,
    Jobs,
    JobsUnavailable,
    NotAJob,
    Taken,
    decode_job,
    encode_job,
)
from tidings.wire.events import MessageCipher

log = logging.getLogger("tidings.bus")

GROUP_DEFAULT: Final = "tidings-inbox"
PUT_SECONDS_MAX: Final = 10.0


class KafkaJobs:
    """Puts jobs into the queue and takes them from it; connects at the first `put` or `take`."""

    def __init__(
        self,
        *,
        servers: KafkaServers,
        topics: Topics,
        cipher: MessageCipher,
        group: str = GROUP_DEFAULT,
        partitions: int = PARTITIONS_DEFAULT,
    ) -> None:
        self._servers = servers
        self._topics = topics
        self._partitions = partitions
        self._cipher = cipher
        self._feed = KafkaFeed(
            servers=servers,
            topics=topics,
            cipher=cipher,
            group=group,
            topic=topics.inbox_jobs,
            partitions=partitions,
            keeps_refused=True,  # a refused record may be a job of an older version
        )
        self._producer: Any = None
        self._connecting: asyncio.Task[Any] | None = None

    async def put(self, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        producer = None
        try:
            async with asyncio.timeout(PUT_SECONDS_MAX):
                producer = await self._connected()
                topic = self._topics.inbox_jobs
                sent = [
                    await producer.send(topic, self._cipher.seal(topic, encode_job(job)))
                    for job in jobs
                ]
                await asyncio.wait(sent)
            failures = (future.exception() for future in sent)
            if errors := [error for error in failures if error is not None]:
                raise errors[0]
        except (KafkaError, FeedUnavailable, OSError) as error:
            await self._let_go(producer)
            raise JobsUnavailable(f"{type(error).__name__}: {error}") from error

    async def take(self, most: int) -> Sequence[Taken]:
        try:
            found = await self._feed.take(most)
            taken = [job for event in found if (job := self._read(event)) is not None]
            await self._feed.write_dead_letters()
            return taken
        except FeedUnavailable as error:
            raise JobsUnavailable(str(error)) from error

    async def finish(self, taken: Taken) -> None:
        partition, offset = taken.handle.split("/")
        self._feed.finish(FeedEvent(int(partition), int(offset), b""))

    async def close(self) -> None:
        await self._feed.close()
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
        await self._let_go(self._producer)

    def _read(self, received: FeedEvent) -> Taken | None:
        """Return the job in a record.

        If the record contains no job, queue it to become a dead letter and return None.
        """
        try:
            job = decode_job(received.value)
        except NotAJob as reason:
            where = {"partition": received.partition, "offset": received.offset}
            log.error("not a job: %s", reason, extra={"action": "job_unreadable", **where})
            self._feed.dead_letter_later(received, str(reason))
            return None
        return Taken(job, f"{received.partition}/{received.offset}", 1)

    async def _connected(self) -> Any:  # noqa: ANN401 - the library has no types
        if self._producer is not None:
            return self._producer
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._tried)
        # A caller that gives up must not cancel the task: the library would leak a socket.
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Any:  # noqa: ANN401
        await ensure_topics(self._servers, self._topics, self._partitions)
        self._producer = await start_producer(self._servers)
        return self._producer

    def _tried(self, task: asyncio.Task[Any]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # read, so that asyncio does not log it; the waiting callers raise it

    async def _let_go(self, producer: Any) -> None:  # noqa: ANN401
        """Close the producer after a failure, because it may not recover; the next `put` opens
        another."""
        if producer is not None and producer is self._producer:
            self._producer = None
            await stop_producer(producer)


_conforms: type[Jobs] = KafkaJobs
