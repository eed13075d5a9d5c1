# SPDX-License-Identifier: Apache-2.0
"""Publishes to Kafka every entry that this process appends to a log, for workers to deliver.

No request waits for Kafka. When Kafka is slow or down, events are dropped and counted. The relay
finds the entries that were not delivered, and delivers them. The events of each partition wait in a
queue of their own, so that a partition without a leader does not hold up the others.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from aiokafka.errors import KafkaError
from aiokafka.partitioner import DefaultPartitioner

from tidings.buses.kafka_clients import (
    PARTITIONS_DEFAULT,
    PRODUCER_SECONDS_MAX,
    KafkaServers,
    Topics,
    ensure_topics,
    start_producer,
    stop_producer,
)
from tidings.metrics.counts import report_counts
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.ports.bus import Appended, Bus, FeedUnavailable
from tidings.tasks import Backlog, Tasks
from tidings.tracing.spans import (
    DESTINATION,
    MESSAGE_ID,
    OPERATION_NAME,
    OPERATION_TYPE,
    SYSTEM,
    TRACEPARENT,
    Attributes,
    Span,
)
from tidings.wire.events import CleanedEvent, HintEvent, MessageCipher, encode_event, entry_event

log = logging.getLogger("tidings.bus")

WAITING_EVENTS_MAX: Final = 2_000
"""Limit on events of one partition that wait for Kafka."""
HINT_SECONDS_MAX: Final = 2.0
NO_HINTS_SECONDS: Final = 10.0
"""Time after a hint that Kafka did not confirm, in which no other hint is sent. The relay delivers
without hints meanwhile, instead of waiting for each of them."""
LOG_SECONDS_MIN: Final = 10.0
FAILURES_MAX: Final = 50
"""Number of failures in a row after which the producer is replaced, since it may never recover."""


RELAYED_SECONDS: Final = 30.0
"""Time within which the relay delivers an entry whose event was dropped."""


class _Event(msgspec.Struct, frozen=True, eq=False):
    """An encrypted event that waits for Kafka."""

    chat: ChatId
    sealed: bytes
    span: Span | None = None

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of the record, which carry nothing but the place in a trace."""
        return [] if self.span is None else [(TRACEPARENT, self.span.traceparent.encode())]

    def end_span(self, error: str | None = None) -> None:
        """End the span of the event, if it is traced."""
        if self.span is not None:
            self.span.end(error=error)


class _PartitionQueue(msgspec.Struct, eq=False):
    """Events of one partition that wait for Kafka, in order."""

    events: deque[_Event] = msgspec.field(default_factory=deque)
    has_events: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


_partition_of = DefaultPartitioner()


