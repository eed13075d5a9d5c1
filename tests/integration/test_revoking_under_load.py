# SPDX-License-Identifier: Apache-2.0
"""Access that ends while messages flow, on two gateways of which one has lost Redis.

Who was cut off gets nothing that was sent more than five seconds after the answer, whatever ended
the access and wherever the socket is. The server's own times say when, so a slow machine may take
longer to show it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.integration.cores import all_of
from tests.support.breakable_proxy import BreakableProxy, a_proxy
from tests.support.cluster import ROOT_KEY, Cluster, Services, a_cluster
from tests.support.device import Device
from tests.support.dynamo_tables import some_tables
from tests.support.people import Person, Town
from tests.support.waiting import until
from tidings.model import limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

ROLES: Final = {
    "gateway-1": "gateway",
    "gateway-2": "gateway",
    "api": "api",
    "worker": "worker,relay",
}
GATEWAYS: Final = ("gateway-1", "gateway-2")
SETTLED_ENTRIES: Final = 20
"""So many messages after the last socket was closed, and the test has seen enough."""


@dataclass
class Victim:
    """Somebody whose access is ended, with a device on each gateway."""

    person: Person
    end: Callable[[], Awaitable[None]]
    devices: list[Device] = field(default_factory=list)
    lost_access: datetime | None = None
    """When the answer had come that ends the access."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def way_to_redis(redis_url: str) -> AsyncIterator[BreakableProxy]:
    place = urlsplit(redis_url)
    async with a_proxy(place.hostname or "", place.port or 0) as way:
        yield way


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    tmp_path_factory: pytest.TempPathFactory,
    dynamodb_endpoint: str,
    kafka_address: str,
    redis_url: str,
    way_to_redis: BreakableProxy,
) -> AsyncIterator[Cluster]:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    through_the_way = redis_url.replace(f":{urlsplit(redis_url).port}", f":{way_to_redis.port}", 1)
    async with (
        some_tables(dynamodb_endpoint) as prefix,
        a_cluster(
            tmp_path_factory.mktemp("revoking"),
            services,
            prefix,
            ROLES,
            own={"gateway-2": {"redis_url": through_the_way}},
        ) as running,
    ):
        yield running


@pytest.mark.attack("A12", "A13")
async def test_who_lost_access_hears_nothing_five_seconds_later(
    cluster: Cluster, way_to_redis: BreakableProxy
) -> None:
    async with AsyncExitStack() as stack:
        town = await stack.enter_async_context(cluster.town("load"))
        guest = await stack.enter_async_context(cluster.town("guest"))
        ann, *others = await all_of(town.user(name) for name in ("ann", "bob", "cid", "dan"))
        gus = await guest.user("gus")
        victims = [*_victims(town, others), Victim(gus, _suspend(guest))]
        chat = await ann.create_group("Load", others)
        speaker = await stack.enter_async_context(cluster.device(ann, "gateway-1"))
        for victim in victims:
            for gateway in GATEWAYS:
                device = cluster.device(victim.person, gateway, gateway)
                victim.devices.append(await stack.enter_async_context(device))
        way_to_redis.cut()
        talking = asyncio.create_task(_talk(speaker, chat))
        try:
            await all_of(_end(victim) for victim in victims)
            heard = speaker.logs.have[chat]
            await speaker.until(lambda: speaker.logs.have[chat] >= heard + SETTLED_ENTRIES)
        finally:
            talking.cancel()
        for victim in victims:
            for device in victim.devices:
                assert device.closes == [4401], victim.person.user_id
                assert _sent_too_late(victim, device) == []


async def _end(victim: Victim) -> None:
    """End the access; the API and both gateways hear of it, each by itself."""

    async def status() -> int:
        return (await victim.person.request("GET", "/v1/me")).status_code

    await victim.end()
    victim.lost_access = datetime.now(UTC)
    await until(status, equals=401)
    for device in victim.devices:
        await device.until(lambda device=device: not device.is_open)  # type: ignore[misc]


def _sent_too_late(victim: Victim, device: Device) -> list[datetime]:
    """Return the times of the entries that the device should not have got any more."""
    assert victim.lost_access is not None
    latest = victim.lost_access + timedelta(seconds=limits.REVOKED_SECONDS_MAX)
    entries = (told for told in device.raw if told["op"] == "entry")
    times = (datetime.fromisoformat(entry["created_at"]) for entry in entries)
    return [time for time in times if time > latest]


def _victims(town: Town, people: list[Person]) -> list[Victim]:
    """Each loses access in a way of its own."""
    bob, cid, dan = people

    async def by_oneself() -> None:
        await bob.call("DELETE", "/v1/sessions")

    async def by_the_tenant() -> None:
        await _as_tenant(town, "DELETE", f"/v1/tenants/{town.tenant}/users/cid/sessions")

    async def for_good() -> None:
        path = f"/v1/tenants/{town.tenant}/users/dan"
        await _as_tenant(town, "PUT", path, {"deactivated": True})

    return [Victim(bob, by_oneself), Victim(cid, by_the_tenant), Victim(dan, for_good)]


def _suspend(town: Town) -> Callable[[], Awaitable[None]]:
    async def suspend() -> None:
        answer = await town.http.put(
            f"/v1/tenants/{town.tenant}",
            json={"suspended": True},
            headers={"Authorization": f"Bearer {ROOT_KEY}"},
        )
        answer.raise_for_status()

    return suspend


async def _as_tenant(
    town: Town, method: str, path: str, body: dict[str, object] | None = None
) -> None:
    key = {"Authorization": f"Bearer {await town.tenant_key()}"}
    answer = await town.http.request(method, path, json=body, headers=key)
    answer.raise_for_status()


async def _talk(speaker: Device, chat: str) -> None:
    """One message after the other, for as long as it is let."""
    while True:
        await speaker.send(chat)
