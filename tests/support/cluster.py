# SPDX-License-Identifier: Apache-2.0
"""Many server processes on the same tables, Kafka and Redis, each with roles of its own."""

import asyncio
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.device import Device
from tests.support.engine import Settings, as_environment, on_tables
from tests.support.people import Person, Town
from tests.support.server import ServerProcess

ROOT_KEY: Final = secrets.token_urlsafe(32)
MASTER_KEY: Final = b64encode(secrets.token_bytes(32)).decode()


class Services(NamedTuple):
    """Where the services are."""

    dynamodb: str
    kafka: str
    redis: str


def many_processes(services: Services, prefix: str) -> Settings:
    """The settings that the processes of one deployment share."""
    return {
        **on_tables(services.dynamodb, prefix),
        "bus": "kafka",
        "kafka_bootstrap": services.kafka,
        "kafka_prefix": prefix,
        "registry": "redis",
        "redis_url": services.redis,
        "redis_prefix": f"{prefix}:",
        "root_key": ROOT_KEY,
        "master_key": MASTER_KEY,
    }


class Cluster:
    """Processes by name."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        roles: Mapping[str, str],
        own: Mapping[str, Settings] | None = None,
    ) -> None:
        """`own` are settings of single processes, by their names."""
        self.processes = {}
        for name, does in roles.items():
            environment = as_environment({**settings, **(own or {}).get(name, {}), "roles": does})
            self.processes[name] = ServerProcess(folder / name, environment=environment)

    def __getitem__(self, name: str) -> ServerProcess:
        return self.processes[name]

    def town(self, tenant: str, api: str = "api") -> Town:
        """A tenant, made through one of the processes that answer requests."""
        return Town(self[api].url, ROOT_KEY, tenant)

    def device(
        self, person: Person, gateway: str, name: str = "phone", *, reconnects: bool = False
    ) -> Device:
        """A device of a person that connects to one of the gateways."""
        return Device(self[gateway].url, person.token, name, reconnects=reconnects)

    async def start(self, at_once: int) -> None:
        """Start them, so many at once: each has only so long to get ready."""
        free = asyncio.Semaphore(at_once)

        async def start(process: ServerProcess) -> None:
            async with free:
                await process.start()

        async with asyncio.TaskGroup() as group:
            for process in self.processes.values():
                group.create_task(start(process))

    async def stop(self) -> dict[str, int]:
        """Stop those that run, all at once; the exit codes."""
        async with asyncio.TaskGroup() as group:
            ending = {
                name: group.create_task(process.terminate())
                for name, process in self.processes.items()
                if process.exit_code is None
            }
        return {name: task.result() for name, task in ending.items()}

    async def kill(self) -> None:
        """End what is left."""
        for process in self.processes.values():
            await process.kill()


@asynccontextmanager
async def a_cluster(
    folder: Path,
    services: Services,
    prefix: str,
    roles: Mapping[str, str],
    *,
    at_once: int = 2,
    more: Mapping[str, str] | None = None,
    own: Mapping[str, Settings] | None = None,
) -> AsyncIterator[Cluster]:
    """Processes on tables that are there; at the end all of them stop as they should.

    `more` are further settings for all of them, `own` of single ones.
    """
    settings = {**many_processes(services, prefix), **(more or {})}
    cluster = Cluster(folder, settings, roles, own)
    try:
        await cluster.start(at_once)
        yield cluster
        codes = await cluster.stop()
        assert set(codes.values()) <= {0}, codes
    finally:
        await cluster.kill()
