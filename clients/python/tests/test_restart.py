# SPDX-License-Identifier: Apache-2.0
"""A client that is killed and started again on the same file loses nothing and sends all once."""

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.support.people import Person, Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

RUNS: Final = 5
SCRIPT: Final = Path(__file__).with_name("mortal_client.py")


class Life:
    """What one run of the client told before it was killed."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        self.contents: list[str] = []
        self.kept: list[str] = []
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *arguments: str) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(SCRIPT), *arguments, stdout=asyncio.subprocess.PIPE
        )

    async def listen(self, *, until: str | None = None, lines: int = 1_000_000) -> None:
        """Hear so many lines, and at least one entry, or up to the one that shows this content."""
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            while lines > 0 or not self.shown:
                line = (await self._process.stdout.readline()).decode().split()
                if not line:
                    return
                lines -= 1
                if line[0] == "kept":
                    self.kept.append(line[1])
                else:
                    self.shown.append(int(line[1]))
                    self.contents.append(line[2])
                    if line[2] == until:
                        return

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self.listen()
        await self._process.wait()


async def bob_writes(bob: Person, chat: str) -> None:
    number = 0
    while True:
        number += 1
        await bob.send(chat, f"bob-{number}")
        await asyncio.sleep(0.005)


async def live_and_die(tmp_path: Path, confirms: str) -> tuple[list[Life], list[str]]:
    """Several lives, each cut short, and one that ends well; then the contents of the log."""
    chance = random.Random(3)
    lives = [Life() for _ in range(RUNS)]
    async with ServerProcess(tmp_path / "server") as server:
        async with Town(server.url, server.root_key) as town:
            alice, bob = await town.user("alice"), await town.user("bob")
            chat = await alice.create_direct(bob)
            given = (server.url, alice.token, str(tmp_path / "alice.db"), chat)
            writing = asyncio.create_task(bob_writes(bob, chat))
            for run, life in enumerate(lives[:-1]):
                await life.start(*given, str(run), confirms)
                await life.listen(lines=chance.randint(30, 120))
                await life.kill()
            writing.cancel()
            last = lives[-1]
            await last.start(*given, "last", confirms)
            # Posted over REST once the outbox has had its turn: what the last life kept is sent.
            await bob.send(chat, "the-end")
            await last.listen(until="the-end")
            await until_sent(alice, chat, [content for life in lives for content in life.kept])
            await last.kill()
            return lives, [str(entry.get("content", "-")) for entry in await alice.log(chat)]


async def until_sent(alice: Person, chat: str, kept: list[str]) -> None:
    async def missing() -> set[str]:
        return set(kept) - {str(entry.get("content")) for entry in await alice.log(chat)}

    await until(missing, equals=set())


@pytest.mark.slow
@pytest.mark.parametrize("confirms", ["confirms", "relies on batches"])
async def test_killed_and_started_again(tmp_path: Path, confirms: str) -> None:
    lives, log = await live_and_die(tmp_path, confirms)
    reached = 0
    for life in lives:
        assert life.shown == list(range(life.shown[0], life.shown[-1] + 1))
        assert life.shown[0] <= reached + 1, "an entry was lost"
        if confirms == "confirms":
            assert life.shown[0] >= reached, "more than the one in hand was shown again"
        assert life.contents == log[life.shown[0] - 1 : life.shown[-1]]
        reached = life.shown[-1]
    kept = [content for life in lives for content in life.kept]
    assert kept
    assert [content for content in log if content in set(kept)] == kept
    assert max(Counter(log).values()) == 1
