# SPDX-License-Identifier: Apache-2.0
"""Two gateways, two workers, two APIs and a relay, as processes of their own: one deployment."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio

from tests.integration.cores import all_of
from tests.integration.redis_places import a_link
from tests.integration.socket_town import (
    has,
    sequences,
    some_people,
    told,
    troubles,
    until_entries,
)
from tests.support.client_socket import Refused, Socket
from tests.support.cluster import ROOT_KEY, Cluster, Services, a_cluster
from tests.support.dynamo_tables import some_tables
from tests.support.metrics import values_of, without_values
from tests.support.people import Person, Town
from tests.support.waiting import until
from tidings.cluster.pulse import DeliveryPulse
from tidings.metrics.declared import BACKUPS
from tidings.metrics.meters import METRICS
from tidings.tasks import Backlog

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
]

ROLES: Final = {
    "gateway-1": "gateway",
    "gateway-2": "gateway",
    "worker-1": "worker",
    "worker-2": "worker",
    "api": "api",
    "api-2": "api",
    "relay": "relay",
}
KICKS: Final = 1_000 if os.environ.get("SOAK") else 10
CROWD: Final = 1_000 if os.environ.get("SOAK") else 100
CONNECTED_AT_ONCE: Final = 50

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    tmp_path_factory: pytest.TempPathFactory,
    dynamodb_endpoint: str,
    kafka_address: str,
    redis_url: str,
) -> AsyncIterator[Cluster]:
    """The processes, for all tests of the module."""
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    folder, waits = tmp_path_factory.mktemp("many"), "kafka_groups patience"
    async with some_tables(dynamodb_endpoint) as prefix:
        async with a_cluster(folder, services, prefix, ROLES, waits=waits) as running:
            yield running
        for name, process in running.processes.items():
            # A broker that just started has no coordinator yet: the library calls it an error.
            own = [line for line in troubles(process) if not _is_of_library(line)]
            assert (name, own) == (name, [])
            actions = [line.get("action") for line in process.log_lines()]
            assert "kafka_trouble" not in actions, "else it was the relay that delivered"


@pytest_asyncio.fixture(loop_scope="module")
async def town(cluster: Cluster) -> AsyncIterator[Town]:
    """A tenant of the test's own."""
    async with cluster.town(f"town-{next(_numbers)}") as made:
        yield made


def _is_of_library(line: dict[str, Any]) -> bool:
    return "exception" not in line and str(line.get("logger")).startswith("aiokafka")


async def test_people_on_different_gateways_talk(cluster: Cluster, town: Town) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_direct(bob)
    async with (
        cluster.device(ann, "gateway-1") as first,
        cluster.device(bob, "gateway-2") as second,
    ):
        for number in range(10):
            await (first if number % 2 else second).send(chat)
        for device in (first, second):
            await device.until(has(device, chat, 11))
    assert sequences(second, chat) == sorted(set(sequences(second, chat)))


async def test_root_reads_the_metrics_of_each_process_and_together_they_are_all(
    cluster: Cluster, town: Town
) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_direct(bob)
    async with (
        cluster.device(ann, "gateway-1") as first,
        cluster.device(bob, "gateway-2") as second,
    ):
        await first.send(chat)
        await second.until(has(second, chat, 2))
    for worker in ("worker-1", "worker-2"):
        await until(partial(_takes_events, town, cluster[worker].url))
    values = {}
    for name, process in cluster.processes.items():
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            await town.get(f"{process.url}/metrics", "another-key")
        values[name] = values_of((await town.get(f"{process.url}/metrics", ROOT_KEY)).text)
    nowhere = set.intersection(*map(without_values, values.values()))
    assert {name for name in nowhere if METRICS[name].needs != BACKUPS} == set()
    from_bus = "tidings_delivery_seconds_count", frozenset({("path", "bus")})
    assert values["gateway-2"][from_bus] > 0
    lag = "tidings_bus_lag_entries", frozenset({("topic", "messages")})
    assert {name for name in values if lag in values[name]} == {"worker-1", "worker-2"}


