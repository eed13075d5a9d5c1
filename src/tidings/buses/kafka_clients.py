# SPDX-License-Identifier: Apache-2.0
"""Where Kafka is and how to log in there; starting a client so that nothing is left behind."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from tidings.buses.kafka_closing import stop_producer
from tidings.ports.bus import FeedUnavailable

GIVE_UP_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sasl:
    """A name and a password, and how they are shown to Kafka."""

    mechanism: str
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KafkaServers:
    """The servers a client begins with, and what it needs to be let in."""

    bootstrap: str
    """host:port, several with commas."""
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None

    def options(self) -> dict[str, Any]:
        """What every client of the library is given."""
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
    """Start a consumer, a producer or an admin client; whoever gives up waits until it has.

    Cut off halfway, the library loses the connection it began with: open, and in nobody's hands.
    """
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=GIVE_UP_SECONDS_MAX)
        if starting.done() and not starting.cancelled():
            starting.exception()  # looked at, so that nobody is told it was not
        else:
            starting.cancel()
        raise


PARTITIONS_DEFAULT: Final = 12
"""As many workers can share the work. More partitions later would break the order of a chat."""
EVENTS_KEPT_MS: Final = 60 * 60 * 1_000
"""Events make delivery fast, the log makes it right: there is no reason to keep sealed content."""
JOBS_KEPT_MS: Final = 7 * 24 * 60 * 60 * 1_000
"""A delivery job is nowhere else: it waits here until workers come back, or an operator does."""
COPIES_MAX: Final = 3
"""Of each topic, as far as there are brokers to hold them."""
ANSWER_MS_MAX: Final = 5_000
RETRY_MS: Final = 500
"""How often the library tries to reach a broker that is away, and says in the log that it is."""


class Topics(msgspec.Struct, frozen=True):
    """Their names, under a prefix of the deployment's own choice."""

    prefix: str = ""

    @property
    def messages(self) -> str:
        """What workers take: a chat's events are in one partition, in order."""
        return f"{self.prefix}messages"

    @property
    def inbox_jobs(self) -> str:
        """Delivery jobs of the inbox, in no order."""
        return f"{self.prefix}inbox-jobs"

    @staticmethod
    def dead_of(topic: str) -> str:
        """What no worker could make sense of, for an operator to look at."""
        return f"{topic}-dead"


async def ensure_topics(
    servers: KafkaServers, topics: Topics, partitions: int = PARTITIONS_DEFAULT
) -> None:
    """Make the topics that are missing; those that are there stay as they are.

    Raises:
        FeedUnavailable: Kafka does not answer, or does not let us.
    """
    admin = AIOKafkaAdminClient(
        **servers.options(), request_timeout_ms=ANSWER_MS_MAX, retry_backoff_ms=RETRY_MS
    )
    try:
        await start_client(admin)
        there = set(await admin.list_topics())
        if any(topic.name not in there for topic in _wanted(topics, partitions, 1)):
            brokers = len((await admin.describe_cluster())["brokers"])
            wanted = _wanted(topics, partitions, min(COPIES_MAX, brokers))
            missing = [topic for topic in wanted if topic.name not in there]
            answer = await admin.create_topics(missing)
            _check(answer.topic_errors)
    except (KafkaError, OSError) as error:
        raise FeedUnavailable(f"the topics cannot be made: {error}") from error
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
            # Of three brokers two have what Kafka says it has: then one may be lost for good.
            "min.insync.replicas": str(max(1, copies - 1)),
        },
    )


def _check(errors: list[tuple[str, int, str]]) -> None:
    # Another process may have been quicker.
    for name, code, message in errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise FeedUnavailable(f"topic {name}: {message or for_code(code).__name__}")


async def start_producer(servers: KafkaServers) -> Any:  # noqa: ANN401 - the library has no types
    """A producer that is connected.

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
