# SPDX-License-Identifier: Apache-2.0
"""A client that is cut off again and again ends with the same log as one that never was."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from clients.python.tests.chaos_proxy import ChaosProxy
from clients.python.tests.screens import Screen
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tidings_client import Backoff, ChatResynced, Client, EntryEvent, FileStorage

SEED = int(os.environ.get("SEED", "1"))
SETTLE_SECONDS = 60.0


class Story:
    """Alice, behind a bad network, and Bob, with a good one, in two chats."""

    def __init__(
        self, server: ServerProcess, town: Town, proxy: ChaosProxy, folder: Path, cuts: int
    ) -> None:
        self.town = town
        self.proxy = proxy
        self.cuts = cuts
        chance = random.Random(SEED)
        self.alice = Client(
            proxy.url,
            token=lambda: town.token("alice"),
            device="phone",
            storage=FileStorage(folder / "alice.db"),
            backoff=Backoff(chance.uniform, seconds_min=0.005, seconds_max=0.05),
        )
        self.bob = Client(server.url, token=lambda: town.token("bob"), device="desk")
        self.screens = {"alice": Screen(), "bob": Screen()}
        self.chats: list[str] = []
        self.posted: dict[str, list[str]] = {}
        """What Alice posted, by chat, in order."""

    async def make_chats(self) -> None:
        alice = await self.town.user("alice")
        bob, carol = await self.town.user("bob"), await self.town.user("carol")
        self.chats = [
            await alice.create_direct(bob),
            await alice.create_group("three", [bob, carol]),
        ]
        self.posted = {chat: [] for chat in self.chats}

    async def play(self) -> None:
        """Both write until Alice has been cut off often enough; then all comes to rest."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.screens["alice"].follow(self.alice))
            tasks.create_task(self.screens["bob"].follow(self.bob))
            async with asyncio.TaskGroup() as writers:
                writers.create_task(self._alice_writes())
                writers.create_task(self._bob_writes())
            self.proxy.is_gentle = True
            await self._rest()
            await self.alice.close()
            await self.bob.close()

    async def _alice_writes(self) -> None:
        number = 0
        while self.proxy.cuts < self.cuts:
            chat = self.chats[number % 2]
            number += 1
            content = f"alice {number}"
            self.posted[chat].append(content)
            if number % 5 == 0:
                await self.alice.send(chat, content)
            else:
                self.alice.send_nowait(chat, content)
                await asyncio.sleep(0.02)

    async def _bob_writes(self) -> None:
        number = 0
        while self.proxy.cuts < self.cuts:
            number += 1
            await self.bob.send(self.chats[number % 2], f"bob {number}")
            await self.bob.read(self.chats[number % 2], self.screens["bob"].last(self.chats[0]))
            await asyncio.sleep(0.01)

    async def _rest(self) -> None:
        """Wait until everything posted is on both screens, and then one message more."""
        for chat in self.chats:
            await self._shown(chat, self.posted[chat][-1])
            await self.bob.send(chat, "the end")
            await self._shown(chat, "the end")

    async def _shown(self, chat: str, content: str) -> None:
        for screen in self.screens.values():
            await screen.until(partial(_shows, screen, chat, content), SETTLE_SECONDS)


def _shows(screen: Screen, chat: str, content: str) -> bool:
    return content in screen.contents(chat)


@asynccontextmanager
async def a_story(folder: Path, cuts: int) -> AsyncIterator[Story]:
    async with ServerProcess(folder / "server", environment=NO_LIMITS) as server:
        async with (
            Town(server.url, server.root_key) as town,
            ChaosProxy(server.port, SEED) as proxy,
        ):
            story = Story(server, town, proxy, folder, cuts)
            await story.make_chats()
            async with story.bob, story.alice:
                yield story


def places(events: list[EntryEvent]) -> list[tuple[int, str]]:
    return [(event.sequence, type(event).__name__) for event in events]


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [60, pytest.param(1_000, marks=pytest.mark.soak)])
async def test_cut_off_again_and_again(tmp_path: Path, cuts: int) -> None:
    async with a_story(tmp_path, cuts) as story:
        await story.play()
        alice, bob = story.screens["alice"], story.screens["bob"]
        person = await story.town.user("alice")
        assert story.proxy.cuts >= cuts
        assert not [event for event in alice.events if isinstance(event, ChatResynced)]
        for chat in story.chats:
            log = await person.log(chat)
            assert places(alice.shown[chat]) == places(bob.shown[chat])
            assert alice.contents(chat) == bob.contents(chat)
            assert [entry["sequence"] for entry in log] == [
                event.sequence for event in alice.shown[chat]
            ]
            assert alice.contents(chat, "alice") == story.posted[chat]
