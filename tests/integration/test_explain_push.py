# SPDX-License-Identifier: Apache-2.0
"""What became of push notices, explained by a real server: on both engines, and after a kill."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.socket_town import friends
from tests.integration.test_push_server import hook as hook
from tests.integration.test_push_server import set_webhook
from tests.support.engine import Settings, as_environment
from tests.support.explaining import as_tenant, ask, explain, explain_notice, steps
from tests.support.hook_server import HookServer
from tests.support.inbox import Inbox
from tests.support.people import Json, Person, Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEBHOOK: Final = "the webhook of the tenant"
MUTED: Final = {"until": "2099-01-01T00:00:00Z"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings
) -> AsyncIterator[ServerProcess]:
    environment = as_environment({**settings, "outgoing_allow": "127.0.0.1"})
    folder = tmp_path_factory.mktemp("push") / "data"
    async with ServerProcess(folder, environment=environment, waits="pushes store") as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(server: ServerProcess, hook: HookServer) -> AsyncIterator[Town]:
    async with Town(server.url, server.root_key, "pushed") as made:
        await set_webhook(made, hook)
        yield made


async def about_push(town: Town, user: Person, message: Json, step: str) -> tuple[Json, str]:
    """Ask until the timeline has a step of push; return the answer, and the place of the step."""
    found: list[Json] = []

    async def is_told() -> bool:
        found.append(await ask(town, user, message_id=message["message_id"]))
        return step in steps(found[-1])

    await until(is_told, describe=lambda: found[-1])
    places = [one["where"] for one in found[-1]["timeline"] if one["what"] == step]
    return found[-1], places[-1]


async def test_a_notice_that_was_sent_refused_or_held_back(town: Town, hook: HookServer) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    found, where = await about_push(town, bob, await ann.send(chat), "pushed")
    assert (found["code"], where) == ("never_connected", WEBHOOK)
    assert found["verdict"].endswith(f"A push notice was sent to {WEBHOOK}.")
    assert steps(found) == ["accepted", "push_claimed", "pushed"]
    assert found["timeline"][2]["at"] != "unknown"

    other = await ann.create_group("Other", [bob])
    hook.status = 400
    found, where = await about_push(town, bob, await ann.send(other), "push_refused")
    hook.status = 200
    assert where.startswith(f"{WEBHOOK}: ")
    assert f"refused the notice to {WEBHOOK}" in found["verdict"]

    found, where = await about_push(town, bob, await ann.send(other, silent=True), "push_skipped")
    assert where == "rule silent"
    assert "is silent" in found["verdict"]
    await bob.call("PUT", f"/v1/chats/{other}/mute", MUTED)
    found, where = await about_push(town, bob, await ann.send(other), "push_skipped")
    assert where == "rule muted"
    assert "because the chat was muted" in found["verdict"]


async def test_a_device_that_took_the_message(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with bob.device() as phone:
        message = await ann.send(chat)
        await phone.frame("entry", sequence=message["sequence"])
        phone.acknowledge()  # at once: the notice waits five seconds for it
        found, where = await about_push(town, bob, message, "push_skipped")
    assert (found["code"], where) == ("acknowledged", "rule taken")


async def test_a_tenant_without_push_and_a_user_without_a_device(server: ServerProcess) -> None:
    async with Town(server.url, server.root_key, "plain") as town:
        chat, (ann, bob) = await friends(town, "ann", "bob")
        message = await ann.send(chat)
        found = await explain(town, bob, message, "never_connected")
        assert found["timeline"][-1] == {
            "at": "unknown", "what": "push_off", "where": "tenant plain",
        }  # fmt: skip
        assert "The tenant uses no push service." in found["verdict"]
        await as_tenant(town, "PUT", "push", {"webpush": {}})
        found, where = await about_push(town, bob, message, "push_no_device")
        assert where == f"user {bob.user_id}"
        assert "No device of the user is registered for push." in found["verdict"]
        assert steps(await explain(town, ann, message, "own_message")) == ["accepted"]


async def test_a_notification_and_its_notice(town: Town) -> None:
    inbox = await Inbox(town).make()
    bob = await town.user("reader")
    notice = (await inbox.post([bob.user_id]))["id"]

    async def is_pushed() -> bool:
        return "pushed" in steps(await ask(town, bob, notification_id=notice))

    await until(is_pushed)
    found = await explain_notice(town, bob, notice, "never_connected")
    assert found["verdict"].endswith(f"A push notice was sent to {WEBHOOK}.")


async def test_a_claim_whose_process_was_killed(
    town: Town, hook: HookServer, server: ServerProcess
) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    hook.asked.clear()
    hook.held[""] = asyncio.Event()
    message = await ann.send(chat)
    await until(lambda: hook.asked)
    found, where = await about_push(town, bob, message, "push_claimed")
    assert where == f"notice of sequence {message['sequence']}"
    assert found["verdict"].endswith("A push notice is being sent.")
    await server.restart()
    hook.held.pop("").set()
    found, where = await about_push(town, bob, message, "push_claimed")
    assert where == f"up to sequence {message['sequence']}"
    assert "A push notice was claimed. What became of it is not kept" in found["verdict"]
    assert "pushed" not in steps(found)
