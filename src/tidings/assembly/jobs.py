# SPDX-License-Identifier: Apache-2.0
"""Opening the queue of delivery jobs that the settings ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidings.assembly.kafka import kafka_servers
from tidings.assembly.stores import needs
from tidings.aws.trouble import NoCredentials
from tidings.config import Config
from tidings.ports.jobs import Jobs
from tidings.ports.store import Store
from tidings.ports.world import Clock
from tidings.stores.trouble import StoreRefused
from tidings.wire.message_cipher import MessageCipher
from tidings.world import wait_patiently


@asynccontextmanager
async def open_jobs(
    config: Config, store: Store, cipher: MessageCipher, clock: Clock
) -> AsyncIterator[Jobs]:
    """The queue; it need not be there yet.

    Raises:
        StoreRefused: What only the operator can put right.
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
    except ModuleNotFoundError as missing:
        raise StoreRefused(needs(missing)) from missing
    except NoCredentials as none:
        raise StoreRefused(str(none)) from none


def _kafka(config: Config, cipher: MessageCipher) -> Jobs:
    from tidings.buses.kafka_jobs import KafkaJobs
    from tidings.buses.kafka_topics import Topics

    return KafkaJobs(
        servers=kafka_servers(config),
        topics=Topics(config.kafka_prefix),
        cipher=cipher,
        group=f"{config.kafka_prefix}inbox",
    )


@asynccontextmanager
async def _sqs(config: Config, cipher: MessageCipher, clock: Clock) -> AsyncIterator[Jobs]:
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