async def _takes_events(town: Town, worker: str) -> bool:
    """Whether a worker knows how far behind it is, as it does once it takes events."""
    return "tidings_bus_lag_entries{" in (await town.get(f"{worker}/metrics", ROOT_KEY)).text


async def test_one_api_knows_all_processes_and_the_connections_to_all_gateways(
    cluster: Cluster, town: Town
) -> None:
    (ann,) = await some_people(town, "ann")
    state, found = dict[str, Any](), dict[str, Any]()

    async def all_report() -> bool:
        state.update((await town.get("/v1/state", ROOT_KEY)).json())
        statuses = [process["status"] for process in state["processes"]]
        return statuses == ["ready"] * len(ROLES)

    async def all_answer() -> bool:
        path = f"/v1/tenants/{town.tenant}/users/ann/connections"
        found.update((await town.get(path, await town.tenant_key())).json())
        return bool(found["complete"])

    await until(all_report, describe=lambda: state)
    roles = sorted(role for process in state["processes"] for role in process["roles"])
    assert roles == sorted(ROLES.values())
    async with cluster.device(ann, "gateway-1"), cluster.device(ann, "gateway-2"):
        await until(all_answer, describe=lambda: found)
    gateways = {one["name"] for one in state["processes"] if one["roles"] == ["gateway"]}
    assert {one["process"] for one in found["data"]} == gateways


async def test_what_rest_does_reaches_every_gateway(cluster: Cluster, town: Town) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    async with (
        cluster.device(ann, "gateway-1") as first,
        cluster.device(bob, "gateway-2") as second,
    ):
        chat = await ann.create_group("Team", [bob])
        sent = await bob.send(chat)
        await ann.call("PUT", f"/v1/chats/{chat}/messages/{sent['sequence']}/reactions/👍")
        for device in (first, second):
            assert await until_entries(device, chat, 3) == [1, 2, 3]


async def test_by_heads_news_and_entries_come_from_other_gateways(
    cluster: Cluster, town: Town
) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat, other = [await ann.create_group(name, [bob]) for name in ("Team", "Other")]
    socket = Socket(cluster.processes["gateway-2"].url)
    await socket.open()
    socket.tell({"op": "hello", "token": bob.token, "device": "phone", "catch_up": "heads"})
    await socket.frame("live")
    socket.tell({"op": "follow", "chat": chat, "after": 0})
    async with cluster.device(ann, "gateway-1") as device:
        for _ in range(3):
            await device.send(chat)
            await device.send(other)
        assert await until_entries(socket, chat, 4) == [1, 2, 3, 4]
        await socket.until(lambda: told(socket, "heads")[-1]["chats"].get(other) == 4)
        assert not told(socket, "entry", chat=other)
        await ann.call("DELETE", f"/v1/chats/{other}/members/{bob.user_id}")
        await socket.frame("gone", chat=other)
    await socket.drop()


async def test_a_deleted_chat_takes_nothing_in_on_any_gateway(cluster: Cluster, town: Town) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_group("Team", [bob])

    async def phase() -> str:
        """Ask for the deletion, and return how far it is."""
        return str((await ann.call("DELETE", f"/v1/chats/{chat}"))["phase"])

    async with (
        cluster.device(ann, "gateway-1") as first,
        cluster.device(bob, "gateway-2") as second,
    ):
        for device in (first, second):  # each process knows the chat now
            await device.send(chat)
        await phase()
        for device in (first, second):
            with pytest.raises(Refused, match=r"chat\.not_found"):
                await device.send(chat)
            await device.frame("entry", chat=chat, kind="deleted")
        await until(phase, equals="done")
        for device in (first, second):
            with pytest.raises(Refused, match=r"chat\.not_found"):
                await device.send(chat)
    for person in (ann, bob):
        assert (await person.call("GET", "/v1/chats"))["data"] == []


