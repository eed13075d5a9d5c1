# SPDX-License-Identifier: Apache-2.0
"""The topics of a deployment on Kafka."""

from typing import Final

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from tidings.buses.kafka_clients import KafkaServers, start_client
from tidings.ports.feed import FeedUnavailable

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
