# SPDX-License-Identifier: Apache-2.0
"""Taking events from Kafka, as one of a group of workers.

Offsets are committed after the effects, about once a second: after a crash or a rebalance events
come again. Nobody is hurt by that, nor by offsets that are set back to the beginning.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tidings.buses.kafka_clients import (
    PARTITIONS_DEFAULT,
    RETRY_MS,
    KafkaServers,
    Topics,
    ensure_topics,
    start_client,
    start_producer,
)
from tidings.buses.kafka_closing import CONSUMER_SECONDS_MAX, stop_consumer, stop_producer
from tidings.model import limits
from tidings.ports.bus import Feed, FeedEvent, FeedUnavailable
from tidings.wire.message_cipher import MessageCipher


class Offsets:
    """What was taken from each partition and is not finished, and up to where all of it is."""

    def __init__(self) -> None:
        self._open: dict[int, OrderedDict[int, bool]] = {}
        self._next: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def taken(self, partition: int, offset: int) -> None:
        """An event was taken; offsets of a partition come in ascending order."""
        self._open.setdefault(partition, OrderedDict())[offset] = False

    def finished(self, partition: int, offset: int) -> None:
        """It is done with; unless the partition was given away in the meantime."""
        taken = self._open.get(partition)
        if taken is None or offset not in taken:
            return
        taken[offset] = True
        while taken:
            first, is_finished = next(iter(taken.items()))
            if not is_finished:
                break
            del taken[first]
            self._next[partition] = first + 1

    def news(self) -> dict[int, int]:
        """Where each partition would be taken up again, if that has changed since it was told."""
        return {
            partition: offset
            for partition, offset in self._next.items()
            if self._told.get(partition) != offset
        }

    def told(self, offsets: dict[int, int]) -> None:
        """The group knows these."""
        self._told.update(offsets)

    def give_away(self, partition: int) -> None:
        """Another one takes from the partition now."""
        for of_partition in (self._open, self._next, self._told):
            of_partition.pop(partition, None)


log = logging.getLogger("tidings.bus")

GROUP_DEFAULT: Final = "tidings-delivery"
TAKE_MS_MAX: Final = 200
COMMIT_SECONDS: Final = 1.0
SESSION_MS: Final = 10_000
ASIDE_BYTES_MAX: Final = 512 * limits.KIB
"""How much of a record is put aside: with what is written about it, it has to fit again."""
ASIDE_WAITING_MAX: Final = 1_000
"""Beyond this nothing more is taken until some of them could be put aside."""


class KafkaFeed:
    """One member of a group, which begins at the first `take`."""

    def __init__(
        self,
        *,
        servers: KafkaServers,
        topics: Topics,
        cipher: MessageCipher,
        group: str = GROUP_DEFAULT,
        topic: str | None = None,
        partitions: int = PARTITIONS_DEFAULT,
        keeps_refused: bool = False,
    ) -> None:
        """`topic` is one of the topics; the messages' if none is named.

        What the cipher does not open is dropped, or with `keeps_refused` put aside first.
        """
        self._servers = servers
        self._topics = topics
        self._topic = topic or topics.messages
        self._cipher = cipher
        self._keeps_refused = keeps_refused
        self._group = group
        self._partitions = partitions
        self._consumer: Any = None
        self._producer: Any = None
        self._offsets = Offsets()
        self._aside: deque[tuple[FeedEvent, str]] = deque()
        """What is to be put aside, with the reasons."""
        self._committed_at = 0.0
        self.commits = 0
        self.failed_commits = 0

    @property
    def refused(self) -> int:
        """Records that this deployment did not seal for this topic."""
        return self._cipher.refused

    async def take(self, most: int) -> Sequence[FeedEvent]:
        if self._consumer is None:
            self._consumer = await self._joined()
        await self._commit_if_due()
        await self.put_aside_waiting()
        if len(self._aside) >= ASIDE_WAITING_MAX:
            raise FeedUnavailable("too many records wait to be put aside")
        try:
            found = await self._consumer.getmany(timeout_ms=TAKE_MS_MAX, max_records=most)
        except (KafkaError, OSError) as error:
            raise FeedUnavailable(str(error)) from error
        received = []
        for records in found.values():
            for record in records:
                self._offsets.taken(record.partition, record.offset)
                sealed = FeedEvent(record.partition, record.offset, record.value or b"")
                if (value := self._cipher.open(self._topic, sealed.value)) is not None:
                    received.append(FeedEvent(record.partition, record.offset, value))
                elif self._keeps_refused:
                    self.put_aside_later(sealed, "not sealed by this deployment for this topic")
                else:
                    self.finish(sealed)
        await self.put_aside_waiting()
        return received

    def put_aside_later(self, received: FeedEvent, reason: str) -> None:
        """Have a record put aside as soon as that can be done, and finished then.

        One that cannot be put aside must not take with it those that came with it.
        """
        self._aside.append((received, reason))

    async def put_aside_waiting(self) -> None:
        """Put aside what waits for it; what cannot be now waits on. Each `take` tries again."""
        while self._aside:
            received, reason = self._aside.popleft()
            try:
                await self.dead_letter(received, reason)
            except FeedUnavailable as error:
                log.warning("cannot put aside: %s", error, extra={"action": "aside_failed"})
                self._aside.appendleft((received, reason))
                return
            self.finish(received)

    def finish(self, received: FeedEvent) -> None:
        self._offsets.finished(received.partition, received.offset)

    async def dead_letter(self, received: FeedEvent, reason: str) -> None:
        headers = [
            ("reason", reason.encode()),
            ("partition", str(received.partition).encode()),
            ("offset", str(received.offset).encode()),
        ]
        if len(received.value) > ASIDE_BYTES_MAX:
            headers.append(("bytes", str(len(received.value)).encode()))
        try:
            if self._producer is None:
                self._producer = await start_producer(self._servers)
            dead = self._topics.dead_of(self._topic)
            value = received.value[:ASIDE_BYTES_MAX]
            await self._producer.send_and_wait(dead, value, headers=headers)
        except (KafkaError, OSError) as error:
            raise FeedUnavailable(str(error)) from error

    async def close(self) -> None:
        if self._consumer is not None:
            await self._commit()
            consumer, self._consumer = self._consumer, None
            await stop_consumer(consumer)
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await stop_producer(producer)

    async def _joined(self) -> Any:  # noqa: ANN401 - the library has no types
        await ensure_topics(self._servers, self._topics, self._partitions)
        consumer = AIOKafkaConsumer(
            **self._servers.options(),
            group_id=self._group,
            enable_auto_commit=False,
            # A group without a place begins with the oldest event: that costs some reading, where
            # beginning with the latest would leave it all to the relay.
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            request_timeout_ms=2 * SESSION_MS,
            retry_backoff_ms=RETRY_MS,
        )
        consumer.subscribe([self._topic], listener=_GivesAway(self))
        try:
            await start_client(consumer)
        except BaseException as error:
            await stop_consumer(consumer)
            if isinstance(error, KafkaError | OSError):
                raise FeedUnavailable(str(error)) from error
            raise
        return consumer

    async def _commit_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._committed_at >= COMMIT_SECONDS:
            self._committed_at = now
            await self._commit()

    async def _commit(self) -> None:
        news = self._offsets.news()
        if not news:
            return
        places = {TopicPartition(self._topic, partition): news[partition] for partition in news}
        try:
            async with asyncio.timeout(CONSUMER_SECONDS_MAX):
                await self._consumer.commit(places)
        except (KafkaError, OSError, TimeoutError) as error:
            # The events come again, to whoever has the partition then.
            self.failed_commits += 1
            log.warning("offsets not kept: %s", error, extra={"action": "commit_failed"})
        else:
            self.commits += 1
            self._offsets.told(news)

    async def give_away(self, partitions: set[int]) -> None:
        """The group shares the work out anew: commit what is finished, forget the rest."""
        await self._commit()
        for partition in partitions:
            self._offsets.give_away(partition)
        self._aside = deque(one for one in self._aside if one[0].partition not in partitions)


class _GivesAway(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, feed: KafkaFeed) -> None:
        self._feed = feed

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._feed.give_away({one.partition for one in revoked})

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Taking goes on where the group was told it stands."""


_conforms: type[Feed] = KafkaFeed
