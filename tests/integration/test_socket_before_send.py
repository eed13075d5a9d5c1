# SPDX-License-Identifier: Apache-2.0
"""A running server asks the hook of a tenant, and the messages of a connection keep their order."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.socket_town import friends, told, troubles
from tests.support.client_socket import Frame, Refused
from tests.support.engine import Settings, as_environment
from tests.support.hook_server import open_hook
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings
) -> AsyncIterator[ServerProcess]:
    environment = as_environment({**settings, "outgoing_allow": "127.0.0.1"})
    data = tmp_path_factory.mktemp("server") / "data"
    async with ServerProcess(data, environment=environment) as running:
        yield running
    assert troubles(running) == []


async def test_messages_of_a_connection_stay_in_order(town: Town) -> None:
    """A busy machine may lose an answer: then the message passes, and still in its order."""
    key = {"Authorization": f"Bearer {await town.tenant_key()}"}
    async with open_hook() as hook:
        hook.held["m0"] = asyncio.Event()
        rule = {"before_send": {"url": hook.url, "timeout_ms": 1_000, "on_failure": "allow"}}
        put = await town.http.put(f"/v1/tenants/{town.tenant}/settings", json=rule, headers=key)
        assert put.is_success, put.text
        chat, (ann, _) = await friends(town, "ann", "bob")
        async with ann.device() as sender:
            for number in range(5):
                name = f"m{number}"
                message = {"client_message_id": name, "content": name}
                sender.tell({"op": "send", "id": name, "chat": chat, **message})
            await until(lambda: len(hook.asked) == 5 or told(sender, "sent"))
            hook.held["m0"].set()
            await until(lambda: len(told(sender, "sent")) == 5)
            assert [frame["id"] for frame in told(sender, "sent")] == [f"m{n}" for n in range(5)]

            hook.answer = {"verdict": "decline", "text": "Not here."}

            async def declined() -> Frame | None:
                message = {"client_message_id": f"d{len(hook.asked)}", "content": "hello"}
                try:
                    await sender.ask({"op": "send", "chat": chat, **message})
                except Refused as refused:
                    return refused.frame
                return None

            frame = await until(declined)
            assert (frame["code"], frame["retryable"]) == ("send.declined", False)
            assert frame["detail"] == "Not here."