async def test_who_was_away_gets_it_on_the_other_gateway(cluster: Cluster, town: Town) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_direct(bob)
    device = cluster.device(bob, "gateway-1")
    async with cluster.device(ann, "gateway-1") as sender:
        async with device:
            await sender.send(chat)
            await device.until(has(device, chat, 2))
        for _ in range(5):
            await sender.send(chat)
        moved = cluster.device(bob, "gateway-2")
        moved.logs, moved.epoch = device.logs, device.epoch
        async with moved:
            await moved.until(has(moved, chat, 7))
            await sender.send(chat)
            await moved.until(has(moved, chat, 8))
    assert sequences(moved, chat) == [3, 4, 5, 6, 7, 8]
    assert moved.resyncs == [], "also if it had more than the head copy said"


async def test_notices_go_from_gateway_to_gateway(cluster: Cluster, town: Town) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_direct(bob)
    async with (
        cluster.device(ann, "gateway-1") as first,
        cluster.device(bob, "gateway-2") as second,
    ):
        await first.send(chat)
        await second.until(has(second, chat, 2))
        second.tell({"op": "read", "chat": chat, "sequence": 2})
        await first.frame("receipt", chat=chat, user=bob.user_id, read=2)
        second.tell({"op": "typing", "chat": chat})
        await first.frame("typing", chat=chat, user=bob.user_id)
        await second.frame("presence", user=ann.user_id, online=True)


async def test_a_removed_member_gets_the_removal_and_nothing_after_it(
    cluster: Cluster, town: Town
) -> None:
    ann, bob, cat = await some_people(town, "ann", "bob", "cat")
    chat = await ann.create_group("Team", [bob, cat])
    async with (
        cluster.device(cat, "gateway-1") as stays,
        cluster.device(bob, "gateway-2") as goes,
    ):
        await ann.remove(chat, bob)
        await ann.send(chat)
        await until_entries(stays, chat, 2)
        await goes.until(lambda: 2 in sequences(goes, chat))
        await stays.send(chat)
        await until_entries(stays, chat, 3)
        with pytest.raises(Refused):
            await goes.send(chat)
    assert max(sequences(goes, chat)) == 2


