# SPDX-License-Identifier: Apache-2.0
"""The fleet of a fault run: its processes, the services below them, and what was done to them."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.cluster import Cluster, Services, many_processes
from tests.support.dynamo_proxy import DynamoProxy, dynamo_proxy
from tests.support.dynamo_tables import some_tables
from tests.support.services import KafkaBroker, RedisServer
from tidings.buses.kafka_clients import Topics

GATEWAYS: Final = ("gateway-1", "gateway-2")
WORKERS: Final = ("worker-1", "worker-2")
ROLES: Final = {
    **dict.fromkeys(GATEWAYS, "gateway,api"),
    **dict.fromkeys(WORKERS, "worker"),
    "relay": "relay",
}
STARTED_AT_ONCE: Final = 3


@dataclass(frozen=True, slots=True)
class Pause:
    """A gateway that stood still for a while, by the clients' clock."""

    url: str
    stopped: int
    resumed: int


@dataclass(slots=True)
class Done:
    """What was done to the fleet."""

    killed: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    flushed: int = 0
    broker_restarts: int = 0
    store_faults: int = 0
    store_silences: int = 0

    def __str__(self) -> str:
        return (
            f"{len(self.restarted)} processes restarted, {len(self.killed)} killed,"
            f" {len(self.pauses)} gateways paused,"
            f" Redis emptied {self.flushed} times, Kafka restarted {self.broker_restarts} times,"
            f" {self.store_faults} requests to the store spoilt,"
            f" {self.store_silences} silences of it"
        )


@dataclass(frozen=True, slots=True)
class Fleet:
    """Two gateways with the API, two workers, a relay."""

    cluster: Cluster
    kafka: KafkaBroker
    redis: RedisServer
    store: DynamoProxy
    prefix: str
    done: Done = field(default_factory=Done)
    paused: set[str] = field(default_factory=set)
    """Where gateways stand still now."""

    @property
    def urls(self) -> list[str]:
        """Where clients can go."""
        return [self.cluster[name].url for name in GATEWAYS]

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics(self.prefix)

    @property
    def group(self) -> str:
        """The group its workers are in."""
        return f"{self.prefix}delivery"

    async def pause(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
        process = self.cluster[name]
        os.kill(process.pid, signal.SIGSTOP)
        stopped = time.monotonic_ns()
        self.paused.add(process.url)
        try:
            await asyncio.sleep(seconds)
        finally:
            resumed = time.monotonic_ns()
            os.kill(process.pid, signal.SIGCONT)
            self.paused.discard(process.url)
        self.done.pauses.append(Pause(process.url, stopped, resumed))

    def log_lines(self, names: tuple[str, ...]) -> list[dict[str, object]]:
        """What some processes logged, all starts together."""
        return [line for name in names for line in self.cluster[name].log_lines()]


@asynccontextmanager
async def a_fleet(
    folder: Path,
    *,
    dynamodb: str,
    kafka: KafkaBroker,
    redis: RedisServer,
    launchers: Mapping[str, Path] | None = None,
    waits: str = "",
) -> AsyncIterator[Fleet]:
    """A running fleet; `launchers` are scripts that some of the processes run in place of us, and
    `waits` as in `ServerProcess`."""
    async with some_tables(dynamodb) as prefix, dynamo_proxy(dynamodb) as store:
        services = Services(store.address, kafka.address, redis.address)
        settings = many_processes(services, prefix) | {"push": "log", "limits": "off"}
        cluster = Cluster(folder, settings, ROLES, waits=waits)
        for name, launcher in (launchers or {}).items():
            cluster[name].launcher = launcher
        try:
            await cluster.start(STARTED_AT_ONCE)
            yield Fleet(cluster, kafka, redis, store, prefix)
        finally:
            await cluster.kill()
