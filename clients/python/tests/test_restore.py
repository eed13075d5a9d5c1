# SPDX-License-Identifier: Apache-2.0
"""A backup of a running server, restored: clients follow the new log and keep their outbox."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from clients.python.tests.test_client import a_client, shown
from tests.integration.test_export import with_keys_of
from tests.support.command import tidings
from tests.support.people import Town
from tests.support.server import ServerProcess
from tidings.cli.command_line import main
from tidings_client import ChatResynced

pytestmark = pytest.mark.slow


async def test_a_client_connected_across_a_restore(tmp_path: Path) -> None:
    """What the backup lacks is gone, what the client had not sent is sent, in the new epoch."""
    data, backups, new = tmp_path / "data", tmp_path / "backups", tmp_path / "new"
    async with ServerProcess(data) as server, Town(server.url, server.root_key) as town:
        alice, bob = await town.user("alice"), await town.user("bob")
        chat = await alice.create_direct(bob)
        await bob.send(chat, "before")
        async with shown(a_client(town)) as screen, a_client(town, "bob") as writer:
            made = await tidings("backup", backups, "--data", data)
            assert (made.code, b"master key is NOT in the backup" in made.out) == (0, True), made
            await bob.send(chat, "after the backup")
            await screen.until(lambda: screen.contents(chat) == ["before", "after the backup"])
            await server.terminate()
            writer.send_nowait(chat, "in the outbox")
            with_keys_of(data, new)
            restored = await tidings("restore", backups, "--data", new)
            assert restored.code == 0, restored
            async with ServerProcess(new, port=server.port):
                await screen.until(lambda: screen.contents(chat) == ["before", "in the outbox"])
                log = [entry.get("content") for entry in await bob.log(chat)]
        assert log == [None, "before", "in the outbox"]
        assert any(isinstance(event, ChatResynced) for event in screen.events)


async def test_the_commands_tell_what_they_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def said(*words: str | Path) -> tuple[int, str]:
        code = await asyncio.to_thread(main, [*map(str, words)])
        out, errors = capsys.readouterr()
        return code, out + errors

    data, backups, new = tmp_path / "data", tmp_path / "backups", tmp_path / "new"
    async with ServerProcess(data) as server, Town(server.url, server.root_key) as town:
        alice, bob = await town.user("alice"), await town.user("bob")
        chat = await alice.create_direct(bob)
        await bob.send(chat, "hello")
        drilled = await tidings("drill", backups, "--data", data, "--json", "--keep", "2")
    result = json.loads(drilled.out)
    assert (drilled.code, result["entries"], result["violations"]) == (0, 2, 0), drilled
    again = await tidings("drill", backups, "--data", data)
    assert (again.code, b"2 entries" in again.out) == (0, True), again

    code, text = await said("restore", backups, "--list", "--data", data)
    assert (code, text.count("1 chats")) == (0, 2)
    newest = text.splitlines()[1].split()[0]
    code, text = await said("restore", backups, "--at", "2020-01-01T00:00:00Z", "--data", new)
    assert (code, "there is no backup up to 2020" in text) == (2, True)
    code, text = await said("restore", backups, "--data", data)
    assert (code, "is not empty" in text) == (2, True)
    code, text = await said("restore", backups, "--backup", newest, "--data", new)
    assert (code, "signature was not checked" in text) == (0, True), text
    for key in ("master.key", "root.key"):
        shutil.copy(data / key, new / key)
    code, text = await said("verify", "--data", new, "--progress", tmp_path / "progress")
    assert (code, "0 violations" in text) == (0, True)
    (backups / f"{newest}.keys").write_bytes(b"changed")
    code, text = await said("restore", backups, "--check", "--data", data)
    assert (code, text.count("OK"), f"{newest}.keys was changed" in text) == (1, 1, True)
    code, text = await said("restore", backups, "--data", tmp_path / "newer")
    assert (code, "cannot be restored" in text) == (1, True)