async def test_a_large_group_half_of_it_away(cluster: Cluster, town: Town) -> None:
    people = await _crowd(town)
    owner, others = people[0], people[1:]
    chat = await owner.create_group("Crowd", others)
    here = others[: CROWD // 2]
    devices = [
        cluster.device(person, f"gateway-{1 + number % 2}", reconnects=True)
        for number, person in enumerate(here)
    ]
    for start in range(0, len(devices), CONNECTED_AT_ONCE):
        await all_of(device.connect() for device in devices[start : start + CONNECTED_AT_ONCE])
    sent = await owner.send(chat)
    await all_of(device.until(has(device, chat, sent["sequence"])) for device in devices)
    async with cluster.device(others[-1], "gateway-2") as late:
        await late.until(has(late, chat, sent["sequence"]))
    await all_of(device.close() for device in devices)


async def _crowd(town: Town) -> list[Person]:
    people: list[Person] = []
    for start in range(0, CROWD, CONNECTED_AT_ONCE):
        names = [f"user-{number}" for number in range(start, start + CONNECTED_AT_ONCE)]
        people += await some_people(town, *names)
    return people


async def test_kicked_through_one_api_reads_nothing_through_another(
    cluster: Cluster, town: Town
) -> None:
    """Whatever each of them remembers: once the removal was answered, nothing is to be read."""
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_group("Team", [bob])
    async with Town(cluster["api-2"].url, "", town.tenant) as other:
        elsewhere = Person(other, bob.user_id, bob.token)
        for _ in range(KICKS):
            assert (await elsewhere.request("GET", f"/v1/chats/{chat}/entries")).is_success
            await ann.remove(chat, bob)
            secret = await ann.send(chat)
            paths = [
                f"/v1/chats/{chat}",
                f"/v1/chats/{chat}/entries?limit=100",
                f"/v1/chats/{chat}/messages",
                f"/v1/chats/{chat}/messages/{secret['sequence']}",
                f"/v1/chats/{chat}/members",
                f"/v1/chats/{chat}/receipts",
            ]
            answers = await all_of(elsewhere.request("GET", path) for path in paths)
            assert [answer.status_code for answer in answers] == [404] * len(paths)
            listed = await elsewhere.call("GET", "/v1/chats")
            assert chat not in [one["chat_id"] for one in listed["data"]]
            await ann.add(chat, bob)


async def test_each_process_has_its_roles(cluster: Cluster, town: Town) -> None:
    ann = await town.user("ann")
    for name, process in cluster.processes.items():
        async with Town(process.url, "") as asked:
            assert (await asked.http.get("/healthz")).is_success
            assert (await asked.http.get("/readyz")).is_success
            answer = await asked.http.get("/v1/chats", headers={"Authorization": ann.token})
            assert (answer.status_code == 404) == (not name.startswith("api"))
        if not name.startswith("gateway"):
            with pytest.raises(Exception, match="404"):
                await cluster.device(ann, name).open()


async def test_a_message_is_delivered_though_a_worker_dies(cluster: Cluster, town: Town) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_direct(bob)
    async with cluster.device(bob, "gateway-2") as device:
        await cluster["worker-1"].kill()
        for _ in range(5):
            await ann.send(chat)
            await asyncio.sleep(0)
        await device.until(has(device, chat, 6))
        await cluster["worker-1"].start()
    assert len(told(device, "entry", chat=chat)) >= 5


async def test_live_is_true_though_nobody_delivers(
    cluster: Cluster, town: Town, redis_url: str
) -> None:
    """Both workers are dead: whoever says hello finds in the logs what was acknowledged before."""
    ann, bob = await some_people(town, "ann", "bob")
    chats = [await ann.create_direct(bob), await ann.create_group("Team", [bob])]
    workers = [cluster[name] for name in ("worker-1", "worker-2")]
    for worker in workers:
        await worker.kill()
    async with delivery_of(cluster, redis_url) as delivery:
        await until(delivery.is_current, equals=False)
        for chat in chats:
            for _ in range(5):
                await ann.send(chat)
        async with cluster.device(bob, "gateway-2") as device:
            assert [device.logs.have.get(chat) for chat in chats] == [6, 6]
        listed = (await bob.call("GET", "/v1/chats"))["data"]
        assert {row["unread"] for row in listed} == {5}
        assert {row["last_message"]["sequence"] for row in listed} == {6}, "and so says the list"
    for worker in workers:
        await worker.start()


@asynccontextmanager
async def delivery_of(cluster: Cluster, redis_url: str) -> AsyncIterator[DeliveryPulse]:
    """What the gateways of this deployment see of its workers."""
    prefix = cluster["worker-1"].environment["TIDINGS_REDIS_PREFIX"]
    async with a_link(redis_url, prefix) as link:
        yield DeliveryPulse(link, "asks", Backlog(), is_worker=False)


async def test_own_messages_are_listed_through_any_process(cluster: Cluster, town: Town) -> None:
    ann, bob = await some_people(town, "ann", "bob")
    chat = await ann.create_direct(bob)
    async with Town(cluster["api-2"].url, "") as other:
        asks = {"Authorization": f"Bearer {ann.token}"}
        for _ in range(5):
            sent = await ann.send(chat)
            asks["Tidings-After"] = sent["message_id"]
            answer = (await other.http.get("/v1/chats", headers=asks)).json()
            assert answer["data"][0]["last_message"]["sequence"] == sent["sequence"]
            assert answer["data"][0]["last_message"]["preview"] == sent["content"]
        asks["Tidings-After"] = "what"
        assert (await other.http.get("/v1/chats", headers=asks)).status_code == 400
