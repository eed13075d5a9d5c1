# SPDX-License-Identifier: Apache-2.0
"""Connects this process to the others: through Kafka for events, Redis for connections and
limits."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from tidings.actions.rate_limits import RateLimits
from tidings.assembly.core import Core
from tidings.assembly.jobs import kafka_servers, redis_servers
from tidings.assembly.system import wait_patiently
from tidings.config import Config, Kafka
from tidings.limiters import InProcessBuckets
from tidings.model.setup_error import optional_import
from tidings.ports.delivery import HandoverTarget, RemoteGateways
from tidings.tasks import Backlog

if TYPE_CHECKING:
    from tidings.buses.kafka import KafkaPublisher
    from tidings.cluster.answering import Answerer
    from tidings.cluster.handover import RedisHandover, RedisHandoverReceiver
    from tidings.cluster.processes import RedisProcesses
    from tidings.cluster.pulse import DeliveryPulse
    from tidings.cluster.redis_link import RedisLink
    from tidings.cluster.registry import RedisRegistry

NAME_BYTES: Final = 8


class ClusterLinks(msgspec.Struct, frozen=True):
    """The parts that communicate with other processes; each survives an outage of its service."""

    name: str
    """Name of this process, which is new at every start."""
    kafka: Kafka
    """Settings for a worker, which opens its own consumer."""
    link: "RedisLink"
    registry: "RedisRegistry"
    handover: "RedisHandover"
    publisher: "KafkaPublisher"
    backlog: Backlog
    """Events that this process has not published or not delivered yet."""
    pulse: "DeliveryPulse"
    processes: "RedisProcesses"

    @property
    def remote_gateways(self) -> RemoteGateways:
        """Return the part that finds and reaches users on other gateways."""
        return RemoteGateways(self.registry, self.handover, self.name)

    def handover_receiver(
        self, target: HandoverTarget, answerers: "Mapping[str, Answerer] | None" = None
    ) -> "RedisHandoverReceiver":
        """Return the receiver of handovers and questions for this gateway; the caller starts and
        closes it."""
        from tidings.cluster.handover import RedisHandoverReceiver

        return RedisHandoverReceiver(self.link, self.name, target, answerers)

    def answerer(
        self, name: str, answerers: "Mapping[str, Answerer]"
    ) -> AbstractAsyncContextManager[None]:
        """Answer questions to all processes that listen under this name, while it is open."""
        from tidings.cluster.answering import run_answerer

        return run_answerer(self.link, self.name, name, answerers)


@asynccontextmanager
async def open_cluster_links(config: Config, core: Core) -> AsyncIterator[ClusterLinks | None]:
    """Open and start the links; return None if this is the only process of its deployment.

    Raises:
        SetupError: A library is not installed.
    """
    if config.cluster is None:
        yield None
        return
    kafka, redis = config.cluster.kafka, config.cluster.redis
    with optional_import():
        from tidings.cluster.handover import RedisHandover
        from tidings.cluster.processes import RedisProcesses
        from tidings.cluster.pulse import DeliveryPulse
        from tidings.cluster.redis_link import RedisLink
        from tidings.cluster.registry import RedisRegistry
    name = core.chance.token(NAME_BYTES).hex()
    async with AsyncExitStack() as stack:
        link = RedisLink(redis_servers(redis), redis.prefix, core.vault.messages)
        stack.push_async_callback(link.close)
        registry = RedisRegistry(link, name)
        stack.push_async_callback(registry.close)
        handover = RedisHandover(link, core.chance)
        stack.push_async_callback(handover.close)
        handover.start()
        backlog = Backlog()
        pulse = DeliveryPulse(link, name, backlog, is_worker="worker" in config.process.roles)
        stack.push_async_callback(pulse.close)
        pulse.start()
        publisher = _publisher(kafka, core, backlog)
        stack.push_async_callback(publisher.close)
        publisher.start()
        processes = RedisProcesses(link, core.clock)
        yield ClusterLinks(
            name, kafka, link, registry, handover, publisher, backlog, pulse, processes
        )


def _publisher(kafka: Kafka, core: Core, backlog: Backlog) -> "KafkaPublisher":
    with optional_import():
        from tidings.buses.kafka import KafkaPublisher
        from tidings.buses.kafka_clients import Topics
    return KafkaPublisher(
        core.bus,
        servers=kafka_servers(kafka),
        topics=Topics(kafka.prefix),
        cipher=core.vault.messages,
        back_off=wait_patiently,
        backlog=backlog,
    )


def make_limits(config: Config, others: ClusterLinks | None) -> RateLimits | None:
    """Return the rate limits, which all processes share; None if they are off."""
    if not config.network.has_limits:
        return None
    own = InProcessBuckets()
    if others is None:
        return RateLimits(own, own)
    from tidings.limiters import RedisBuckets

    return RateLimits(RedisBuckets(others.link), own)
