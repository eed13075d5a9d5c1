# SPDX-License-Identifier: Apache-2.0
"""Consumes events from Kafka as a member of a group, and commits the offsets of finished events.

Offsets are committed about once per second, after the work for the events is done. Therefore some
events are received again after a crash or a rebalance. This is harmless, however many they are.
"""

import asyncio
import logging
from collections import deque
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
    stop_consumer,
    stop_producer,
)
from tidings.buses.kafka_commits import Commits
from tidings.buses.kafka_offsets import Offsets
from tidings.metrics import declared
from tidings.metrics.counts import report_counts
from tidings.metrics.meters import Reading, report
from tidings.model import limits
from tidings.ports.bus import Feed, FeedEvent, FeedUnavailable
from tidings.tasks import Backlog
from tidings.tracing.spans import TRACEPARENT
from tidings.wire.events import MessageCipher

log = logging.getLogger("tidings.bus")

GROUP_DEFAULT: Final = "tidings-delivery"
TAKE_MS_MAX: Final = 200
COMMIT_SECONDS: Final = 1.0
SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 3_000
"""How often a worker reports to its group, and learns of workers that join or leave."""
FAILURES_MAX: Final = 5
"""Number of failed polls in a row after which the consumer is replaced, since it may never recover.
"""
LOG_SECONDS_MIN: Final = 60.0
SILENT_SECONDS_MAX: Final = 1.5
"""Time without an answer of Kafka after which events may wait there. Kafka answers a request for
events after half a second even if there are none."""
TRACE_BYTES_MAX: Final = 64
DEAD_LETTER_BYTES_MAX: Final = 512 * limits.KIB
"""Maximum number of bytes that a dead letter copies from its record. The rest is cut off, because
the dead letter has additional headers and must fit into a record, too."""
DEAD_LETTER_SECONDS_MAX: Final = 10.0
"""Maximum time to write a dead letter, which includes connecting to Kafka."""
DEAD_LETTERS_WAITING_MAX: Final = 1_000
"""Maximum number of records that wait to become dead letters. At this number, `take` raises
FeedUnavailable."""


