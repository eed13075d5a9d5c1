# SPDX-License-Identifier: Apache-2.0
"""A server that is killed while it deletes chats ends what it began after each start."""

import asyncio
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.engines import SqliteEngine
from tests.faults.conftest import Say
from tests.support.people import Person, Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until
from tidings.model.ids import ChatId

CHATS = 3
MESSAGES = 300
KILLS = 4
MOMENT_SECONDS_MAX = 0.2


class Deleting:
    """The deletion of one chat, asked for until there is an answer."""

    def __init__(self, owner: Person, chat: str) -> None:
        self._owner = owner
        self.chat = chat
        self.jobs: set[str] = set()
        """All that were answered with: one."""

    async def ask(self) -> dict[str, Any]:
        """The job; empty if the server is gone."""
        try:
            answer = await self._owner.request("DELETE", f"/v1/chats/{self.chat}")
        except httpx.TransportError:
            return {}
        if answer.status_code != 202:
            assert answer.status_code == 503, answer.text
            return {}
        self.jobs.add(answer.json()["job"])
        return dict(answer.json())

    async def phase(self) -> object:
        """How far it is; nothing if the server is gone."""
        return (await self.ask()).get("phase")


async def a_long_chat(ann: Person, bob: Person) -> str:
    chat = await ann.create_group("Plans", [bob])
    async with bob.device() as device:
        await asyncio.gather(*(device.send(chat) for _ in range(MESSAGES)))
    return chat


@pytest.mark.slow
async def test_a_killed_server_goes_on_deleting(tmp_path: Path, say: Say) -> None:
    chance, phases = random.Random(7), set[str]()
    async with ServerProcess(tmp_path / "data", environment=NO_LIMITS) as server:
        async with Town(server.url, server.root_key) as town:
            ann, bob = await town.user("ann"), await town.user("bob")
            all_of_them = [Deleting(ann, await a_long_chat(ann, bob)) for _ in range(CHATS)]
            for kill in range(KILLS):
                asked = asyncio.gather(*(one.ask() for one in all_of_them[: kill + 1]))
                await asyncio.sleep(chance.uniform(0, MOMENT_SECONDS_MAX))
                await server.kill()
                phases |= {job.get("phase", "no answer") for job in await asked}
                await server.start()
            for one in all_of_them:
                await until(one.phase, equals="done")
                assert len(one.jobs) == 1
            assert (await bob.call("GET", "/v1/chats"))["data"] == []
    await check_left(tmp_path / "data", [ChatId(one.chat) for one in all_of_them])
    say(f"{CHATS} chats of {MESSAGES} messages deleted, {KILLS} kills; met {sorted(phases)}")


async def check_left(folder: Path, chats: list[ChatId]) -> None:
    async with SqliteEngine(folder).open() as store:
        for chat in chats:
            job = await store.deletions.get(chat)
            assert job is not None and job.entries == MESSAGES + 2
            seen = 0
            while entries := await store.log.tail(chat, seen):
                assert all(one.box is None and not one.people for one in entries)
                seen = entries[-1].sequence
            assert seen == job.entries
