# SPDX-License-Identifier: Apache-2.0
"""Notifications where gateways, workers and APIs are processes of their own."""

import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.integration.socket_town import settled, told
from tests.support.cluster import Cluster, Services, a_cluster
from tests.support.device import Device
from tests.support.dynamo_tables import REGION, some_tables
from tests.support.inbox import Inbox
from tests.support.people import Town
from tests.support.queues import a_queue
from tests.support.waiting import until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
]

ROLES: Final = {
    "gateway-1": "gateway,relay",
    "gateway-2": "gateway",
    "api": "api",
    "work": "worker",
}

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["kafka", "sqs"])
async def cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    dynamodb_endpoint: str,
    kafka_address: str,
    redis_url: str,
) -> AsyncIterator[Cluster]:
    """The processes, with one queue for their jobs or another."""
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    async with AsyncExitStack() as stack:
        prefix = await stack.enter_async_context(some_tables(dynamodb_endpoint))
        more = {"jobs": request.param}
        if request.param == "sqs":
            endpoint = request.getfixturevalue("sqs_endpoint")
            url = await stack.enter_async_context(a_queue(endpoint))
            more |= {"sqs_queue_url": url, "sqs_region": REGION}
        folder = tmp_path_factory.mktemp("inbox")
        opening = a_cluster(folder, services, prefix, ROLES, more=more, waits="patience")
        yield await stack.enter_async_context(opening)


@pytest_asyncio.fixture(loop_scope="module")
async def town(cluster: Cluster) -> AsyncIterator[Town]:
    """A tenant of the test's own."""
    async with cluster.town(f"town-{next(_numbers)}") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def devices(cluster: Cluster, town: Town) -> AsyncIterator[tuple[Device, Device, Device]]:
    """Two of ann's, each at another gateway, and one of bob's."""
    ann, bob = await town.user("ann"), await town.user("bob")
    made = (
        cluster.device(ann, "gateway-1"),
        cluster.device(ann, "gateway-2", "tablet"),
        cluster.device(bob, "gateway-2"),
    )
    for device in made:
        await device.connect()
    yield made
    for device in made:
        await device.drop()


async def test_a_notification_reaches_users_wherever_they_are(
    town: Town, devices: tuple[Device, Device, Device]
) -> None:
    inbox = await Inbox(town).make()
    phone, tablet, bobs = devices
    posted = await inbox.post(["ann", *(f"user-{number}" for number in range(500))])
    for device in (phone, tablet):
        frame = await device.frame("notification", inbox="news")
        assert frame["id"] == posted["id"]
    done = await inbox.done(posted["id"])
    assert (done["recipients"], done["delivered"]) == (501, 501)
    everyone = await inbox.post(None)
    for device in devices:
        await device.frame("notification", id=everyone["id"])
    await settled(bobs)
    assert len(told(bobs, "notification")) == 1


async def test_what_is_read_on_one_device_is_read_on_the_other(
    town: Town, devices: tuple[Device, Device, Device]
) -> None:
    inbox = await Inbox(town).make()
    ann = await town.user("ann")
    phone, tablet, bobs = devices
    first = await inbox.post(["ann"], category="offers")
    second = await inbox.post(None)
    for device in (phone, tablet):
        for one in (first, second):
            await device.frame("notification", id=one["id"])
    assert await inbox.read(ann, ids=[second["id"]]) == {"total": 1, "categories": {"offers": 1}}
    for device in (phone, tablet):
        count = await device.frame("unread", inbox="news")
        assert (count["total"], count["categories"]) == (1, {"offers": 1})
    await settled(bobs)
    assert told(bobs, "unread") == []


async def test_what_is_taken_back_goes_everywhere(
    town: Town, devices: tuple[Device, Device, Device]
) -> None:
    inbox = await Inbox(town).make()
    phone, tablet, bobs = devices
    first, second = await inbox.post(["ann"]), await inbox.post(None)
    for device in (phone, tablet):
        await device.frame("notification", id=first["id"])
    await bobs.frame("notification", id=second["id"])
    await inbox.redact(first["id"])
    for device in (phone, tablet):
        await device.frame("retracted", id=first["id"], inbox="news")
        assert (await device.frame("unread", inbox="news"))["total"] == 1
    await inbox.redact(second["id"])
    for device in devices:
        await device.frame("retracted", id=second["id"], inbox="news")
        await device.frame("unread", inbox="news", total=0)
    assert len(told(bobs, "retracted")) == 1


async def test_one_api_explains_what_all_gateways_know(
    town: Town, devices: tuple[Device, Device, Device]
) -> None:
    inbox = await Inbox(town).make()
    posted = await inbox.post(["ann"])
    path = f"/v1/tenants/{town.tenant}/explain?user_id=ann&notification_id={posted['id']}"
    key = {"Authorization": f"Bearer {await town.tenant_key()}"}
    found: dict[str, Any] = {}

    async def both_gateways_had_it() -> bool:
        found.update((await town.http.get(path, headers=key)).raise_for_status().json())
        steps = [moment["what"] for moment in found["timeline"]]
        return [steps.count(step) for step in ("connected", "handed_to_gateway")] == [2, 2]

    await until(both_gateways_had_it, describe=lambda: found)
    places = [moment["where"] for moment in found["timeline"]]
    assert (found["code"], len(set(places))) == ("unread", 5), "an inbox, gateways and devices"
