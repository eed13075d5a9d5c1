# SPDX-License-Identifier: Apache-2.0
"""Why a message or notification has not arrived yet while a part of the server is held up."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.faulty_server import FAULTY, switch
from tests.integration.socket_town import friends
from tests.integration.test_push_server import set_webhook
from tests.support.cluster import Cluster, Services, many_processes
from tests.support.device import Device
from tests.support.dynamo_tables import some_tables
from tests.support.explaining import ask, explain, explain_notice, steps
from tests.support.hook_server import open_hook
from tests.support.inbox import Inbox
from tests.support.people import Json, Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

ROLES = {"api": "api", "gateway": "gateway", "worker": "worker"}


@contextmanager
def fault(server: ServerProcess, name: str) -> Iterator[None]:
    """A fault of the server is on."""
    switch(server.data, name, is_on=True)
    try:
        yield
    finally:
        switch(server.data, name, is_on=False)


@contextmanager
def stopped(process: ServerProcess) -> Iterator[None]:
    """The process does nothing, and its connections stay open."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


async def a_device_that_catches_up_late(town: Town, gateway: ServerProcess) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    message = await ann.send(chat)
    await explain(town, bob, message, "never_connected")
    device = Device(gateway.url, bob.token, "phone")
    with fault(gateway, "catch-up"):
        await device.open()
        device.greet()
        found = await explain(town, bob, message, "behind")
        assert found["since"] == message["created_at"]
    await explain(town, bob, message, "acknowledged")
    await device.close()


@pytest.mark.slow
async def test_one_process_is_about_to_deliver(tmp_path: Path) -> None:
    async with (
        ServerProcess(tmp_path / "data", launcher=FAULTY) as server,
        Town(server.url, server.root_key) as town,
    ):
        await a_device_that_catches_up_late(town, server)
        bob = await town.user("bob")
        inbox = await Inbox(town).make()
        with fault(server, "jobs-wait"):
            notice = (await inbox.post(["bob"]))["id"]
            found = await explain_notice(town, bob, notice, "queued")
            assert steps(found) == ["posted"]
        await explain_notice(town, bob, notice, "never_connected")


@pytest.mark.slow
async def test_many_processes_are_held_up_one_by_one(
    tmp_path: Path, dynamodb_endpoint: str, kafka_address: str, redis_url: str
) -> None:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    async with some_tables(dynamodb_endpoint) as prefix:
        settings = {**many_processes(services, prefix), "outgoing_allow": "127.0.0.1"}
        cluster = Cluster(tmp_path, settings, ROLES, waits="store redis")
        cluster["gateway"].launcher = FAULTY
        try:
            await cluster.start(len(ROLES))
            async with cluster.town("town") as town:
                await a_device_that_catches_up_late(town, cluster["gateway"])
                await nothing_moves_without_a_worker(town, cluster)
            # The worker knows nothing of this tenant, and so not that it uses no push service.
            async with cluster.town("pushed") as town:
                await the_worker_knows_of_push_notices(town)
        finally:
            await cluster.kill()


async def the_worker_knows_of_push_notices(town: Town) -> None:
    """Another process than the one that is asked has sent them."""
    async with open_hook() as hook:
        await set_webhook(town, hook)
        chat, (ann, bob) = await friends(town, "ann", "bob")
        message = await ann.send(chat)
        found: list[Json] = []

        async def is_pushed() -> bool:
            found.append(await ask(town, bob, message_id=message["message_id"]))
            return "pushed" in steps(found[-1])

        await until(is_pushed, describe=lambda: found[-1])
        assert steps(found[-1]) == ["accepted", "push_claimed", "pushed"]
        notice = (await (await Inbox(town).make()).post([bob.user_id]))["id"]

        async def is_noticed() -> bool:
            return "pushed" in steps(await ask(town, bob, notification_id=notice))

        await until(is_noticed)


async def nothing_moves_without_a_worker(town: Town, cluster: Cluster) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    inbox = await Inbox(town).make()
    async with cluster.device(bob, "gateway") as phone:
        with stopped(cluster["worker"]):
            message = await ann.send(chat)
            notice = (await inbox.post([bob.user_id]))["id"]
            found = await explain(town, bob, message, "not_dispatched")
            assert found["since"] == message["created_at"]
            await explain_notice(town, bob, notice, "queued")
        await phone.frame("notification", id=notice)
        await explain_notice(town, bob, notice, "unread")
        await explain(town, bob, message, "acknowledged")
        with stopped(cluster["gateway"]):
            later = await ann.send(chat)
            found = await ask(town, bob, message_id=later["message_id"])
            assert (found["code"], found["since"]) == ("unknown", "unknown")
            assert "a gateway or Redis did not answer" in found["verdict"]
        await explain(town, bob, later, "acknowledged")