class KafkaFeed:
    """Consumes events as a member of a group, which it joins at the first `take`."""

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
        backlog: Backlog | None = None,
    ) -> None:
        """Set up the feed. It consumes `topic`, or the topic of messages if none is given.

        `backlog` learns for how long Kafka has been silent.

        If the cipher cannot decrypt a record, the record becomes a dead letter if `keeps_refused`
        is True; otherwise it is dropped.
        """
        self._servers = servers
        self._topics = topics
        self._topic = topic or topics.messages
        self._cipher = cipher
        self._keeps_refused = keeps_refused
        self._group = group
        self._partitions = partitions
        self._consumer: Any = None
        self._committing = Commits()
        self._producer: Any = None
        self._producing = asyncio.Lock()
        """Held while a dead letter is written. If one write fails, the producer is stopped, and
        another write that waits for the same producer would never end."""
        self._offsets = Offsets()
        self._dead_letters: deque[tuple[FeedEvent, str]] = deque()
        """Records that wait to become dead letters, with the reasons."""
        self._committed_at = 0.0
        self._failures = 0
        """Number of polls in a row that failed."""
        self._logged_at = -LOG_SECONDS_MIN
        self._polling_since: float | None = None
        """When the poll began that has not ended yet; None if there is none."""
        self._heard: dict[TopicPartition, tuple[int | None, float]] = {}
        """For each partition, the time of Kafka's last answer by the clock of the machine, and
        since when this process knows of it, by the clock of its loop."""
        if backlog is not None:
            backlog.watch(self.silent_seconds)
        self.commits = 0
        self.failed_commits = 0
        report_counts(self, "kafka feed")
        report(self, KafkaFeed.lag)

    @property
    def refused(self) -> int:
        """Number of records that were refused because this deployment did not encrypt them for this
        topic."""
        return self._cipher.refused

    async def take(self, most: int) -> Sequence[FeedEvent]:
        try:
            if self._consumer is None:
                self._consumer = await self._joined()
            await self._commit_if_due()
            await self.write_dead_letters()
            if len(self._dead_letters) >= DEAD_LETTERS_WAITING_MAX:
                raise FeedUnavailable("too many records wait to become dead letters")
            found = await self._poll(most)
        except FeedUnavailable as error:
            self._warn(str(error))
            raise
        received = []
        for records in found.values():
            for record in records:
                self._offsets.taken(record.partition, record.offset)
                sealed = FeedEvent(record.partition, record.offset, record.value or b"")
                if (value := self._cipher.open(self._topic, sealed.value)) is not None:
                    trace = _trace_in(record.headers)
                    received.append(FeedEvent(record.partition, record.offset, value, trace))
                elif self._keeps_refused:
                    self.dead_letter_later(
                        sealed, "not encrypted by this deployment for this topic"
                    )
                else:
                    self.finish(sealed)
        await self.write_dead_letters()
        return received

    async def _poll(self, most: int) -> dict[TopicPartition, list[Any]]:
        """Return the next records of each partition.

        A consumer that has failed too often is replaced. When the task of the library that reports
        to the group has ended with an error, it is not started again, and every poll raises that
        error.
        """
        self._polling_since = asyncio.get_running_loop().time()
        try:
            found: dict[TopicPartition, list[Any]] = await self._consumer.getmany(
                timeout_ms=TAKE_MS_MAX, max_records=most
            )
        except Exception as error:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                await self._stop_consumer()
            if isinstance(error, KafkaError | OSError):
                raise FeedUnavailable(f"{type(error).__name__}: {error}") from error
            raise
        finally:
            self._polling_since = None
        self._failures = 0
        return found

    def silent_seconds(self) -> float:
        """Return for how long Kafka may have had events of which this worker does not know; 0 if
        Kafka answers.

        The library does not raise while it cannot reach a broker, and a poll waits without a limit
        until the group has assigned partitions.
        """
        if self._consumer is None:
            return 0.0
        now, before = asyncio.get_running_loop().time(), self._heard
        self._heard = {}
        for part in self._consumer.assignment():
            answered_at, known = self._consumer.last_poll_timestamp(part), before.get(part)
            if known is None or known[0] != answered_at:
                known = (answered_at, now)
            self._heard[part] = known
        since = min((since for _, since in self._heard.values()), default=now)
        if self._polling_since is not None:
            since = min(since, self._polling_since)
        return now - since if now - since > SILENT_SECONDS_MAX else 0.0

    def dead_letter_later(self, received: FeedEvent, reason: str) -> None:
        """Queue a record to become a dead letter. The record is finished when that is written.

        The dead letter is written later, so that a failure does not affect the other records of a
        `take`.
        """
        self._dead_letters.append((received, reason))

    async def write_dead_letters(self) -> None:
        """Write the queued dead letters. After a failure the rest waits for the next `take`."""
        while self._dead_letters:
            received, reason = self._dead_letters.popleft()
            try:
                await self.dead_letter(received, reason)
            except FeedUnavailable as error:
                log.warning(
                    "dead letter not written: %s", error, extra={"action": "dead_letter_failed"}
                )
                self._dead_letters.appendleft((received, reason))
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
        if len(received.value) > DEAD_LETTER_BYTES_MAX:
            headers.append(("bytes", str(len(received.value)).encode()))
        dead, value = self._topics.dead_of(self._topic), received.value[:DEAD_LETTER_BYTES_MAX]
        async with self._producing:
            try:
                async with asyncio.timeout(DEAD_LETTER_SECONDS_MAX):
                    if self._producer is None:
                        self._producer = await start_producer(self._servers)
                    await self._producer.send_and_wait(dead, value, headers=headers)
            except (KafkaError, OSError) as error:  # a TimeoutError is an OSError
                await self._stop_producer()  # some errors of a producer are for ever
                raise FeedUnavailable(f"{type(error).__name__}: {error}") from error

    def lag(self) -> list[Reading]:
        """Return the number of events that this member of the group has not finished.

        The end of a partition is known from the last fetch. A partition from which nothing was
        finished yet counts as having no lag.
        """
        if self._consumer is None:
            return []
        lag = 0
        for part in self._consumer.assignment():
            if (end := self._consumer.highwater(part)) is not None:
                lag += self._offsets.behind(part.partition, end)
        return [(declared.bus_lag_entries, self._topic.removeprefix(self._topics.prefix), lag)]

    async def close(self) -> None:
        if self._consumer is not None:
            await self._commit()
            await self._stop_consumer()
        await self._stop_producer()

    async def _stop_consumer(self) -> None:
        """Leave the group, and forget which events were taken: the next member of the group takes
        again those that are not committed."""
        consumer, self._consumer = self._consumer, None
        self._offsets, self._failures = Offsets(), 0
        self._dead_letters.clear()
        await stop_consumer(consumer)
        self._committing.end()

    async def _stop_producer(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await stop_producer(producer)

    def _warn(self, error: str) -> None:
        """Log why no events are taken, at most once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_SECONDS_MIN:
            self._logged_at = now
            extra = {"action": "feed_trouble", "topic": self._topic, "error": error}
            log.warning("nothing can be taken from Kafka", extra=extra)

    async def _joined(self) -> Any:  # noqa: ANN401 - the library has no types
        await ensure_topics(self._servers, self._topics, self._partitions)
        consumer = AIOKafkaConsumer(
            **self._servers.options(),
            group_id=self._group,
            enable_auto_commit=False,
            # A group without offsets starts with the oldest event. This takes some reading, but if
            # it started with the newest, only the relay would deliver the older ones.
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
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
        offsets = {TopicPartition(self._topic, partition): news[partition] for partition in news}
        try:
            await self._committing.commit(self._consumer, offsets)
        except (KafkaError, OSError, TimeoutError) as error:
            # The worker that consumes the partition next takes these events again.
            self.failed_commits += 1
            log.warning("offsets not committed: %s", error, extra={"action": "commit_failed"})
        else:
            self.commits += 1
            self._offsets.committed(news)

    async def give_away(self, partitions: set[int]) -> None:
        """Commit the finished events of these partitions and stop tracking the unfinished ones,
        because the group gives the partitions to another worker."""
        await self._commit()
        for partition in partitions:
            self._offsets.give_away(partition)
        self._dead_letters = deque(
            (record, reason)
            for record, reason in self._dead_letters
            if record.partition not in partitions
        )


class _GivesAway(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, feed: KafkaFeed) -> None:
        self._feed = feed

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._feed.give_away({partition.partition for partition in revoked})

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Do nothing: consuming continues at the committed offsets."""


def _trace_in(headers: Sequence[tuple[str, bytes]]) -> str | None:
    """Return the `traceparent` of a record. Anybody who can write to Kafka could have written it,
    so a tracer may only refer to it."""
    for name, value in headers:
        if name == TRACEPARENT and len(value) <= TRACE_BYTES_MAX:
            return value.decode("ascii", errors="replace")
    return None


_conforms: type[Feed] = KafkaFeed
