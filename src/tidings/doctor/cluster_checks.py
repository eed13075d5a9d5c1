# SPDX-License-Identifier: Apache-2.0
"""Checks of the services between processes: Kafka, Redis and SQS."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tidings.assembly.jobs import kafka_servers, redis_servers
from tidings.config import Config, Kafka, Redis, Sqs
from tidings.doctor.findings import Finding, Subject, fault, fine, unknown, warning
from tidings.doctor.reaching import judge_clocks, judge_latency, reach, reached_in
from tidings.model.setup_error import SetupError, optional_import

if TYPE_CHECKING:
    from tidings.buses.kafka_clients import KafkaServers, Topics

KAFKA_SECONDS_SLOW: Final = 0.250
REDIS_SECONDS_SLOW: Final = 0.020
"""Time from which a call to Redis is reported as slow. Each message needs a few calls, and a call
that takes 250 ms fails."""
LAG_MAX: Final = 10_000
MEMORY_USED_MAX: Final = 0.9
_ANSWER_SECONDS_MAX: Final = 5.0
_ANSWER_MS_MAX: Final = 5_000


async def look_at_kafka(subject: Subject) -> AsyncIterator[Finding]:
    """Check the brokers, the topics with their replicas, the lag of workers, and dead letters."""
    with optional_import():
        from tidings.buses.kafka_clients import Topics
    kafka = _kafka(subject.config)
    for server in kafka.bootstrap.split(","):
        await reach(server)
    topics = Topics(kafka.prefix)
    async with _kafka_clients(kafka_servers(kafka)) as (admin, consumer):
        cluster, seconds = await reached_in(admin.describe_cluster)
        yield fine(f"Kafka has {len(cluster['brokers'])} brokers")
        yield judge_latency("Kafka", seconds, KAFKA_SECONDS_SLOW)
        described = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics()}
        for finding in judge_topics(topics, described, len(cluster["brokers"])):
            yield finding
        async for finding in _lags(kafka, topics, described, admin, consumer):
            yield finding
        async for finding in _dead_letters(topics, described, consumer):
            yield finding


def judge_topics(
    topics: "Topics", described: Mapping[str, list[dict[str, Any]]], brokers: int
) -> Iterator[Finding]:
    """Compare the topics with those that a deployment needs."""
    missing = [name for name in (topics.messages, topics.inbox_jobs) if name not in described]
    if missing:
        yield warning(
            f"Kafka has no topic {', '.join(missing)}",
            "start a process, which creates topics; if that fails, let its user create them",
        )
    for name in (name for name in (topics.messages, topics.inbox_jobs) if name in described):
        partitions = described[name]
        without = sum(part["leader"] < 0 for part in partitions)
        behind = sum(len(part["isr"]) < len(part["replicas"]) for part in partitions)
        copies = min(len(part["replicas"]) for part in partitions)
        if without:
            cure = "start the missing brokers; messages arrive late until then"
            yield fault(f"{without} partitions of {name} have no leader", cure)
        elif behind:
            cure = "start the missing brokers, or look whether they are overloaded"
            yield warning(f"{behind} partitions of {name} have too few replicas in sync", cure)
        elif copies < min(2, brokers):
            cure = f"give {name} three replicas (kafka-reassign-partitions.sh)"
            yield warning(f"{name} has one replica, so one lost disk loses its events", cure)
        else:
            yield fine(f"{name} has {len(partitions)} partitions with {copies} replicas")


async def _lags(
    kafka: Kafka,
    topics: "Topics",
    described: Mapping[str, list[dict[str, Any]]],
    admin: Any,  # noqa: ANN401 - the library has no types
    consumer: Any,  # noqa: ANN401
) -> AsyncIterator[Finding]:
    from aiokafka.errors import GroupCoordinatorNotAvailableError

    for topic, group in ((topics.messages, "delivery"), (topics.inbox_jobs, "inbox")):
        if topic in described:
            ends = await consumer.end_offsets(_partitions(topic, described))
            try:
                done = await admin.list_consumer_group_offsets(f"{kafka.prefix}{group}")
            except GroupCoordinatorNotAvailableError:
                done = {}  # no group has ever stored an offset at these brokers
            lag = sum(end - done[part].offset for part, end in ends.items() if part in done)
            yield judge_lag(topic, lag)


def judge_lag(topic: str, lag: int) -> Finding:
    """Return a finding about the number of events that workers have not finished."""
    told = f"workers have {lag:,} events of {topic} left"
    if lag <= LAG_MAX:
        return fine(told)
    return warning(told, "start more workers: docs/operations/runbooks/bus-late.md")


async def _dead_letters(
    topics: "Topics",
    described: Mapping[str, list[dict[str, Any]]],
    consumer: Any,  # noqa: ANN401 - the library has no types
) -> AsyncIterator[Finding]:
    for topic in (topics.dead_of(topics.messages), topics.dead_of(topics.inbox_jobs)):
        if topic in described:
            parts = _partitions(topic, described)
            starts, ends = (
                await consumer.beginning_offsets(parts),
                await consumer.end_offsets(parts),
            )
            if count := sum(ends.values()) - sum(starts.values()):
                yield warning(
                    f"{topic} has {count:,} dead letters",
                    "look at them with `tidings jobs list`: docs/operations/runbooks/jobs-aside.md",
                )


def _partitions(topic: str, described: Mapping[str, list[dict[str, Any]]]) -> list[Any]:
    from aiokafka import TopicPartition

    return [TopicPartition(topic, part["partition"]) for part in described[topic]]


@asynccontextmanager
async def _kafka_clients(servers: "KafkaServers") -> AsyncIterator[tuple[Any, Any]]:
    """Open an admin client and a consumer that joins no group.

    Raises:
        SetupError: Kafka does not let this user in, or refuses a request.
    """
    from aiokafka import AIOKafkaConsumer
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import KafkaError

    from tidings.buses.kafka_clients import start_client, stop_consumer

    options = {**servers.options(), "request_timeout_ms": _ANSWER_MS_MAX}
    admin, consumer = AIOKafkaAdminClient(**options), AIOKafkaConsumer(**options)
    try:
        await start_client(admin)
        await start_client(consumer)
        yield admin, consumer
    except KafkaError as error:
        raise SetupError(f"Kafka at {servers.bootstrap}: {error}") from error
    finally:
        await stop_consumer(consumer)
        await admin.close()


async def look_at_redis(subject: Subject) -> AsyncIterator[Finding]:
    """Check whether Redis answers and takes writes, its clock, and its memory."""
    with optional_import():
        from redis.exceptions import NoPermissionError, RedisError
    redis = _redis(subject.config)
    await reach(redis.url)
    connections = redis_servers(redis).connect(_ANSWER_SECONDS_MAX)
    client: Any = connections.redis
    try:
        _, seconds = await reached_in(client.ping)
        yield judge_latency("Redis", seconds, REDIS_SECONDS_SLOW)
        if redis.mode == "cluster":
            return
        at, microseconds = await client.time()
        yield judge_clocks(subject, "Redis", at * 1_000 + microseconds // 1_000)
        for finding in judge_redis(await client.info()):
            yield finding
    except NoPermissionError:
        yield unknown("the user of Redis may not use INFO, so its memory was not examined")
    except RedisError as error:
        raise SetupError(f"Redis: {error}") from error
    finally:
        await connections.close()


def judge_redis(info: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge the answer of INFO."""
    yield fine(f"Redis {info['redis_version']}")
    if info["role"] != "master":
        yield fault(
            "TIDINGS_REDIS_URL leads to a replica, which takes no writes",
            "name the primary: nothing is lost meanwhile, but messages arrive seconds later",
        )
    used, most = info["used_memory"], info["maxmemory"]
    if most and used > MEMORY_USED_MAX * most:
        yield warning(
            f"Redis has used {used / most:.0%} of its memory",
            "raise maxmemory, or give Tidings a Redis of its own",
        )


async def look_at_sqs(subject: Subject) -> AsyncIterator[Finding]:
    """Check whether the queue of delivery jobs answers, and how much it contains."""
    with optional_import():
        from tidings.stores.dynamodb.schema.live import aws_client
    sqs = _sqs(subject.config)
    await reach(sqs.queue_url)
    parts = urlsplit(sqs.queue_url)
    endpoint = f"{parts.scheme}://{parts.netloc}"
    async with aws_client("sqs", endpoint=endpoint, region=sqs.region) as client:
        names = ["ApproximateNumberOfMessages"]
        answer, seconds = await reached_in(
            lambda: client.get_queue_attributes(QueueUrl=sqs.queue_url, AttributeNames=names)
        )
    yield judge_latency("SQS", seconds, KAFKA_SECONDS_SLOW)
    yield judge_lag("the queue", int(answer["Attributes"][names[0]]))


def _kafka(config: Config) -> Kafka:
    assert config.cluster is not None, "the check is for clusters"
    return config.cluster.kafka


def _redis(config: Config) -> Redis:
    assert config.cluster is not None, "the check is for clusters"
    return config.cluster.redis


def _sqs(config: Config) -> Sqs:
    assert config.sqs is not None, "the check is for SQS"
    return config.sqs
