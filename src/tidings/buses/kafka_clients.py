# SPDX-License-Identifier: Apache-2.0
"""The address, credentials and topics of Kafka, and clients that start and close cleanly.

To close cleanly, this module uses internals of the library; no other module does. The library's
version is capped in `pyproject.toml`, and a unit test fails if the source of an internal function
that we use has changed.
"""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from tidings.ports.bus import FeedUnavailable

PRODUCER_SECONDS_MAX: Final = 2.0
CONSUMER_SECONDS_MAX: Final = 5.0
"""Maximum time for leaving the group."""

GIVE_UP_SECONDS_MAX: Final = 5.0
PARTITIONS_DEFAULT: Final = 12
"""Number of partitions of a topic, and so the maximum number of workers that can share its work.

Partitions cannot be added later: the events of a chat would no longer be in order."""
EVENTS_KEPT_MS: Final = 60 * 60 * 1_000
"""Retention of events. It is short, because the relay delivers entries whose events are gone, and
encrypted content should not stay in Kafka without need."""
JOBS_KEPT_MS: Final = 7 * 24 * 60 * 60 * 1_000
"""Retention of delivery jobs. It is long, because a job exists only in Kafka, and must still be
there when workers run again after an outage."""
COPIES_MAX: Final = 3
"""Maximum number of replicas of a topic. There are fewer if there are fewer brokers."""
ANSWER_MS_MAX: Final = 5_000
RETRY_MS: Final = 500
"""Pause between the library's attempts to reach a broker. The library logs each attempt."""


async def stop_producer(producer: Any) -> None:  # noqa: ANN401 - the library has no types
    """Close a producer; events that it has not sent are lost."""
    try:
        async with asyncio.timeout(PRODUCER_SECONDS_MAX):
            await producer.stop()
    except TimeoutError:
        # The producer still waits for unsent events, and would try to send them forever.
        await producer._sender.close()
        await _close_client(producer.client)
    except (KafkaError, OSError):
        pass


async def stop_consumer(consumer: Any) -> None:  # noqa: ANN401
    """Leave the group and close every connection, even if the group does not answer."""
    try:
        async with asyncio.timeout(CONSUMER_SECONDS_MAX):
            await consumer.stop()
    except (KafkaError, OSError, TimeoutError):
        # The consumer still waits for the group. Its tasks and connections must not leak.
        if consumer._coordinator is not None:
            await consumer._coordinator._stop_heartbeat_task()
            await consumer._coordinator._stop_commit_offsets_refresh_task()
            await consumer._fetcher.close()
        await _close_client(consumer._client)


async def _close_client(client: Any) -> None:  # noqa: ANN401
    """Close every connection of a client, even if closing them was cancelled before."""
    try:
        await client.close()
    except asyncio.CancelledError:
        # The library waits for futures, and those that were cancelled stay cancelled.
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise


@dataclass(frozen=True, slots=True)
class Sasl:
    """Name and password for Kafka, and the mechanism of authentication."""

    mechanism: str
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KafkaServers:
    """Addresses of Kafka's bootstrap servers, with TLS and credentials."""

    bootstrap: str
    """Addresses as host:port, separated by commas."""
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None

    def options(self) -> dict[str, Any]:
        """Return the options that every client of the library needs."""
        encrypted = "SSL" if self.tls is not None else "PLAINTEXT"
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": f"SASL_{encrypted}" if self.sasl else encrypted,
            "ssl_context": self.tls,
        }
        if self.sasl is not None:
            options |= {
                "sasl_mechanism": self.sasl.mechanism,
                "sasl_plain_username": self.sasl.username,
                "sasl_plain_password": self.sasl.password,
            }
        return options


async def start_client(client: Any) -> None:  # noqa: ANN401 - the library has no types
    """Start a consumer, a producer or an admin client.

    If the caller is cancelled, this waits until the client has started. Otherwise the library would
    leak the connection that it had begun to open.
    """
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=GIVE_UP_SECONDS_MAX)
        if starting.done() and not starting.cancelled():
            starting.exception()  # read the exception, so that asyncio does not log it
        else:
            starting.cancel()
        raise


class Topics(msgspec.Struct, frozen=True):
    """Names of the topics, with the deployment's prefix."""

    prefix: str = ""

    @property
    def messages(self) -> str:
        """Topic of events for the workers. All events of a chat are in one partition, in order."""
        return f"{self.prefix}messages"

    @property
    def inbox_jobs(self) -> str:
        """Topic of delivery jobs for notifications. Their order does not matter."""
        return f"{self.prefix}inbox-jobs"

    @staticmethod
    def dead_of(topic: str) -> str:
        """Return the topic for the dead letters of a topic, which an operator can inspect."""
        return f"{topic}-dead"


async def ensure_topics(
    servers: KafkaServers, topics: Topics, partitions: int = PARTITIONS_DEFAULT
) -> None:
    """Create the topics that are missing. Existing topics are not changed.

    Raises:
        FeedUnavailable: Kafka does not answer, or does not allow this client to create topics.
    """
    admin = AIOKafkaAdminClient(
        **servers.options(), request_timeout_ms=ANSWER_MS_MAX, retry_backoff_ms=RETRY_MS
    )
    try:
        await start_client(admin)
        existing = set(await admin.list_topics())
        if any(topic.name not in existing for topic in _wanted(topics, partitions, 1)):
            brokers = len((await admin.describe_cluster())["brokers"])
            wanted = _wanted(topics, partitions, min(COPIES_MAX, brokers))
            missing = [topic for topic in wanted if topic.name not in existing]
            answer = await admin.create_topics(missing)
            _check(answer.topic_errors)
    except (KafkaError, OSError) as error:
        raise FeedUnavailable(f"the topics cannot be created: {error}") from error
    finally:
        await admin.close()


def _wanted(topics: Topics, partitions: int, copies: int) -> list[NewTopic]:
    messages, jobs = topics.messages, topics.inbox_jobs
    return [
        _topic(messages, partitions, copies, EVENTS_KEPT_MS),
        _topic(topics.dead_of(messages), 1, copies, EVENTS_KEPT_MS),
        _topic(jobs, partitions, copies, JOBS_KEPT_MS),
        _topic(topics.dead_of(jobs), 1, copies, JOBS_KEPT_MS),
    ]


def _topic(name: str, partitions: int, copies: int, kept_ms: int) -> NewTopic:
    return NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=copies,
        topic_configs={
            "retention.ms": str(kept_ms),
            # All events that Kafka confirmed are on two of three brokers, so one may be lost.
            "min.insync.replicas": str(max(1, copies - 1)),
        },
    )


def _check(errors: list[tuple[str, int, str]]) -> None:
    # Another process may have created a topic at the same time.
    for name, code, message in errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise FeedUnavailable(f"topic {name}: {message or for_code(code).__name__}")


async def start_producer(servers: KafkaServers) -> Any:  # noqa: ANN401 - the library has no types
    """Return a connected producer.

    Raises:
        KafkaError, OSError: Kafka cannot be reached.
    """
    producer = AIOKafkaProducer(
        **servers.options(),
        acks="all",
        enable_idempotence=True,
        request_timeout_ms=ANSWER_MS_MAX,
        retry_backoff_ms=RETRY_MS,
    )
    try:
        await start_client(producer)
    except BaseException:
        await stop_producer(producer)
        raise
    return producer
