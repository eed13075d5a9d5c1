# SPDX-License-Identifier: Apache-2.0
"""The master key is changed under load, and across a crash; then the old one opens nothing."""

import asyncio
from pathlib import Path

from tests.support.command import tidings
from tests.support.people import Person, Town
from tests.support.server import ServerDied, ServerProcess
from tests.support.waiting import until
from tidings.assembly.system import SystemChance
from tidings.keyrings import FileKeyring

SENDERS = 4
ROTATIONS = 3
SENDS_BETWEEN_ROTATIONS = 40


class Senders:
    """A few people who write all the time."""

    def __init__(self, people: list[Person], chat: str) -> None:
        self.sent = 0
        self._is_stopped = False
        self._tasks = [asyncio.create_task(self._send(person, chat)) for person in people]

    async def _send(self, person: Person, chat: str) -> None:
        while not self._is_stopped:
            await person.send(chat)
            self.sent += 1

    async def stop(self) -> None:
        self._is_stopped = True
        for task in self._tasks:
            await task


async def rotate(data: Path) -> None:
    done = await tidings("keys", "rotate", "--data", data)
    assert done.code == 0, done.errors


async def all_content(person: Person, chat: str) -> list[str]:
    messages = [entry for entry in await person.log(chat) if entry["kind"] == "message"]
    return [message["content"] for message in messages]


async def test_the_key_changes_while_messages_are_sent(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with ServerProcess(data) as server, Town(server.url, server.root_key) as town:
        people = [await town.user(f"writer-{number}") for number in range(SENDERS)]
        chat = await people[0].create_group("rotation", people[1:])
        senders = Senders(people, chat)
        ids = {FileKeyring(data, SystemChance()).current}
        for _ in range(ROTATIONS):
            enough = senders.sent + SENDS_BETWEEN_ROTATIONS
            await until(lambda enough=enough: senders.sent >= enough)  # type: ignore[misc]
            await rotate(data)
            ids.add(FileKeyring(data, SystemChance()).current)
        await senders.stop()
        assert len(ids) == ROTATIONS + 1
        assert len(await all_content(people[0], chat)) == senders.sent


async def test_a_rotation_goes_on_after_a_crash_and_the_old_key_is_worth_nothing(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    server = ServerProcess(data)
    await server.start()
    async with Town(server.url, server.root_key) as town:
        ann, bob = await town.user("ann"), await town.user("bob")
        chat = await ann.create_direct(bob)
        await ann.send(chat)
        await bob.send(chat)
        await server.kill()
        old = (data / "master.key").read_text()
        # As if it had died right after it chose the new key, before it wrapped anything.
        await FileKeyring(data, SystemChance()).begin_rotation()
        await server.restart()
        await until_one_key_is_left(data)
        assert len(await all_content(ann, chat)) == 2
        assert await server.terminate() == 0
    (data / "master.key").write_text(old)
    try:
        await server.start()
    except ServerDied:
        assert server.exit_code == 2
    else:
        await server.terminate()
        raise AssertionError("the old master key still opens the store")


async def until_one_key_is_left(data: Path) -> None:
    await until(lambda: not FileKeyring(data, SystemChance()).previous)
