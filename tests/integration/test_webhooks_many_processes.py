# SPDX-License-Identifier: Apache-2.0
"""Webhooks of a deployment of several processes: each event is posted, in order per chat."""

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.cluster import Cluster, Services, a_cluster
from tests.support.dynamo_tables import some_tables
from tests.support.engine import Settings
from tests.support.people import Town
from tests.support.waiting import until
from tests.support.webhook_receiver import WebhookReceiver, open_receiver

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
]

ROLES = {
    "gateway": "gateway,relay",
    "worker-1": "worker",
    "worker-2": "worker",
    "api": "api",
}

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    tmp_path_factory: pytest.TempPathFactory,
    dynamodb_endpoint: str,
    kafka_address: str,
    redis_url: str,
) -> AsyncIterator[Cluster]:
    services = Services(dynamodb_endpoint, kafka_address, redis_url)
    allow: Settings = {"outgoing_allow": "127.0.0.0/8"}
    async with (
        some_tables(dynamodb_endpoint) as prefix,
        a_cluster(
            tmp_path_factory.mktemp("cluster"),
            services,
            prefix,
            ROLES,
            own=dict.fromkeys(ROLES, allow),
            waits="kafka_groups webhooks patience",
        ) as opened,
    ):
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with open_receiver() as opened:
        yield opened


async def send(town: Town, chat: str, token: str) -> int:
    body = {"client_message_id": f"m{next(_numbers)}", "content": "hello"}
    key = {"Authorization": f"Bearer {token}"}
    answer = await town.http.post(f"/v1/chats/{chat}/messages", json=body, headers=key)
    assert answer.is_success, answer.text
    return int(answer.json()["sequence"])


async def test_a_fleet_delivers_in_order_although_a_worker_dies(
    cluster: Cluster, receiver: WebhookReceiver
) -> None:
    town = cluster.town("fleet")
    key = {"Authorization": f"Bearer {await town.tenant_key()}"}
    hook = {"url": receiver.url, "events": ["message.created", "session.revoked"]}
    made = await town.http.put("/v1/tenants/fleet/webhooks/main", json=hook, headers=key)
    receiver.secret = made.json()["secret"]
    tokens = [
        (await town.http.post("/v1/tenants/fleet/tokens", json={"user_id": name}, headers=key))
        for name in ("ann", "bob")
    ]
    token = tokens[0].json()["token"]
    own = {"Authorization": f"Bearer {token}"}
    group = {"type": "group", "name": "Crew", "members": ["bob"]}
    chats = [
        (await town.http.post("/v1/chats", json=group, headers=own)).json()["chat_id"]
        for _ in range(3)
    ]
    for _ in range(5):
        for chat in chats:
            await send(town, chat, token)
    await until(lambda: len({one.place for one in receiver.taken}) == 15)
    await cluster.processes["worker-1"].kill()
    for _ in range(5):
        for chat in chats:
            await send(town, chat, token)
    await town.http.delete("/v1/tenants/fleet/users/bob/sessions", headers=key)
    await until(lambda: len({one.place for one in receiver.taken}) == 31)
    await cluster.processes["worker-1"].start()
    for chat in chats:
        places = dict.fromkeys(one.place[1] for one in receiver.taken if one.place[0] == chat)
        assert list(places) == list(range(2, 12)), "in order"
    assert "session.revoked" in receiver.types()
    await town.http.aclose()
