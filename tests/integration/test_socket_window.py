# SPDX-License-Identifier: Apache-2.0
"""The window, and clients that do not read: they wait, they lose nothing, they hold up nobody."""

import asyncio
from typing import Any

import pytest

from tests.integration.engines import no_limits as no_limits
from tests.integration.raw_socket import RawSocket, ws_frame
from tests.integration.socket_town import (
    friends,
    post,
    sequences,
    settled,
    told,
    until_entries,
)
from tests.support.canary import canary
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

WINDOW = 1_000
LARGE = canary("x" * 4_000)


@pytest.mark.attack("C10")
async def test_who_never_says_received_gets_one_window_and_later_the_rest(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    other = await ann.create_direct(bob)
    silent = bob.device()
    silent.acknowledges = False
    async with ann.device() as writer, silent, bob.device("laptop") as witness:
        await until_entries(silent, chat, 1)
        await post(writer, chat, WINDOW + 300)
        await post(writer, other, 5)
        writer.tell({"op": "typing", "chat": chat})
        await witness.until(lambda: len(sequences(witness, other)) == 6)
        await settled(silent)
        await silent.frame("typing", chat=chat)
        assert len(told(silent, "entry")) == WINDOW
        assert len(await bob.history(chat)) == 50, "the rest of the service goes on"

        silent.tell({"op": "received", "chat": chat, "sequence": 200})
        await silent.until(lambda: len(told(silent, "entry")) == WINDOW + 200)
        await settled(silent)
        assert len(told(silent, "entry")) == WINDOW + 200
        silent.acknowledges = True
        await silent.until(lambda: len(sequences(silent, other)) == 6)
        await until_entries(silent, chat, WINDOW + 301)
    assert sequences(silent, chat) == list(range(1, WINDOW + 302))
    assert sequences(silent, other) == list(range(1, 7))


@pytest.mark.attack("C10", "C11")
async def test_acknowledging_entries_never_sent_opens_no_window(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    silent = bob.device()
    silent.acknowledges = False
    async with ann.device() as writer, silent:
        await post(writer, chat, WINDOW + 100)
        await silent.until(lambda: len(told(silent, "entry")) == WINDOW)
        heard = len(silent.raw)
        silent.tell({"op": "received", "chat": chat, "sequence": 10**9})
        refused = await silent.frame("refused", since=heard)
        assert refused["code"] == "receipt.beyond_head"
        await settled(silent)
        assert len(told(silent, "entry")) == WINDOW


@pytest.mark.attack("C09")
async def test_a_client_that_stops_reading_slows_nobody_and_can_come_back(
    town: Town, server: ServerProcess
) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    stuck = await RawSocket.greeted(server.port, bob.token, "stuck", receive_bytes=4_096)
    stuck.stop_reading()
    async with ann.device() as writer, bob.device("laptop") as witness:
        for _ in range(20):
            async with asyncio.TaskGroup() as group:
                for _ in range(100):
                    group.create_task(writer.send(chat, LARGE))
            stuck.tell({"op": "ping"})
        await until_entries(witness, chat, 2_001)
        assert sequences(witness, chat) == list(range(1, 2_002))
    stuck.abort()
    async with bob.device("stuck") as back:
        assert back.resyncs == []
        assert back.logs.have[chat] == 2_001


@pytest.mark.attack("C09")
async def test_a_client_that_asks_and_does_not_read_is_cut_off(
    town: Town, server: ServerProcess
) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as writer, bob.device("laptop") as witness:
        greedy = await RawSocket.greeted(server.port, bob.token, "greedy", receive_bytes=4_096)
        greedy.stop_reading()
        question = ws_frame(b'{"op":"dance","id":"%s"}' % (b"x" * 64))
        async with asyncio.timeout(60):
            while not greedy.is_reset:
                greedy.write(question * 1_000)
                await settled(witness)
        await writer.send(chat)
        await until_entries(witness, chat, 2)


async def test_a_slow_client_may_ask_for_more_than_it_can_take_at_once(
    town: Town, server: ServerProcess
) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as writer, bob.device("laptop") as witness:
        for _ in range(12):
            await writer.send(chat, LARGE)
        async with await RawSocket.greeted(
            server.port, bob.token, "slow", receive_bytes=65_536
        ) as slow:
            slow.stop_reading()
            for number in range(200):
                slow.tell({"op": "fetch", "id": f"{number}", "chat": chat, "after": 1})
            for _ in range(500):
                await settled(witness)
            slow.read_on()
            for number in range(200):
                assert (await slow.frame("page"))["id"] == f"{number}"


async def test_the_tenant_sees_the_connections_of_a_user(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    silent = bob.device("laptop")
    silent.acknowledges = False
    async with ann.device() as writer, bob.device("phone") as phone, silent:
        await writer.send(chat)
        for device in (phone, silent):
            await until_entries(device, chat, 2)
        phone.tell({"op": "received", "chat": chat, "sequence": 2})
        await settled(phone)
        first, second = await _connections(town, bob.user_id)
        assert (first["device"], first["unacknowledged"]) == ("phone", 0)
        assert first["last_received_at"] >= first["since"]
        assert (second["device"], second["unacknowledged"]) == ("laptop", 2)
        assert second["last_received_at"] is None
        assert {one["window"] for one in (first, second)} == {WINDOW}
        assert all(one["process"] for one in (first, second))
    await until(lambda: _connections(town, bob.user_id), equals=[])


async def _connections(town: Town, user: str) -> list[dict[str, Any]]:
    answer = await town.http.get(
        f"/v1/tenants/{town.tenant}/users/{user}/connections",
        headers={"Authorization": f"Bearer {await town.tenant_key()}"},
    )
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()["data"]
    return found
