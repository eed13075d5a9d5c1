# SPDX-License-Identifier: Apache-2.0
"""One server as several processes: the owner with the store, and fronts with the sockets."""

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.integration.cores import all_of, open_deployment
from tests.integration.socket_town import closed_with, friends, told, until_entries
from tests.support.cluster import ROOT_KEY, Services, many_processes
from tests.support.device import Device
from tests.support.dynamo_tables import some_tables
from tests.support.engine import as_environment
from tests.support.many_processes import FRONTS, ManyProcesses, children_of
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import WAIT_SECONDS, until
from tidings.data_folder import LOCK
from tidings.model.blocks import Block
from tidings.model.ids import user_key

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ManyProcesses]:
    """A server with two fronts for all tests of this module."""
    data = tmp_path_factory.mktemp("many") / "data"
    async with ManyProcesses(data, environment=NO_LIMITS, waits="owners") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(server: ManyProcesses) -> AsyncIterator[Town]:
    async with Town(server.url, server.root_key) as opened:
        yield opened


@asynccontextmanager
async def group(
    town: Town, *names: str, reconnects: bool = False
) -> AsyncIterator[tuple[str, list[Device]]]:
    """A group and a connected device of each member; neighbours are at different fronts."""
    chat, members = await friends(town, *names)
    devices = [await member.device(reconnects=reconnects).connect() for member in members]
    try:
        yield chat, devices
    finally:
        await all_of(device.close() for device in devices)


async def read(server: ManyProcesses, path: str) -> Any:
    headers = {"Authorization": f"Bearer {server.root_key}"}
    async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client:
        answer = await client.get(f"{server.url}{path}", headers=headers)
        assert answer.status_code == 200, answer.text
        return answer


async def processes(server: ManyProcesses) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await read(server, "/v1/state")).json()["processes"]
    return found


async def opened_sockets(server: ManyProcesses) -> float:
    """The number of sockets that were opened so far, according to the metrics."""
    lines = (await read(server, "/metrics")).text.splitlines()
    [line] = [one for one in lines if one.startswith("tidings_sockets_opened_total ")]
    return float(line.split()[1])


async def test_sockets_are_spread_and_everybody_gets_every_entry_once(
    server: ManyProcesses, town: Town
) -> None:
    async with group(town, "ann", "ben", "cleo", "dan") as (chat, devices):
        await all_of(device.send(chat) for device in devices for _ in range(5))
        for device in devices:
            got = await until_entries(device, chat, 1 + 15)
            assert sorted(set(got)) == got, "in order, and none twice"

        async def are_spread() -> bool:
            sockets = [one["sockets"] for one in await processes(server) if one["sockets"]]
            return len(sockets) == FRONTS and sum(sockets) == len(devices)

        await until(are_spread)

        async def are_measured() -> bool:
            return 'tidings_sockets{client="unknown"} 4.0' in (await read(server, "/metrics")).text

        await until(are_measured)


async def test_the_owner_dies_and_no_socket_notices(server: ManyProcesses, town: Town) -> None:
    async with group(town, "ann", "ben", "cleo") as (chat, devices):
        connections = [told(device, "welcome")[0]["connection"] for device in devices]
        async with asyncio.TaskGroup() as sending:
            sends = [sending.create_task(one.send(chat)) for one in devices for _ in range(10)]
            await server.kill_owner()
        answers = [send.result() for send in sends]
        await devices[0].send(chat)
        await until(lambda: all(one.logs.have.get(chat, 0) == 1 + 31 for one in devices))
        assert len({answer["sequence"] for answer in answers}) == len(sends), "none is stored twice"
        after = [told(device, "welcome")[-1]["connection"] for device in devices]
        assert (after, [device.closes for device in devices]) == (connections, [[]] * len(devices))


