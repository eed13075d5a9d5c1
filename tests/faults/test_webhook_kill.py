# SPDX-License-Identifier: Apache-2.0
"""Endpoints get every event, those of a chat in order, however often the server is killed."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import quantiles
from typing import Final

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.faults.bad_endpoint import BadEndpoint, Sender, WebhookTenant
from tests.faults.conftest import Say
from tests.support.cluster import Services, a_cluster
from tests.support.dynamo_tables import some_tables
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until

OUTGOING: Final = "127.0.0.0/8"
ALLOWED: Final = {**NO_LIMITS, "TIDINGS_OUTGOING_ALLOW": OUTGOING}
ROLES: Final = {"front": "api,gateway,relay", "worker-1": "worker", "worker-2": "worker"}
QUIET_SECONDS: Final = 900.0
"""How long the deliveries may take that are left when everything is sent."""
SOAK_EVENTS: Final = int(os.environ.get("SOAK_EVENTS", "100000"))
PACE: Final = 200
"""Messages in each half of a comparison, of each chat of the tenant with the endpoint."""

TownOf = Callable[[str], Town]


@asynccontextmanager
async def open_tenants(
    town_of: TownOf, endpoints: Mapping[str, BadEndpoint]
) -> AsyncIterator[list[WebhookTenant]]:
    """A tenant for each endpoint, by its name."""
    app, tenants = web.Application(), list[WebhookTenant]()
    for name, endpoint in endpoints.items():
        app.router.add_post(f"/{name}", endpoint.take)
    async with TestServer(app) as receiver, AsyncExitStack() as stack:
        for name, endpoint in endpoints.items():
            town = await stack.enter_async_context(town_of(name))
            tenant = WebhookTenant(town, endpoint, str(receiver.make_url(f"/{name}")))
            await tenant.put()
            tenants.append(tenant)
        yield tenants


@asynccontextmanager
async def kept_enabled(tenant: WebhookTenant) -> AsyncIterator[None]:
    """Enable the endpoint each time that the server has disabled it."""

    async def is_disabled() -> bool:
        with suppress(httpx.TransportError, httpx.HTTPStatusError):
            return await tenant.is_disabled()
        return False

    async def keep() -> None:
        while True:
            await until(is_disabled, seconds=7_200)
            with suppress(httpx.TransportError, httpx.HTTPStatusError):
                await tenant.put()

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def kill_run(
    town_of: TownOf,
    killed: Sequence[ServerProcess],
    say: Say,
    *,
    chats: int,
    messages: int,
    kills: int,
) -> None:
    """Send, kill processes while events are delivered, and compare what the endpoints took."""
    bad, good = BadEndpoint(random.Random(7), gone_every=messages // 3), BadEndpoint()
    async with open_tenants(town_of, {"bad": bad, "good": good}) as tenants:
        senders = [await tenants[0].sender(chats), await tenants[1].sender(max(1, chats // 10))]
        sending = asyncio.gather(*(sender.send_all(messages // chats) for sender in senders))
        async with kept_enabled(tenants[0]):
            for number, process in zip(range(kills), cycle(killed), strict=False):
                some = (number + 1) * messages // (kills + 1)
                await until(partial(has_taken, bad, some), seconds=QUIET_SECONDS)
                await process.restart()
            await sending
            await until(lambda: good.has(senders[1].heads), seconds=QUIET_SECONDS)
            await until(lambda: bad.has(senders[0].heads), seconds=QUIET_SECONDS)
        for sender in senders:
            await sender.close()
    for endpoint in (bad, good):
        endpoint.check_order()
    assert bad.gone >= 2, "it was disabled and enabled again"
    say(
        f"{len(bad.first_at):,} events to a bad endpoint, {kills} kills, {bad.gone} times gone:"
        f" none missing, {bad.repeated:,} repeated; {len(good.first_at):,} to a good one,"
        f" {good.repeated:,} repeated"
    )


def has_taken(endpoint: BadEndpoint, count: int) -> bool:
    """Return True if an endpoint took at least this number of events."""
    return len(endpoint.first_at) >= count


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_killed_server_delivers_every_event_in_order(tmp_path: Path, say: Say) -> None:
    async with ServerProcess(tmp_path / "data", environment=ALLOWED, waits="webhooks") as server:
        town_of = partial(Town, server.url, server.root_key)
        await kill_run(town_of, [server], say, chats=10, messages=300, kills=4)


@pytest.mark.soak
async def test_100_000_events_and_twenty_kills(tmp_path: Path, say: Say) -> None:
    async with ServerProcess(tmp_path / "data", environment=ALLOWED, waits="webhooks") as server:
        town_of = partial(Town, server.url, server.root_key)
        await kill_run(town_of, [server], say, chats=200, messages=SOAK_EVENTS, kills=20)


@pytest.mark.soak
async def test_every_process_of_a_fleet_is_killed_and_no_event_is_lost(
    tmp_path: Path, say: Say, dynamodb_endpoint: str, kafka_address: str, redis_url: str
) -> None:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    more = {"limits": "off", "outgoing_allow": OUTGOING}
    async with (
        some_tables(dynamodb_endpoint) as prefix,
        a_cluster(
            tmp_path / "fleet",
            services,
            prefix,
            ROLES,
            more=more,
            waits="kafka_groups webhooks",
        ) as cluster,
    ):
        town_of = partial(cluster.town, api="front")
        killed = list(cluster.processes.values())
        await kill_run(town_of, killed, say, chats=50, messages=3_000, kills=9)


@pytest.mark.soak
async def test_a_bad_endpoint_slows_no_other_tenant_down(tmp_path: Path, say: Say) -> None:
    """The same load twice: while the endpoint takes everything, and while it misbehaves."""
    endpoint, other = BadEndpoint(), BadEndpoint()
    async with ServerProcess(tmp_path / "data", environment=ALLOWED) as server:
        town_of = partial(Town, server.url, server.root_key)
        async with open_tenants(town_of, {"bad": endpoint, "other": other}) as tenants:
            sender, neighbour = await tenants[0].sender(20), await tenants[1].sender(2)
            figures = []
            for chance in (None, random.Random(3)):
                endpoint.chance = chance
                neighbour.seconds.clear()
                await asyncio.gather(sender.send_all(PACE), neighbour.send_all(PACE))
                await until(lambda: other.has(neighbour.heads), seconds=QUIET_SECONDS)
                figures.append((p99(neighbour.seconds), p99(delays(neighbour, other))))
                neighbour.sent_at.clear()
            for one in (sender, neighbour):
                await one.close()
    good, bad = figures
    say(
        f"p99 of another tenant beside a good and a bad endpoint: sends {good[0]:.1f} and"
        f" {bad[0]:.1f} ms, events {good[1]:.1f} and {bad[1]:.1f} ms"
    )
    assert bad[0] <= 2 * good[0]
    assert bad[1] <= 2 * good[1]


def p99(seconds: Sequence[float]) -> float:
    """Return the 99th percentile, in milliseconds."""
    return quantiles(seconds, n=100)[98] * 1_000


def delays(sender: Sender, endpoint: BadEndpoint) -> list[float]:
    """Return how long each event took from the request that caused it."""
    return [endpoint.first_at[place] - at for place, at in sender.sent_at.items()]
