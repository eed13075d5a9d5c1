# SPDX-License-Identifier: Apache-2.0
"""Push by a real server: to a webhook of the tenant, for users who do not look at a device."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.engines import engine as engine
from tests.integration.socket_town import settled
from tests.support.engine import Settings, as_environment
from tests.support.hook_server import HookServer, open_hook
from tests.support.people import Person, Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "a secret of the tenant's webhook"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hook() -> AsyncIterator[HookServer]:
    async with open_hook() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings, hook: HookServer
) -> AsyncIterator[Town]:
    environment = as_environment({**settings, "outgoing_allow": "127.0.0.1"})
    async with ServerProcess(
        tmp_path_factory.mktemp("push") / "data", environment=environment, waits="store"
    ) as server:
        async with Town(server.url, server.root_key) as made:
            await set_webhook(made, hook)
            yield made


async def set_webhook(town: Town, hook: HookServer) -> None:
    answer = await town.http.put(
        f"/v1/tenants/{town.tenant}/push",
        headers={"Authorization": f"Bearer {await town.tenant_key()}"},
        json={"webhook": {"url": hook.url, "secret": SECRET}},
    )
    assert answer.is_success, answer.text


async def pair(town: Town, hook: HookServer, name: str) -> tuple[Person, Person, str]:
    hook.asked.clear()
    ann, bob = await town.user(f"friend-of-{name}"), await town.user(name)
    return ann, bob, await ann.create_direct(bob)


async def test_who_has_no_connection_is_notified_at_once(town: Town, hook: HookServer) -> None:
    ann, bob, chat = await pair(town, hook, "bob")
    sent = await ann.send(chat)
    await until(lambda: hook.asked)
    notice = hook.asked[0]
    assert (notice["user_id"], notice["kind"], notice["badge"]) == ("bob", "message", 1)
    assert notice["data"]["message_id"] == f"{chat}.{sent['sequence']}"

    await bob.call("PUT", f"/v1/chats/{chat}/receipt", {"read": sent["sequence"]})
    await until(lambda: len(hook.asked) == 2)
    assert (hook.asked[1]["kind"], hook.asked[1]["badge"]) == ("clear", 0)


async def test_a_device_that_is_away_prevents_nothing(town: Town, hook: HookServer) -> None:
    ann, bob, chat = await pair(town, hook, "cat")
    async with bob.device() as device:
        device.tell({"op": "away", "away": True})
        await settled(device)
        sent = await ann.send(chat)
        await device.frame("entry", sequence=sent["sequence"])
        device.acknowledge()
        await until(lambda: hook.asked)
    assert hook.asked[0]["user_id"] == "cat"


async def test_a_notification_is_pushed_when_it_is_delivered(town: Town, hook: HookServer) -> None:
    hook.asked.clear()
    await town.user("dan")
    headers = {"Authorization": f"Bearer {await town.tenant_key()}"}
    path = f"/v1/tenants/{town.tenant}/inboxes/news"
    await town.http.put(path, json={"title": "News"}, headers=headers)
    body = {
        "audience": {"kind": "users", "uids": ["dan"]},
        "message": {"title": "Sale", "body": "Today"},
    }
    posted = await town.http.post(f"{path}/notifications", json=body, headers=headers)
    assert posted.is_success, posted.text
    await until(lambda: hook.asked)
    notice = hook.asked[0]
    assert (notice["user_id"], notice["kind"]) == ("dan", "notification")
    assert notice["data"] == {"inbox": "news", "notification_id": posted.json()["id"]}
    assert "title" not in notice, "the tenant shows no content"
