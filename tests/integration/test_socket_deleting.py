# SPDX-License-Identifier: Apache-2.0
"""Deleting a chat while devices are connected, on a server that does it by itself."""

import pytest

from tests.integration.engines import socket_engine as socket_engine
from tests.integration.socket_town import friends, refusal, settled, told
from tests.support.people import Person, Town
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def deleted(town: Town, owner: Person, chat: str) -> None:
    """Delete a chat, and wait until nothing is left of it."""
    path = f"/v1/tenants/{town.tenant}/jobs/delete-chat-{chat}"
    headers = {"Authorization": f"Bearer {await town.tenant_key()}"}
    await owner.call("DELETE", f"/v1/chats/{chat}")

    async def phase() -> object:
        return (await town.http.get(path, headers=headers)).json()["phase"]

    await until(phase, equals="done")


@pytest.mark.attack("D09")
async def test_devices_are_told_and_can_write_no_more(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as phone, bob.device() as laptop:
        await laptop.send(chat)
        await deleted(town, ann, chat)
        for device in (phone, laptop):
            entry = await device.frame("entry", chat=chat, kind="deleted")
            assert (entry["sender"], entry["sequence"]) == (ann.user_id, 3)
            for frame in (
                {"op": "send", "id": "s", "client_message_id": "late", "content": "late"},
                {"op": "fetch", "id": "f", "after": 0},
            ):
                said = await refusal(device, {**frame, "chat": chat})
                assert said["code"] == "chat.not_found"
            await settled(device)
            assert [one["sequence"] for one in told(device, "entry", chat=chat)][-1] == 3


@pytest.mark.attack("D09")
async def test_nobody_is_seen_typing_in_it(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as phone, bob.device() as laptop:
        await laptop.send(chat)
        await deleted(town, ann, chat)
        for device in (phone, laptop):
            await device.frame("entry", chat=chat, kind="deleted")
        laptop.tell({"op": "typing", "chat": chat})
        await settled(laptop)
        await settled(phone)
        assert told(phone, "typing", chat=chat) == []


async def test_who_comes_back_later_is_told_that_it_is_gone(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    device = bob.device()
    async with device:
        await device.send(chat)
    await deleted(town, ann, chat)
    async with device:
        await device.frame("gone", chat=chat)
    assert chat not in [one["chat_id"] for one in (await bob.call("GET", "/v1/chats"))["data"]]