class KafkaPublisher:
    """Publishes the entries on the process's own bus to Kafka, in order."""

    def __init__(
        self,
        bus: Bus,
        *,
        servers: KafkaServers,
        topics: Topics,
        cipher: MessageCipher,
        back_off: Callable[[int], Awaitable[None]],
        backlog: Backlog,
        partitions: int = PARTITIONS_DEFAULT,
    ) -> None:
        """Set up the publisher; `back_off(n)` waits up to a few seconds before the n-th
        reconnection.

        `backlog` gets the events that Kafka has not confirmed.
        """
        self._servers = servers
        self._topics = topics
        self._cipher = cipher
        self._partitions = partitions
        self._back_off = back_off
        self._backlog = backlog
        self._queues = [_PartitionQueue() for _ in range(partitions)]
        self._producer: Any = None
        self._unanswered: set[asyncio.Future[Any]] = set()
        """The answers of Kafka that the producer waits for."""
        self._tasks = Tasks("kafka publisher")
        self._logged_at = -LOG_SECONDS_MIN
        self.published = 0
        self.dropped = 0
        self._failures = 0
        self._has_failed = asyncio.Event()
        """Set when the producer has failed too often."""
        self._hints_again_at = 0.0
        report_counts(self, "kafka publisher")
        bus.subscribe(self._on_appended, Appended)

    def start(self) -> None:
        """Start to publish. Kafka need not be reachable yet."""
        self._tasks.repeat(self._publish)

    async def close(self) -> None:
        """Send the waiting events, for at most `PRODUCER_SECONDS_MAX`, and stop."""
        await self._tasks.close()
        if self._producer is not None:
            with suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(PRODUCER_SECONDS_MAX):
                    async with asyncio.TaskGroup() as group:
                        for queue in self._queues:
                            group.create_task(self._send_all(queue))
                    await self._producer.flush()
        await self._stop_producer()

    async def hint(self, chat: ChatId, sequence: int) -> bool:
        """Send the workers the head of a chat; return True only if Kafka confirmed it."""
        now = asyncio.get_running_loop().time()
        if self._producer is None or now < self._hints_again_at:
            return False
        event = self._sealed(encode_event(HintEvent(chat, sequence)))
        try:
            async with asyncio.timeout(HINT_SECONDS_MAX):
                await self._producer.send_and_wait(self._topics.messages, event, key=chat.encode())
        except (KafkaError, TimeoutError):
            self._hints_again_at = now + NO_HINTS_SECONDS
            self._note_failure()  # a relay of its own publishes nothing else
            return False
        self._failures = 0
        return True

    def cleaned(self, chat: ChatId, sequences: tuple[int, ...]) -> None:
        """Inform the workers that messages of a chat have expired and their content was removed."""
        self._put(chat, encode_event(CleanedEvent(chat, sequences)))

    def _on_appended(self, event: Appended) -> None:
        span = None if event.span is None else self._begin_span(event.span, event.entry)
        self._put(event.entry.chat_id, entry_event(event.entry, event.state.head), span)

    def _begin_span(self, append: Span, entry: Entry) -> Span:
        attributes: Attributes = {
            SYSTEM: "kafka",
            DESTINATION: self._topics.messages,
            OPERATION_NAME: "publish",
            OPERATION_TYPE: "send",
            MESSAGE_ID: entry.message_id,
        }
        return append.child("publish", kind="producer", attributes=attributes)

    def _put(self, chat: ChatId, event: bytes, span: Span | None = None) -> None:
        waiting = _Event(chat, self._sealed(event), span)
        self._backlog.begin(waiting)
        queue = _partition_of(chat.encode(), self._queues, self._queues)
        if len(queue.events) >= WAITING_EVENTS_MAX:
            self._drop(waiting, "too many events wait for Kafka")
            return
        queue.events.append(waiting)
        queue.has_events.set()

    def _sealed(self, event: bytes) -> bytes:
        return self._cipher.seal(self._topics.messages, event)

    async def _publish(self) -> None:
        """Publish with a new producer, until it has failed too often."""
        await self._stop_producer()
        self._producer = await self._connected()
        self._failures = 0
        self._has_failed.clear()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._publish_queue(queue)) for queue in self._queues]
                await self._has_failed.wait()
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _publish_queue(self, queue: _PartitionQueue) -> None:
        while True:
            await self._send_all(queue)
            queue.has_events.clear()
            await queue.has_events.wait()

    async def _send_all(self, queue: _PartitionQueue) -> None:
        """Send the events of a queue, until the producer has failed too often."""
        while queue.events and self._failures < FAILURES_MAX:
            await self._send(queue.events.popleft())

    async def _stop_producer(self) -> None:
        """Stop the producer, and drop the events that Kafka has not confirmed.

        A producer that is stopped while it cannot reach Kafka never ends their futures.
        """
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_producer(producer)
        for answer in self._unanswered:
            answer.cancel()

    async def _connected(self) -> Any:  # noqa: ANN401 - the library has no types
        attempt = 0
        while True:
            try:
                await ensure_topics(self._servers, self._topics, self._partitions)
                return await start_producer(self._servers)
            except (FeedUnavailable, KafkaError, OSError) as error:
                attempt += 1
                self._warn(f"Kafka cannot be reached: {error}")
                await self._back_off(attempt)

    async def _send(self, event: _Event) -> None:
        """Pass an event to the Kafka library.

        This waits for space in the library's buffer, but not for Kafka.
        """
        try:
            sent = await self._producer.send(
                self._topics.messages,
                event.sealed,
                key=event.chat.encode(),
                headers=event.headers,
            )
        except (KafkaError, OSError) as error:
            self._note_failure()
            self._drop(event, str(error))
        except BaseException:
            self._drop(event, "not sent before the producer was replaced")
            raise
        else:
            self._unanswered.add(sent)
            sent.add_done_callback(partial(self._answered, event))

    def _answered(self, event: _Event, sent: "asyncio.Future[Any]") -> None:
        self._unanswered.discard(sent)
        if sent.cancelled():
            self._drop(event, "closed before Kafka answered")
        elif (error := sent.exception()) is not None:
            self._note_failure()
            self._drop(event, str(error))
        else:
            self._failures = 0
            self.published += 1
            self._backlog.end(event)
            event.end_span()

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            self._has_failed.set()

    def _drop(self, event: _Event, reason: str) -> None:
        self.dropped += 1
        self._backlog.end_later(event, RELAYED_SECONDS)
        event.end_span("dropped")
        self._warn(f"events are dropped: {reason}")

    def _warn(self, message: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_SECONDS_MIN:
            self._logged_at = now
            log.warning(message, extra={"action": "kafka_trouble", "dropped": self.dropped})
