# SPDX-License-Identifier: Apache-2.0
"""Runs several server processes on the same tables, Kafka and Redis, each with its own roles."""

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
    """Addresses of the services."""

    dynamodb: str
    kafka: str
    redis: str


def many_processes(services: Services, prefix: str) -> Settings:
    """Return the settings that all processes of one deployment share."""
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
    """The server processes of one deployment, by name."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        roles: Mapping[str, str],
        own: Mapping[str, Settings] | None = None,
        waits: str = "",
    ) -> None:
        """Create the processes without starting them; `own` has settings of single processes, by
        name, and `waits` the waits that are shorter than in a deployment."""
        self.processes = {}
        for name, does in roles.items():
            environment = as_environment({**settings, **(own or {}).get(name, {}), "roles": does})
            self.processes[name] = ServerProcess(
                folder / name, environment=environment, waits=waits
            )

    def __getitem__(self, name: str) -> ServerProcess:
        return self.processes[name]

    def town(self, tenant: str, api: str = "api") -> Town:
        """Return a tenant that sends its requests to one of the processes."""
        return Town(self[api].url, ROOT_KEY, tenant)

    def device(
        self, person: Person, gateway: str, name: str = "phone", *, reconnects: bool = False
    ) -> Device:
        """Return a device of a person that connects to one of the gateways."""
        return Device(self[gateway].url, person.token, name, reconnects=reconnects)

    async def start(self, at_once: int) -> None:
        """Start all processes, `at_once` at a time, because each has a limited time to become
        ready."""
        free = asyncio.Semaphore(at_once)

        async def start(process: ServerProcess) -> None:
            async with free:
                await process.start()

        async with asyncio.TaskGroup() as group:
            for process in self.processes.values():
                group.create_task(start(process))

    async def stop(self) -> dict[str, int]:
        """Stop all running processes at the same time; return their exit codes."""
        async with asyncio.TaskGroup() as group:
            ending = {
                name: group.create_task(process.terminate())
                for name, process in self.processes.items()
                if process.exit_code is None
            }
        return {name: task.result() for name, task in ending.items()}

    async def kill(self) -> None:
        """Kill the processes that still run."""
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
    waits: str = "",
) -> AsyncIterator[Cluster]:
    """Run processes on existing tables; on exit, check that all of them stop with exit code 0.

    `more` are further settings for all processes, `own` those for single processes, and `waits` the
    waits that are shorter than in a deployment.
    """
    settings = {**many_processes(services, prefix), **(more or {})}
    cluster = Cluster(folder, settings, roles, own, waits)
    try:
        await cluster.start(at_once)
        yield cluster
        codes = await cluster.stop()
        assert set(codes.values()) <= {0}, codes
    finally:
        await cluster.kill()
