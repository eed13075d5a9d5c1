# SPDX-License-Identifier: Apache-2.0
"""Backups beside writers, killed at any moment, and of a million messages."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.faults.conftest import Say
from tests.integration.test_export import with_keys_of
from tests.support.command import tidings
from tests.support.people import Person, Town
from tests.support.server import NO_LIMITS, ServerProcess

CHATS: Final = 2_000
USERS: Final = 1_000
SIZE_MAX: Final = 3_600
"""Seconds that a command may take with a million messages beside other work."""


class Sent:
    """The contents that the server has acknowledged."""

    def __init__(self) -> None:
        self.contents: list[str] = []


@asynccontextmanager
async def writers(people: list[Person], chat: str) -> AsyncIterator[Sent]:
    """Everybody writes, one message after the other, inside this context."""
    sent = Sent()

    async def write(person: Person) -> None:
        for number in range(1_000_000):
            content = f"{person.user_id} {number}"
            await person.send(chat, content)
            sent.contents.append(content)

    tasks = [asyncio.create_task(write(person)) for person in people]
    try:
        yield sent
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def killed_backup(data: Path, backups: Path, seconds: float) -> None:
    """A backup that is killed after this time, unless it was faster."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidings", "backup", str(backups), "--data", str(data), "--keep", "2",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), seconds)
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def under_load(tmp_path: Path, data: Path, say: Say, kills: int, seed: int) -> None:
    """Kill backups of a server under load; then make a good one, and look for what was sent."""
    backups, new, chance = tmp_path / "backups", tmp_path / "new", random.Random(seed)
    async with ServerProcess(data, environment=NO_LIMITS) as server:
        async with Town(server.url, server.root_key, "load") as town:
            ann, bob = await town.user("ann"), await town.user("bob")
            chat = await ann.create_direct(bob)
            async with writers([ann, bob], chat) as sent:
                first = await tidings("drill", backups, "--data", data, "--json", seconds=SIZE_MAX)
                assert first.code == 0, first
                for _ in range(kills):
                    await killed_backup(data, backups, chance.uniform(0.2, 3.0))
                    checked = await tidings("restore", backups, "--check", "--data", data)
                    assert checked.code == 0, checked
                before = list(sent.contents)
                second = await tidings("drill", backups, "--data", data, "--json", seconds=SIZE_MAX)
                assert second.code == 0, second
    for name, drilled in (("first", first), ("second", second)):
        say(f"{name} drill: {json.loads(drilled.out)}")
    with_keys_of(data, new)
    restored = await tidings("restore", backups, "--data", new, seconds=SIZE_MAX)
    assert restored.code == 0, restored
    async with ServerProcess(new) as server, Town(server.url, server.root_key, "load") as town:
        ann = await town.user("ann")
        found = {entry.get("content") for entry in await ann.log(chat)}
    assert set(before) <= found
    say(f"{len(before):,} messages were acknowledged before the backup; all are in it")


@pytest.mark.soak
@pytest.mark.parametrize("messages", [1_000, 1_000_000])
async def test_backups_under_load_are_killed_and_lose_nothing(
    tmp_path: Path, say: Say, messages: int
) -> None:
    data, file = tmp_path / "data", tmp_path / "history.jsonl"
    async with ServerProcess(data) as server, Town(server.url, server.root_key, "acme") as town:
        await town.user("u0")
    write_history(file, messages)
    imported = await tidings("import", file, "--history", "acme", "--data", data, seconds=SIZE_MAX)
    assert imported.code == 0, imported
    await under_load(tmp_path, data, say, kills=20, seed=messages)


def write_history(file: Path, messages: int) -> None:
    """A history of groups of five, in the order of time."""
    at = "2026-01-01T00:00:00Z"

    def members(chat: int) -> list[str]:
        return [f"u{(chat * 7 + person * 13) % USERS}" for person in range(5)]

    with file.open("w") as out:

        def line(kind: str, **fields: object) -> None:
            out.write(json.dumps({"kind": kind, **fields}) + "\n")

        line("tidings-history", version=1)
        for user in range(USERS):
            line("user", id=f"u{user}", created_at=at)
        for chat in range(CHATS):
            line("chat", id=f"c{chat}", type="group", name=f"Group {chat}", created_at=at,
                 members=members(chat))  # fmt: skip
        for number in range(messages):
            chat = number * 7_919 % CHATS
            text = f"Message {number}, which somebody wrote to a group once."
            line("message", chat=f"c{chat}", id=f"m{number}", sender=members(chat)[number % 5],
                 created_at=at, content=text)  # fmt: skip
