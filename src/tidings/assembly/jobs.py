# SPDX-License-Identifier: Apache-2.0
"""Opens the queue of delivery jobs, and converts the settings of Kafka and Redis."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tidings.assembly.system import wait_patiently
from tidings.config import Config, Kafka, Redis, Sqs
from tidings.config.settings import KafkaTls
from tidings.model.setup_error import SetupError, optional_import
from tidings.ports.bus import Jobs
from tidings.ports.store import Store
from tidings.ports.world import Clock
from tidings.wire.events import MessageCipher

if TYPE_CHECKING:
    from tidings.buses.kafka_clients import KafkaServers


def kafka_servers(kafka: Kafka) -> "KafkaServers":
    """Return the Kafka servers with TLS and credentials.

    Raises:
        SetupError: The certificate and its key are not valid or do not belong together.
    """
    from tidings.buses.kafka_clients import KafkaServers, Sasl

    login = kafka.login
    sasl = Sasl(login.sasl.upper(), login.username, login.password) if login else None
    return KafkaServers(kafka.bootstrap, _tls(kafka.tls) if kafka.tls else None, sasl)


def _tls(tls: KafkaTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)
    if tls.certificate is not None:
        try:
            # This refuses an encrypted key. Without a password here, OpenSSL would ask on the
            # terminal.
            context.load_cert_chain(tls.certificate, tls.certificate_key, password=lambda: "")
        except ssl.SSLError as error:
            raise SetupError(
                "TIDINGS_KAFKA_CERTIFICATE and TIDINGS_KAFKA_CERTIFICATE_KEY are not a "
                f"certificate and its key: {error.reason or error}"
            ) from error
    return context


if TYPE_CHECKING:
    from tidings.cluster.redis_servers import RedisServers


def redis_servers(redis: Redis) -> "RedisServers":
    """Return the Redis server or cluster, with TLS and credentials."""
    from tidings.cluster.redis_servers import RedisServers

    return RedisServers(
        redis.url, ca=redis.ca, password=redis.password, is_cluster=redis.mode == "cluster"
    )


@asynccontextmanager
async def open_jobs(
    config: Config, store: Store, cipher: MessageCipher, clock: Clock
) -> AsyncIterator[Jobs]:
    """Open the queue of delivery jobs. Its service need not be reachable yet.

    Raises:
        SetupError: The operator has to change something first.
    """
    if config.sqs is not None:
        async with _sqs(config.sqs, cipher, clock) as jobs:
            yield jobs
    elif config.cluster is not None:
        jobs = _kafka(config.cluster.kafka, cipher)
        try:
            yield jobs
        finally:
            await jobs.close()
    else:
        yield store.jobs


def _kafka(kafka: Kafka, cipher: MessageCipher) -> Jobs:
    with optional_import():
        from tidings.buses.kafka_clients import Topics
        from tidings.buses.kafka_jobs import KafkaJobs

    return KafkaJobs(
        servers=kafka_servers(kafka),
        topics=Topics(kafka.prefix),
        cipher=cipher,
        group=f"{kafka.prefix}inbox",
    )


@asynccontextmanager
async def _sqs(sqs: Sqs, cipher: MessageCipher, clock: Clock) -> AsyncIterator[Jobs]:
    with optional_import():
        from tidings.buses.sqs import open_sqs_jobs

    async with open_sqs_jobs(
        queue_url=sqs.queue_url,
        region=sqs.region,
        cipher=cipher,
        clock=clock,
        back_off=wait_patiently,
    ) as jobs:
        yield jobs
