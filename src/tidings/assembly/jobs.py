# SPDX-License-Identifier: Apache-2.0
"""Opens the queue of delivery jobs, and reads the settings of Kafka and Redis."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tidings.assembly.system import wait_patiently
from tidings.aws.transport import NoCredentials
from tidings.config import Config
from tidings.model.setup_error import SetupError, optional_import
from tidings.ports.bus import Jobs
from tidings.ports.store import Store
from tidings.ports.world import Clock
from tidings.wire.events import MessageCipher

if TYPE_CHECKING:
    from tidings.buses.kafka_clients import KafkaServers


def kafka_servers(config: Config) -> "KafkaServers":
    """Return the Kafka servers with TLS and credentials.

    Raises:
        SetupError: The certificate and its key are not valid or do not belong together.
    """
    from tidings.buses.kafka_clients import KafkaServers, Sasl

    assert config.kafka_bootstrap is not None, "settings are checked"
    sasl = None
    if config.kafka_username is not None and config.kafka_password is not None:
        sasl = Sasl(config.kafka_sasl.upper(), config.kafka_username, config.kafka_password)
    return KafkaServers(config.kafka_bootstrap, _tls(config), sasl)


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.kafka_tls == "off":
        return None
    context = ssl.create_default_context(cafile=config.kafka_ca)
    if config.kafka_certificate is not None:
        try:
            # Refuses an encrypted key; without a password here, OpenSSL would ask on the terminal.
            context.load_cert_chain(
                config.kafka_certificate, config.kafka_certificate_key, password=lambda: ""
            )
        except ssl.SSLError as error:
            raise SetupError(
                "TIDINGS_KAFKA_CERTIFICATE and TIDINGS_KAFKA_CERTIFICATE_KEY are not a "
                f"certificate and its key: {error.reason or error}"
            ) from error
    return context


if TYPE_CHECKING:
    from tidings.cluster.redis_servers import RedisServers


def redis_servers(config: Config) -> "RedisServers":
    """Return the Redis server or cluster, with TLS and credentials."""
    from tidings.cluster.redis_servers import RedisServers

    assert config.redis_url is not None, "settings are checked"
    return RedisServers(
        config.redis_url,
        ca=config.redis_ca,
        password=config.redis_password,
        is_cluster=config.redis_mode == "cluster",
    )


@asynccontextmanager
async def open_jobs(
    config: Config, store: Store, cipher: MessageCipher, clock: Clock
) -> AsyncIterator[Jobs]:
    """Open the queue, which need not be reachable yet.

    Raises:
        SetupError: The operator has to change something first.
    """
    try:
        match config.queue:
            case "kafka":
                jobs = _kafka(config, cipher)
                try:
                    yield jobs
                finally:
                    await jobs.close()
            case "sqs":
                async with _sqs(config, cipher, clock) as jobs:
                    yield jobs
            case _:
                yield store.jobs
    except NoCredentials as none:
        raise SetupError(str(none)) from none


def _kafka(config: Config, cipher: MessageCipher) -> Jobs:
    with optional_import():
        from tidings.buses.kafka_clients import Topics
        from tidings.buses.kafka_jobs import KafkaJobs

    return KafkaJobs(
        servers=kafka_servers(config),
        topics=Topics(config.kafka_prefix),
        cipher=cipher,
        group=f"{config.kafka_prefix}inbox",
    )


@asynccontextmanager
async def _sqs(config: Config, cipher: MessageCipher, clock: Clock) -> AsyncIterator[Jobs]:
    with optional_import():
        from tidings.buses.sqs import open_sqs_jobs

    assert config.sqs_queue_url and config.sqs_region, "settings are checked"
    async with open_sqs_jobs(
        queue_url=config.sqs_queue_url,
        region=config.sqs_region,
        cipher=cipher,
        clock=clock,
        back_off=wait_patiently,
    ) as jobs:
        yield jobs