async def test_a_front_dies_and_only_its_sockets_do(tmp_path: Path) -> None:
    async with (
        # A server of its own has no other sockets, so these are spread evenly.
        ManyProcesses(tmp_path / "data", environment=NO_LIMITS, waits="owners") as server,
        Town(server.url, server.root_key) as town,
        group(town, "ann", "ben", "cleo", "dan") as (chat, devices),
    ):
        before = await opened_sockets(server)
        os.kill(server.fronts[0], signal.SIGKILL)
        await until(lambda: sum(not device.is_open for device in devices) == len(devices) // 2)
        await server.start()
        left = [device for device in devices if device.is_open]
        await left[0].send(chat)
        await until_entries(left[1], chat, 2)
        assert await opened_sockets(server) >= before, "no total shrinks when a front ends"
        again = next(device for device in devices if not device.is_open)
        await again.connect()
        await until_entries(again, chat, 2)


async def test_a_block_ends_on_a_socket_that_was_opened_during_it(town: Town) -> None:
    chat, (ann, ben) = await friends(town, "ann", "ben")
    await ann.call("PUT", f"/v1/me/blocks/{ben.user_id}")
    async with ann.device() as device:
        await ben.send(chat)
        await until_entries(device, chat, 2)
        await ann.call("DELETE", f"/v1/me/blocks/{ben.user_id}")
        await ben.send(chat)
        await until_entries(device, chat, 3)
        before, after = told(device, "entry", chat=chat, kind="message")
        assert ("content" in before, "content" in after) == (False, True)


def is_free(data: Path) -> bool:
    """Whether no process holds the lock of a data folder."""
    with (data / LOCK).open() as lock, suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


async def test_a_block_of_an_owner_that_died_before_it_told_of_it_is_in_force(
    server: ManyProcesses, town: Town
) -> None:
    chat, (ann, ben) = await friends(town, "ann", "ben")
    async with ann.device() as device:
        dead = server.owner
        assert dead is not None
        os.kill(server.pid, signal.SIGSTOP)  # the supervisor must not start another owner yet
        try:
            os.kill(dead, signal.SIGKILL)
            await until(lambda: is_free(server.data))
            async with open_deployment(server.data) as stored:
                user, other = (user_key(town.tenant, one.user_id) for one in (ann, ben))
                block = Block(user=user, blocked=other, created_at=stored.clock.now())
                await stored.core.store.blocks.put(block)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await until(lambda: server.owner not in (None, dead))
        await server.start()

        async def is_hidden() -> bool:
            sent = await ben.send(chat)
            await until_entries(device, chat, sent["sequence"])
            return "content" not in told(device, "entry", chat=chat, kind="message")[-1]

        await until(is_hidden)
        assert device.closes == [], "it is the same socket"


async def test_a_signal_to_stop_lets_everybody_go(tmp_path: Path) -> None:
    async with ManyProcesses(tmp_path / "data") as server:
        async with Town(server.url, server.root_key) as town, group(town, "a", "b") as (_, devices):
            fronts = server.fronts
            assert await server.terminate() == 0
            assert [await closed_with(device) for device in devices] == [1012, 1012]
        await until(lambda: not any(Path(f"/proc/{front}").exists() for front in fronts))
        assert [line for line in server.log_lines() if line.get("level") == "error"] == []


@pytest.mark.slow
async def test_on_dynamodb_the_processes_are_gateways(
    tmp_path: Path, dynamodb_endpoint: str, kafka_address: str, redis_url: str
) -> None:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    async with some_tables(dynamodb_endpoint) as prefix:
        environment = as_environment(many_processes(services, prefix))
        options = ("--processes", "2")
        async with ServerProcess(
            tmp_path / "data", environment=environment, options=options, waits="patience"
        ) as server:
            async with (
                Town(server.url, ROOT_KEY) as town,
                group(town, "ann", "ben", "cleo", "dan", reconnects=True) as (chat, devices),
            ):
                await all_of(device.send(chat) for device in devices)
                for device in devices:
                    await until_entries(device, chat, 1 + 3)
                gateway = children_of(server.pid)[0]
                os.kill(gateway, signal.SIGKILL)
                await until(lambda: gateway not in children_of(server.pid))
                await devices[0].send(chat)
                await until(lambda: all(one.logs.have.get(chat, 0) == 6 for one in devices))
            assert await server.terminate() == 0
