# SPDX-License-Identifier: Apache-2.0
"""The way to the other processes of a deployment: Kafka for events, Redis for connections."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidings.actions.elsewhere import Elsewhere
from tidings.assembly.core import Core
from tidings.assembly.kafka import kafka_servers
from tidings.assembly.redis import redis_servers
from tidings.assembly.stores import needs
from tidings.config import Config
from tidings.ports.handover import Doorstep
from tidings.stores.trouble import StoreRefused
from tidings.world import wait_patiently

if TYPE_CHECKING:
    from tidings.buses.kafka import KafkaPublisher
    from tidings.registries.handover import RedisHandover
    from tidings.registries.link import RedisLink
    from tidings.registries.mailbox import RedisMailbox
    from tidings.registries.redis import RedisRegistry

NAME_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Others:
    """What a process of many has to reach the rest; each part copes with its service being away."""

    name: str
    """This process's own: one that starts again has another."""
    link: "RedisLink"
    registry: "RedisRegistry"
    handover: "RedisHandover"
    publisher: "KafkaPublisher"

    @property
    def elsewhere(self) -> Elsewhere:
        """The other gateways."""
        return Elsewhere(self.registry, self.handover, self.name)

    def mailbox(self, doorstep: Doorstep) -> "RedisMailbox":
        """What comes from others for this gateway; to be started and closed."""
        from tidings.registries.mailbox import RedisMailbox

        return RedisMailbox(self.link, self.name, doorstep)


@asynccontextmanager
async def open_others(config: Config, core: Core) -> AsyncIterator[Others | None]:
    """Open the ways, running; None for a process that is alone.

    Raises:
        StoreRefused: A library is not installed.
    """
    if config.is_alone:
        yield None
        return
    try:
        from tidings.registries.handover import RedisHandover
        from tidings.registries.link import RedisLink
        from tidings.registries.redis import RedisRegistry
    except ModuleNotFoundError as missing:
        raise StoreRefused(needs(missing)) from missing
    name = core.chance.token(NAME_BYTES).hex()
    async with AsyncExitStack() as stack:
        link = RedisLink(redis_servers(config), config.redis_prefix, core.vault.messages)
        stack.push_async_callback(link.close)
        registry = RedisRegistry(link, name)
        stack.push_async_callback(registry.close)
        handover = RedisHandover(link, core.chance)
        stack.push_async_callback(handover.close)
        handover.start()
        publisher = _publisher(config, core)
        stack.push_async_callback(publisher.close)
        publisher.start()
        yield Others(name, link, registry, handover, publisher)


def _publisher(config: Config, core: Core) -> "KafkaPublisher":
    try:
        from tidings.buses.kafka import KafkaPublisher
        from tidings.buses.kafka_topics import Topics
    except ModuleNotFoundError as missing:
        raise StoreRefused(needs(missing)) from missing
    return KafkaPublisher(
        core.bus,
        servers=kafka_servers(config),
        topics=Topics(config.kafka_prefix),
        cipher=core.vault.messages,
        back_off=wait_patiently,
    )
