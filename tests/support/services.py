# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the real services: DynamoDB Local, Kafka, Redis, ElasticMQ, and moto for other AWS.

`dynamodb_endpoint`, `kafka_address`, `redis_url`, `sqs_endpoint` and `aws_endpoint` are shared by
all tests of a worker, and those in Java by all workers. They start when the first test needs
them. Each test uses its own names for tables, topics, keys and queues. If `make services` has
started a service, that one is used. `own_dynamodb`, `own_kafka` and `own_redis` belong to one
test, which may stop, kill and pause them; a coroutine does this with `asyncio.to_thread`.

If a service is not available, its tests are skipped, and the run reports this at its end. With
CI=true they fail instead.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeVar

import pytest

from scripts.services import running
from scripts.services.dynamodb_local import DynamoDBLocal
from scripts.services.elasticmq import ElasticMQ
from scripts.services.kafka_broker import KafkaBroker
from scripts.services.moto_server import MotoServer
from scripts.services.obtaining import Unavailable, must_be_had
from scripts.services.process import ServiceProcess
from scripts.services.redis_server import RedisServer
from scripts.services.s3proxy import S3Proxy
from tests.support import dynamo_tables
from tests.support.service_host import ask_for_service
from tests.support.spare_tables import drop_spare, forget_tables

__all__ = [
    "DynamoDBLocal",
    "KafkaBroker",
    "MotoServer",
    "RedisServer",
    "aws_endpoint",
    "do_without",
    "dynamodb_endpoint",
    "kafka_address",
    "own_dynamodb",
    "own_kafka",
    "own_redis",
    "owned",
    "redis_url",
    "s3proxy_endpoint",
    "shared_dynamodb",
    "sqs_endpoint",
    "tell_what_was_missing",
]


class Startable(Protocol):
    """A service, or several that belong together, with methods to start and stop."""

    @property
    def name(self) -> str: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


Service = TypeVar("Service", bound=Startable)

MEMORY_FOLDER: Final = "/dev/shm"
"""Where files are in memory: there the tables are in a file, which can have an index."""
TABLES_MAX: Final = 1_000
SETS_WITH_STREAMS_MAX: Final = 40

_MISSING: Final = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def shared_dynamodb(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DynamoDBLocal | str]:
    """Yield the DynamoDB Local of this worker, or the address of one that others use too.

    One that has to be restarted is not shared.
    """
    folder = tmp_path_factory.mktemp("dynamodb")
    service = DynamoDBLocal(folder, durable=folder.is_relative_to(MEMORY_FOLDER))
    if (address := _running_already(service)) is not None:
        yield address
        asyncio.run(drop_spare(address))
    elif service.is_durable and (address := _hosted(request, service)) is not None:
        yield address
    else:
        yield from owned(request, service)


@pytest.fixture(scope="module")
def dynamodb_endpoint(shared_dynamodb: DynamoDBLocal | str) -> str:
    """Return the endpoint of a DynamoDB Local with its tables in memory.

    Without an index, it becomes slow after a thousand tables, and after the changes of few streams,
    even if the tables were deleted. It is then restarted at the same address before the next
    module.
    """
    if isinstance(shared_dynamodb, str):
        return shared_dynamodb
    is_slow = (
        dynamo_tables.made > TABLES_MAX or dynamo_tables.made_with_streams > SETS_WITH_STREAMS_MAX
    )
    if is_slow and not shared_dynamodb.is_durable:
        shared_dynamodb.restart()
        dynamo_tables.made = dynamo_tables.made_with_streams = 0
        forget_tables(shared_dynamodb.address)
    return shared_dynamodb.address


@pytest.fixture(scope="session")
def kafka_address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield host and port of a Kafka broker, which does not create topics automatically."""
    yield from _shared(request, KafkaBroker(tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def redis_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the URL of a Redis server."""
    yield from _shared(request, RedisServer(tmp_path_factory.mktemp("redis")))


@pytest.fixture(scope="session")
def sqs_endpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the endpoint of ElasticMQ, a server with the protocol of SQS."""
    yield from _shared(request, ElasticMQ(tmp_path_factory.mktemp("elasticmq")))


@pytest.fixture(scope="session")
def aws_endpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the endpoint of moto, with CloudWatch, Application Auto Scaling and Backup."""
    yield from _shared(request, MotoServer(tmp_path_factory.mktemp("moto")))


@pytest.fixture(scope="session")
def s3proxy_endpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yield the endpoint of S3Proxy, a server with the protocol of S3."""
    yield from _shared(request, S3Proxy(tmp_path_factory.mktemp("s3proxy")))


@pytest.fixture
def own_dynamodb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DynamoDBLocal]:
    """Yield a DynamoDB Local for this test alone."""
    yield from owned(request, DynamoDBLocal(tmp_path / "dynamodb", durable=True))


@pytest.fixture
def own_kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaBroker]:
    """Yield a Kafka broker for this test alone; its topics survive a restart."""
    yield from owned(request, KafkaBroker(tmp_path / "kafka"))


@pytest.fixture
def own_redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a Redis server for this test alone; a restart deletes its data."""
    yield from owned(request, RedisServer(tmp_path / "redis"))


def tell_what_was_missing(reporter: pytest.TerminalReporter) -> None:
    """Print a line for each service that was not available."""
    for name, why in reporter.config.stash.get(_MISSING, {}).items():
        reporter.write_line(f"NOT TESTED: all that needs {name}: {why}", red=True, bold=True)


def _shared(request: pytest.FixtureRequest, service: ServiceProcess) -> Iterator[str]:
    address = _running_already(service) or _hosted(request, service)
    if address is not None:
        yield address
        return
    for started in owned(request, service):
        yield started.address


def _running_already(service: ServiceProcess) -> str | None:
    for other in running.services():
        if other.name == service.name and running.is_up(other):
            return other.address
    return None


def _hosted(request: pytest.FixtureRequest, service: ServiceProcess) -> str | None:
    """Return the address of the service that all workers share, if they share it."""
    try:
        return ask_for_service(request.config, service.name, service.folder.parents[1])
    except Unavailable as error:
        do_without(request.config, service.name, str(error))


def owned(request: pytest.FixtureRequest, service: Service) -> Iterator[Service]:
    """Start a service for a fixture, and stop it afterwards; skip the test if it is not
    available."""
    try:
        service.start()
    except Unavailable as error:
        do_without(request.config, service.name, str(error))
    try:
        yield service
    finally:
        service.stop()


def do_without(config: pytest.Config, name: str, why: str) -> NoReturn:
    """Skip a test whose service is not available, and report this at the end; in CI, fail
    instead."""
    config.stash.setdefault(_MISSING, {})[name] = why
    if must_be_had():
        pytest.fail(f"{name} is needed here: {why}", pytrace=False)
    pytest.skip(f"{name}: {why}")
